//! Keys and values as they lie in the kernel's registers.
//!
//! Each field of a concatenation starts at a multiple of four bytes. Addresses and ports are in
//! network byte order, slots in the host's: `numgen` writes a plain `u32`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};

use crate::set::{ElementKey, KeyKind};

/// The bytes of an element's key; `end` only in sets of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyBytes {
    pub(crate) start: Vec<u8>,
    /// The first address after the range, or empty when it reaches the end of the address space.
    pub(crate) end: Option<Vec<u8>>,
}

/// Encodes a key.
pub(crate) fn encode_key(key: &ElementKey, out: &mut KeyBytes) {
    out.start.clear();
    out.end = None;
    let start = &mut out.start;
    match key {
        ElementKey::Address(addr) => put_addr(start, *addr),
        ElementKey::Range(net) => {
            put_addr(start, net.network());
            let mut end = Vec::new();
            if let Some(next) = successor(net.broadcast()) {
                put_addr(&mut end, next);
            }
            out.end = Some(end);
        }
        ElementKey::Frontend(addr, protocol, port) => {
            put_addr(start, *addr);
            put_transport(start, *protocol, *port);
        }
        ElementKey::NodePort(protocol, port) => put_transport(start, *protocol, *port),
        ElementKey::FrontendSlot(addr, protocol, port, slot) => {
            put_addr(start, *addr);
            put_transport(start, *protocol, *port);
            start.extend(slot.to_ne_bytes());
        }
        ElementKey::NodePortSlot(protocol, port, slot) => {
            put_transport(start, *protocol, *port);
            start.extend(slot.to_ne_bytes());
        }
        ElementKey::Hairpin(addr, protocol, port) => {
            put_addr(start, *addr);
            put_addr(start, *addr);
            put_transport(start, *protocol, *port);
        }
        ElementKey::Foreign(key, end) => {
            start.extend(&**key);
            out.end = end.as_ref().map(|it| it.to_vec());
        }
    }
}

/// Decodes a key of a set that has no ranges of single addresses; `None` when we would not have
/// written it.
pub(crate) fn decode_key(
    family: IpFamily,
    kind: KeyKind,
    key: &[u8],
    end: Option<&[u8]>,
) -> Option<ElementKey> {
    let mut reader = Reader(key);
    let decoded = match kind {
        KeyKind::Address => ElementKey::Address(reader.addr(family)?),
        KeyKind::Range => return None,
        KeyKind::Frontend => {
            let addr = reader.addr(family)?;
            let (protocol, port) = reader.transport()?;
            ElementKey::Frontend(addr, protocol, port)
        }
        KeyKind::NodePort => {
            let (protocol, port) = reader.transport()?;
            ElementKey::NodePort(protocol, port)
        }
        KeyKind::FrontendSlot => {
            let addr = reader.addr(family)?;
            let (protocol, port) = reader.transport()?;
            ElementKey::FrontendSlot(addr, protocol, port, reader.slot()?)
        }
        KeyKind::NodePortSlot => {
            let (protocol, port) = reader.transport()?;
            ElementKey::NodePortSlot(protocol, port, reader.slot()?)
        }
        KeyKind::Hairpin => {
            let (source, addr) = (reader.addr(family)?, reader.addr(family)?);
            let (protocol, port) = reader.transport()?;
            (source == addr).then_some(ElementKey::Hairpin(addr, protocol, port))?
        }
    };
    (end.is_none() && reader.0.is_empty()).then_some(decoded)
}

/// The address of these bytes.
pub(crate) fn decode_addr(family: IpFamily, bytes: &[u8]) -> Option<IpAddr> {
    Reader(bytes).addr(family)
}

/// An endpoint as `dnat` takes it.
pub(crate) fn encode_endpoint(addr: SocketAddr, out: &mut Vec<u8>) {
    out.clear();
    put_addr(out, addr.ip());
    out.extend(addr.port().to_be_bytes());
    out.extend([0, 0]);
}

/// The endpoint of these bytes.
pub(crate) fn decode_endpoint(family: IpFamily, bytes: &[u8]) -> Option<SocketAddr> {
    let mut reader = Reader(bytes);
    let addr = reader.addr(family)?;
    let port = reader.port()?;
    reader.0.is_empty().then(|| SocketAddr::new(addr, port))
}

/// The address after this one; `None` after the last.
pub(crate) fn successor(addr: IpAddr) -> Option<IpAddr> {
    match addr {
        IpAddr::V4(addr) => {
            let next = u32::from(addr).checked_add(1)?;
            Some(Ipv4Addr::from(next).into())
        }
        IpAddr::V6(addr) => {
            let next = u128::from(addr).checked_add(1)?;
            Some(Ipv6Addr::from(next).into())
        }
    }
}

/// The prefix that holds exactly these addresses; `None` when there is none.
pub(crate) fn prefix(first: IpAddr, last: IpAddr) -> Option<IpNet> {
    let (span, width) = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            (u128::from(u32::from(first) ^ u32::from(last)), 32)
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => (u128::from(first) ^ u128::from(last), 128),
        _ => return None,
    };
    let host_bits = u128::BITS - span.leading_zeros();
    let len = u8::try_from(width - host_bits).ok()?;
    let net = IpNet::new(first, len).ok()?;
    (net.network() == first && net.broadcast() == last).then_some(net)
}

/// The bytes of an address, in network byte order.
pub(crate) fn octets(addr: IpAddr) -> Vec<u8> {
    let mut out = Vec::new();
    put_addr(&mut out, addr);
    out
}

fn put_addr(out: &mut Vec<u8>, addr: IpAddr) {
    match addr {
        IpAddr::V4(addr) => out.extend(addr.octets()),
        IpAddr::V6(addr) => out.extend(addr.octets()),
    }
}

fn put_transport(out: &mut Vec<u8>, protocol: Protocol, port: u16) {
    out.extend([protocol.number(), 0, 0, 0]);
    out.extend(port.to_be_bytes());
    out.extend([0, 0]);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn addr(&mut self, family: IpFamily) -> Option<IpAddr> {
        Some(match family {
            IpFamily::V4 => IpAddr::from(self.take::<4>()?),
            IpFamily::V6 => IpAddr::from(self.take::<16>()?),
        })
    }

    fn transport(&mut self) -> Option<(Protocol, u16)> {
        let [number, 0, 0, 0] = self.take()? else {
            return None;
        };
        let protocol = Protocol::ALL.into_iter().find(|it| it.number() == number)?;
        Some((protocol, self.port()?))
    }

    fn port(&mut self) -> Option<u16> {
        match self.take()? {
            [high, low, 0, 0] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    fn slot(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn prefixes_are_found_from_both_ends() {
        let check = |first: &str, last: &str, expected: Option<&str>| {
            let found = prefix(first.parse().unwrap(), last.parse().unwrap());
            assert_eq!(
                found,
                expected.map(|it| it.parse().unwrap()),
                "{first}-{last}"
            );
        };
        check("10.0.0.0", "10.255.255.255", Some("10.0.0.0/8"));
        check("10.0.0.1", "10.0.0.1", Some("10.0.0.1/32"));
        check("0.0.0.0", "255.255.255.255", Some("0.0.0.0/0"));
        check("fd00::", "fd00::ffff:ffff:ffff:ffff", Some("fd00::/64"));
        check("10.0.0.1", "10.0.0.2", None);
        check("10.0.0.4", "10.0.0.3", None);
    }
}
