//! Properties of sets.

use crate::attr::{AttrWriter, Attrs};
use crate::family::Family;
use crate::message::Message;

use super::uapi::{
    IPSET_ATTR_CADT_FLAGS, IPSET_ATTR_DATA, IPSET_ATTR_FAMILY, IPSET_ATTR_HASHSIZE,
    IPSET_ATTR_MAXELEM, IPSET_ATTR_PORT, IPSET_ATTR_PORT_TO, IPSET_ATTR_REFERENCES,
    IPSET_ATTR_REVISION, IPSET_ATTR_TYPENAME, NET_ORDER, WITH_SKBINFO,
};

/// The buckets of a new hash, by default.
pub const HASH_SIZE: u32 = 1024;

/// The fields of the members of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fields {
    /// `hash:ip`
    Ip,
    /// `hash:ip,port`
    IpPort,
    /// `hash:ip,port,ip`
    IpPortIp,
    /// `hash:ip,port,net`
    IpPortNet,
    /// `hash:net`
    Net,
}

/// A type of sets, as the kernel knows it.
struct Type {
    /// `None`: `bitmap:port`.
    fields: Option<Fields>,
    name: &'static str,
    /// The oldest revision that knows SCTP, where there are ports (`IPSET_TYPE_REV_*` in the
    /// kernel's file of the type).
    revision: u8,
    /// The oldest revision that knows marks.
    revision_with_marks: u8,
}

const fn of(fields: Option<Fields>, name: &'static str, revisions: (u8, u8)) -> Type {
    Type {
        fields,
        name,
        revision: revisions.0,
        revision_with_marks: revisions.1,
    }
}

static TYPES: [Type; 6] = [
    of(None, "bitmap:port", (0, 3)),
    of(Some(Fields::Ip), "hash:ip", (0, 4)),
    of(Some(Fields::IpPort), "hash:ip,port", (1, 5)),
    of(Some(Fields::IpPortIp), "hash:ip,port,ip", (1, 5)),
    of(Some(Fields::IpPortNet), "hash:ip,port,net", (1, 7)),
    of(Some(Fields::Net), "hash:net", (0, 6)),
];

/// The type of a set, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Hash {
        /// The fields of its members.
        fields: Fields,
        /// The family of all addresses in it.
        family: Family,
        /// Buckets at first, at least 64; the hash grows. The default is [`HASH_SIZE`].
        size: u32,
        /// The most members. The default of `ipset` is 65,536.
        max_elements: u32,
    },
    /// `bitmap:port`: a range of ports, of any protocol.
    Ports {
        /// The lowest port.
        first: u16,
        /// The highest port.
        last: u16,
    },
}

impl Kind {
    fn set_type(&self) -> &'static Type {
        let fields = match self {
            Self::Hash { fields, .. } => Some(*fields),
            Self::Ports { .. } => None,
        };
        let mut types = TYPES.iter();
        types.find(|it| it.fields == fields).expect("all are there")
    }

    /// The name that `ipset` uses for the type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.set_type().name
    }

    /// With all sizes set to 0, for comparisons.
    fn without_size(self) -> Self {
        match self {
            Self::Hash { fields, family, .. } => Self::Hash {
                fields,
                family,
                size: 0,
                max_elements: 0,
            },
            ports @ Self::Ports { .. } => ports,
        }
    }

    /// 0 for a set without addresses.
    pub(super) fn family_number(&self) -> u8 {
        match self {
            Self::Hash { family, .. } => family.number(),
            Self::Ports { .. } => 0,
        }
    }
}

/// The properties of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Set {
    /// Its type.
    pub kind: Kind,
    /// Whether its members may have marks (`skbinfo`).
    pub has_marks: bool,
}

impl Set {
    /// Whether both sets can have the same members: they are equal but for their sizes.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.has_marks == other.has_marks && self.kind.without_size() == other.kind.without_size()
    }

    /// The most members that the set can have.
    #[must_use]
    pub fn max_elements(&self) -> u32 {
        match self.kind {
            Kind::Hash { max_elements, .. } => max_elements,
            Kind::Ports { first, last } => u32::from(last.saturating_sub(first)) + 1,
        }
    }

    /// The oldest revision of the type that has what this set needs: the more versions of `ipset`
    /// can list it.
    pub(super) fn revision(&self) -> u8 {
        let set_type = self.kind.set_type();
        if self.has_marks {
            set_type.revision_with_marks
        } else {
            set_type.revision
        }
    }

    /// Writes what follows the name in `IPSET_CMD_CREATE`.
    pub(super) fn put(&self, writer: &mut AttrWriter, revision: u8) {
        writer.string(IPSET_ATTR_TYPENAME, self.kind.type_name());
        writer.u8(IPSET_ATTR_REVISION, revision);
        writer.u8(IPSET_ATTR_FAMILY, self.kind.family_number());
        writer.nested(IPSET_ATTR_DATA, |data| {
            match self.kind {
                Kind::Hash {
                    size, max_elements, ..
                } => {
                    data.u32_be(IPSET_ATTR_HASHSIZE | NET_ORDER, size);
                    data.u32_be(IPSET_ATTR_MAXELEM | NET_ORDER, max_elements);
                }
                Kind::Ports { first, last } => {
                    data.u16_be(IPSET_ATTR_PORT | NET_ORDER, first);
                    data.u16_be(IPSET_ATTR_PORT_TO | NET_ORDER, last);
                }
            }
            if self.has_marks {
                data.u32_be(IPSET_ATTR_CADT_FLAGS | NET_ORDER, WITH_SKBINFO);
            }
        });
    }

    /// `None` for a type that this crate does not create.
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let name = attrs.str(IPSET_ATTR_TYPENAME)?;
        let data = attrs.nested(IPSET_ATTR_DATA);
        let kind = match TYPES.iter().find(|it| it.name == name)?.fields {
            None => Kind::Ports {
                first: data.u16_be(IPSET_ATTR_PORT)?,
                last: data.u16_be(IPSET_ATTR_PORT_TO)?,
            },
            Some(fields) => Kind::Hash {
                fields,
                family: Family::from_number(attrs.u8(IPSET_ATTR_FAMILY)?)?,
                size: data.u32_be(IPSET_ATTR_HASHSIZE)?,
                max_elements: data.u32_be(IPSET_ATTR_MAXELEM)?,
            },
        };
        let flags = data.u32_be(IPSET_ATTR_CADT_FLAGS).unwrap_or(0);
        Some(Self {
            kind,
            has_marks: flags & WITH_SKBINFO != 0,
        })
    }
}

/// A set in the kernel, without its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its properties; `None` for a type that this crate does not create. A hash may have grown.
    pub set: Option<Set>,
    /// The number of rules and sets that use it. Only an unused set can be destroyed.
    pub references: u32,
}

impl Header {
    /// Reads `IPSET_CMD_LIST`; `None` for the second and later messages about a set.
    pub(super) fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs();
        Some(Self {
            set: Set::decode(&attrs),
            references: attrs
                .nested(IPSET_ATTR_DATA)
                .u32_be(IPSET_ATTR_REFERENCES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(fields: Fields, family: Family, size: u32) -> Kind {
        Kind::Hash {
            fields,
            family,
            size,
            max_elements: 65536,
        }
    }

    #[test]
    fn sets_read_back() {
        let mut kinds = vec![Kind::Ports {
            first: 0,
            last: 65535,
        }];
        for fields in TYPES.iter().filter_map(|it| it.fields) {
            kinds.push(hash(fields, Family::Ipv4, 64));
            kinds.push(hash(fields, Family::Ipv6, HASH_SIZE));
        }
        for kind in kinds {
            for has_marks in [false, true] {
                let set = Set { kind, has_marks };
                let mut writer = AttrWriter::new();
                set.put(&mut writer, set.revision());
                let attrs = Attrs::new(writer.as_bytes());
                assert_eq!(Set::decode(&attrs), Some(set));
            }
        }
    }

    #[test]
    fn sets_are_alike_however_large_they_are() {
        let set = |kind| Set {
            kind,
            has_marks: false,
        };
        let plain = set(hash(Fields::Ip, Family::Ipv4, 4096));
        let larger = Kind::Hash {
            fields: Fields::Ip,
            family: Family::Ipv4,
            size: HASH_SIZE,
            max_elements: 1 << 20,
        };
        assert!(plain.is_like(&set(larger)));
        for other in [
            hash(Fields::Ip, Family::Ipv6, 4096),
            hash(Fields::Net, Family::Ipv4, 4096),
            Kind::Ports { first: 0, last: 9 },
        ] {
            assert!(!plain.is_like(&set(other)), "{other:?}");
        }
        let marked = Set {
            has_marks: true,
            ..plain
        };
        assert!(!plain.is_like(&marked));
    }
}
