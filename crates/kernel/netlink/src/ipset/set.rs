//! Sets without their members.

use crate::attr::{AttrWriter, Attrs};
use crate::family::IpFamily;
use crate::message::Message;

use super::uapi::{
    IPSET_ATTR_CADT_FLAGS, IPSET_ATTR_DATA, IPSET_ATTR_FAMILY, IPSET_ATTR_HASHSIZE,
    IPSET_ATTR_MAXELEM, IPSET_ATTR_PORT, IPSET_ATTR_PORT_TO, IPSET_ATTR_REFERENCES,
    IPSET_ATTR_REVISION, IPSET_ATTR_TYPENAME, NET_ORDER, WITH_SKBINFO,
};

/// The buckets of a new hash when `ipset` is not told otherwise.
pub const HASH_SIZE: u32 = 1024;

/// `bitmap:port`.
const BITMAP_PORT: &str = "bitmap:port";

/// What the members of a hash are made of.
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

impl Fields {
    const ALL: [Self; 5] = [
        Self::Ip,
        Self::IpPort,
        Self::IpPortIp,
        Self::IpPortNet,
        Self::Net,
    ];

    fn type_name(self) -> &'static str {
        match self {
            Self::Ip => "hash:ip",
            Self::IpPort => "hash:ip,port",
            Self::IpPortIp => "hash:ip,port,ip",
            Self::IpPortNet => "hash:ip,port,net",
            Self::Net => "hash:net",
        }
    }

    /// The oldest revisions of the type that know SCTP where there are ports, and marks
    /// (`IPSET_TYPE_REV_*` in the kernel's file of the type).
    fn revisions(self) -> Revisions {
        let (plain, marked) = match self {
            Self::Ip => (0, 4),
            Self::IpPort | Self::IpPortIp => (1, 5),
            Self::IpPortNet => (1, 7),
            Self::Net => (0, 6),
        };
        Revisions { plain, marked }
    }
}

struct Revisions {
    plain: u8,
    marked: u8,
}

/// What a set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A hash.
    Hash {
        /// What its members are made of.
        fields: Fields,
        /// The family of all addresses in it.
        family: IpFamily,
        /// Buckets to begin with, at least 64; it grows. [`HASH_SIZE`] is usual.
        size: u32,
        /// A member more than this is refused. `ipset` makes it 65,536 when it is not told otherwise.
        max_elements: u32,
    },
    /// `bitmap:port`: ports of any protocol between two.
    Ports {
        /// The lowest.
        first: u16,
        /// The highest.
        last: u16,
    },
}

impl Kind {
    /// As `ipset` calls it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Hash { fields, .. } => fields.type_name(),
            Self::Ports { .. } => BITMAP_PORT,
        }
    }

    /// The same, whatever its size.
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

/// A set as it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Set {
    /// What it is.
    pub kind: Kind,
    /// Whether its members may have marks (`skbinfo`).
    pub has_marks: bool,
}

impl Set {
    /// Whether the members of one may be members of the other: all but how large they are is the
    /// same.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.has_marks == other.has_marks && self.kind.without_size() == other.kind.without_size()
    }

    /// How many members it takes at most.
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
        let Revisions { plain, marked } = match self.kind {
            Kind::Hash { fields, .. } => fields.revisions(),
            Kind::Ports { .. } => Revisions {
                plain: 0,
                marked: 3,
            },
        };
        if self.has_marks { marked } else { plain }
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

    fn decode(name: &str, attrs: &Attrs<'_>, data: &Attrs<'_>) -> Option<Self> {
        let number = |kind| data.find(kind)?.u32_be();
        let port = |kind| data.find(kind)?.u16_be();
        let kind = if name == BITMAP_PORT {
            Kind::Ports {
                first: port(IPSET_ATTR_PORT)?,
                last: port(IPSET_ATTR_PORT_TO)?,
            }
        } else {
            let family = attrs.find(IPSET_ATTR_FAMILY)?.u8()?;
            Kind::Hash {
                fields: Fields::ALL.into_iter().find(|it| it.type_name() == name)?,
                family: IpFamily::from_number(family.into())?,
                size: number(IPSET_ATTR_HASHSIZE)?,
                max_elements: number(IPSET_ATTR_MAXELEM)?,
            }
        };
        Some(Self {
            kind,
            has_marks: number(IPSET_ATTR_CADT_FLAGS).unwrap_or(0) & WITH_SKBINFO != 0,
        })
    }
}

/// A set as it is, without its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// As `ipset` calls what it is.
    pub type_name: String,
    /// The revision of its type.
    pub revision: u8,
    /// What it is; `None` for a type that this crate does not make. Its hash may have grown.
    pub set: Option<Set>,
    /// How many rules and sets mention it; it cannot be destroyed while any does.
    pub references: u32,
}

impl Header {
    /// Reads `IPSET_CMD_LIST`; only the first message about a set has all.
    pub(super) fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs();
        let name = attrs.find(IPSET_ATTR_TYPENAME)?.str()?;
        let data = attrs.find(IPSET_ATTR_DATA)?.nested();
        let number = |kind| data.find(kind)?.u32_be();
        Some(Self {
            type_name: name.to_owned(),
            revision: attrs.find(IPSET_ATTR_REVISION)?.u8()?,
            set: Set::decode(name, &attrs, &data),
            references: number(IPSET_ATTR_REFERENCES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(fields: Fields, family: IpFamily, size: u32) -> Kind {
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
        for fields in Fields::ALL {
            kinds.push(hash(fields, IpFamily::V4, 64));
            kinds.push(hash(fields, IpFamily::V6, HASH_SIZE));
        }
        for kind in kinds {
            for has_marks in [false, true] {
                let set = Set { kind, has_marks };
                let mut writer = AttrWriter::new();
                set.put(&mut writer, set.revision());
                let attrs = Attrs::new(writer.as_bytes());
                let data = attrs.find(IPSET_ATTR_DATA).unwrap().nested();
                assert_eq!(Set::decode(kind.type_name(), &attrs, &data), Some(set));
            }
        }
    }

    #[test]
    fn sets_are_alike_however_large_they_are() {
        let set = |kind| Set {
            kind,
            has_marks: false,
        };
        let plain = set(hash(Fields::Ip, IpFamily::V4, 4096));
        let larger = Kind::Hash {
            fields: Fields::Ip,
            family: IpFamily::V4,
            size: HASH_SIZE,
            max_elements: 1 << 20,
        };
        assert!(plain.is_like(&set(larger)));
        for other in [
            hash(Fields::Ip, IpFamily::V6, 4096),
            hash(Fields::Net, IpFamily::V4, 4096),
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
