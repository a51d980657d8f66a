//! How each set is declared to the kernel, and described to nft.

use sluice_model::IpFamily;
use sluice_nft::rule::{Field, Side};
use sluice_nft::shape::{Shape, Value};
use sluice_nft::{Set, SetFlags};

use crate::name::netlink;
use crate::object::{Key, Object};
use crate::set::{Counting, KeyKind, SLOT, SetName};
use crate::source_list::SourceList;

/// Clients that one service port may have; the kernel wants a limit for sets that rules fill. More
/// connections than this are not tracked by default (`nf_conntrack_max` of a machine with 4 GiB), and
/// a client without a place in the set still gets an endpoint.
const STICKY_CLIENTS: u32 = 262_144;

/// The clients of a service port: address and label.
const STICKY: Shape<'static> = Shape {
    key: &[Field::Address(Side::Source), SLOT],
    value: Value::None,
};

/// The addresses of a list of sources.
pub(crate) const SOURCES: Shape<'static> = Shape {
    key: &[Field::Address(Side::Source)],
    value: Value::None,
};

/// The set of an object with the fields of its elements; `None` for an object that is no set.
pub(crate) fn of(key: &Key, object: &Object) -> Option<(Set, Shape<'static>)> {
    Some(match (key, object) {
        (Key::Set(family, name), Object::Set(it)) => (standing(*family, *name, *it), name.shape()),
        (Key::NamedSet(family, name), Object::Sticky(it)) => (sticky(*family, name, it), STICKY),
        (Key::Sources(family, list), Object::Sources(_)) => (sources(*family, *list), SOURCES),
        _ => return None,
    })
}

/// The declaration of a set that is always there.
pub(crate) fn standing(family: IpFamily, name: SetName, counting: Counting) -> Set {
    Set {
        flags: match name.key() {
            KeyKind::Range => SetFlags::INTERVAL,
            _ => SetFlags::NONE,
        },
        counter: counting == Counting::Connections,
        comment: Some(name.comment().to_owned()),
        ..name.shape().set(netlink(family), name.as_str())
    }
}

/// The declaration of a set that remembers clients, with a comment for people.
pub(crate) fn sticky(family: IpFamily, name: &str, comment: &str) -> Set {
    Set {
        flags: SetFlags::TIMEOUT | SetFlags::DYNAMIC,
        size: Some(STICKY_CLIENTS),
        comment: Some(sluice_nft::text::comment(comment).into_owned()),
        ..STICKY.set(netlink(family), name)
    }
}

/// The declaration of a list of sources.
pub(crate) fn sources(family: IpFamily, list: SourceList) -> Set {
    Set {
        flags: SetFlags::INTERVAL,
        ..SOURCES.set(netlink(family), list.to_string())
    }
}

#[cfg(test)]
mod tests {
    use sluice_nft::SetData;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|it| format!("{it:02x}")).collect()
    }

    /// What nft 1.0.6 itself writes for
    /// `typeof ip daddr . meta l4proto . th dport . numgen random mod 1 : ip daddr . th dport`.
    #[test]
    fn endpoints_are_described_as_nft_describes_them() {
        let set = standing(IpFamily::V4, SetName::Endpoints, Counting::Nothing);
        assert_eq!(set.key_type, 0x001c_c344);
        assert_eq!(set.key_length, 16);
        assert_eq!(
            set.data,
            Some(SetData::Value {
                type_id: 0x1cd,
                length: 8
            })
        );
        assert_eq!(
            hex(&set.userdata),
            "000400000000010400000000036000040d00000001580014000407000000010c00040c00000001040c00\
             0000010e00040900000001060004100000000214000407000000010c00040b000000010402000000031a\
             0004170000000112000401000000010401000000020400000000043400040d000000012c001400040700\
             0000010c00040c0000000104\
             0c0000000114000407000000010c00040b000000010402000000"
        );
    }
}
