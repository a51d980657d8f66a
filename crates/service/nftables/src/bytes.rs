//! Keys and endpoints as they lie in the kernel's registers.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_model::{IpFamily, Protocol};
use sluice_nft::{DataRef, Datum, ElementRef, KeyBytes, Reader, Verdict};

use crate::name::{ChainName, netlink};
use crate::object::{Key, Object};
use crate::set::{Element, ElementKey, ElementValue, KeyKind, SetName};

pub(crate) fn encode_key(key: &ElementKey, out: &mut KeyBytes) {
    if let ElementKey::Foreign(key, end) = key {
        out.start.clear();
        out.start.extend(&**key);
        out.end = end.as_ref().map(|it| it.to_vec());
    }
    key.with_fields(|fields| out.set(fields));
}

/// Decodes a key of a set that has no ranges of single addresses; `None` for a key that we would not write.
pub(crate) fn decode_key(
    family: IpFamily,
    kind: KeyKind,
    key: &[u8],
    end: Option<&[u8]>,
) -> Option<ElementKey> {
    let mut reader = Reader(key);
    let family = netlink(family);
    let decoded = match kind {
        KeyKind::Address => ElementKey::Address(reader.address(family)?),
        KeyKind::Range => return None,
        KeyKind::Frontend => {
            let addr = reader.address(family)?;
            let (protocol, port) = transport(&mut reader)?;
            ElementKey::Frontend(addr, protocol, port)
        }
        KeyKind::NodePort => {
            let (protocol, port) = transport(&mut reader)?;
            ElementKey::NodePort(protocol, port)
        }
        KeyKind::FrontendSlot => {
            let addr = reader.address(family)?;
            let (protocol, port) = transport(&mut reader)?;
            ElementKey::FrontendSlot(addr, protocol, port, reader.number()?)
        }
        KeyKind::NodePortSlot => {
            let (protocol, port) = transport(&mut reader)?;
            ElementKey::NodePortSlot(protocol, port, reader.number()?)
        }
        KeyKind::Hairpin => {
            let (source, addr) = (reader.address(family)?, reader.address(family)?);
            let (protocol, port) = transport(&mut reader)?;
            (source == addr).then_some(ElementKey::Hairpin(addr, protocol, port))?
        }
    };
    reader.end()?;
    end.is_none().then_some(decoded)
}

/// An element of a set without ranges of single addresses.
pub(crate) fn decode_element(
    family: IpFamily,
    set: SetName,
    element: &ElementRef<'_>,
) -> (Key, Object) {
    let key = decode_key(family, set.key(), element.key, element.key_end);
    let foreign = || ElementKey::Foreign(element.key.into(), element.key_end.map(Into::into));
    let object = Object::Element(Element {
        value: value(family, element),
        comment: element.comment.map(Arc::from),
    });
    let key = Key::Element(family, set, key.unwrap_or_else(foreign));
    (key, object)
}

fn value(family: IpFamily, element: &ElementRef<'_>) -> ElementValue {
    match element.data {
        None => ElementValue::Member,
        Some(DataRef::Verdict(Verdict::Goto(chain))) => ElementValue::Goto(ChainName::parse(chain)),
        Some(DataRef::Verdict(_)) => ElementValue::Foreign,
        Some(DataRef::Value(bytes)) => match decode_endpoint(family, bytes) {
            Some(addr) => ElementValue::Endpoint(addr),
            None => ElementValue::Foreign,
        },
    }
}

/// Appends the bytes of an endpoint, as `dnat` takes it.
pub(crate) fn encode_endpoint(addr: SocketAddr, out: &mut Vec<u8>) {
    out.clear();
    Datum::Address(addr.ip()).put(out);
    Datum::Port(addr.port()).put(out);
}

pub(crate) fn decode_endpoint(family: IpFamily, bytes: &[u8]) -> Option<SocketAddr> {
    let mut reader = Reader(bytes);
    let addr = reader.address(netlink(family))?;
    let port = reader.port()?;
    reader.end()?;
    Some(SocketAddr::new(addr, port))
}

fn transport(reader: &mut Reader<'_>) -> Option<(Protocol, u16)> {
    let number = reader.protocol()?;
    let protocol = Protocol::ALL.into_iter().find(|it| it.number() == number)?;
    Some((protocol, reader.port()?))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn round_trip(family: IpFamily, kind: KeyKind, key: &ElementKey) {
        let mut bytes = KeyBytes::default();
        encode_key(key, &mut bytes);
        let decoded = decode_key(family, kind, &bytes.start, bytes.end.as_deref());
        assert_eq!(decoded.as_ref(), Some(key));
        let cut = &bytes.start[..bytes.start.len() - 1];
        assert_eq!(decode_key(family, kind, cut, bytes.end.as_deref()), None);
        // Every byte counts, padding too: the kernel holds both keys.
        for at in 0..bytes.start.len() {
            let mut other = bytes.start.clone();
            other[at] ^= 1;
            let decoded = decode_key(family, kind, &other, bytes.end.as_deref());
            assert_ne!(decoded.as_ref(), Some(key), "byte {at}");
        }
    }

    #[test]
    fn keys_survive_the_kernel() {
        for (family, addr) in [
            (IpFamily::V4, "10.96.0.10"),
            (IpFamily::V6, "fd00:10:96::a"),
        ] {
            let addr: IpAddr = addr.parse().unwrap();
            let check = |kind, key| round_trip(family, kind, &key);
            check(KeyKind::Address, ElementKey::Address(addr));
            let protocol = Protocol::Sctp;
            check(KeyKind::Frontend, ElementKey::Frontend(addr, protocol, 80));
            check(KeyKind::NodePort, ElementKey::NodePort(protocol, 30080));
            let slot = ElementKey::FrontendSlot(addr, protocol, 53, 70_000);
            check(KeyKind::FrontendSlot, slot);
            check(
                KeyKind::NodePortSlot,
                ElementKey::NodePortSlot(protocol, 1, 2),
            );
            check(KeyKind::Hairpin, ElementKey::Hairpin(addr, protocol, 65535));
        }
    }
}
