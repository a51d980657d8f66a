//! Addresses and port of a packet, from its first bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_model::Protocol;
use sluice_policy_plan::lookup::Packet;

/// Extension headers of IPv6 that may stand before the protocol's (RFC 8200): hop-by-hop options, routing, destination
/// options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// The header of a fragment, which has eight bytes.
const FRAGMENT: u8 = 44;

/// `None` for what is no IP packet, or ends too soon.
pub(super) fn parse(bytes: &[u8]) -> Option<Packet> {
    match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes.first()? & 0xf) * 4;
            let address = |at| Some(IpAddr::from(Ipv4Addr::from(array::<4>(bytes, at)?)));
            Some(Packet {
                source: address(12)?,
                destination: address(16)?,
                port: port(*bytes.get(9)?, bytes.get(header..)?),
            })
        }
        6 => {
            let address = |at| Some(IpAddr::from(Ipv6Addr::from(array::<16>(bytes, at)?)));
            let (mut next, mut rest) = (*bytes.get(6)?, bytes.get(40..)?);
            while EXTENSIONS.contains(&next) || next == FRAGMENT {
                let length = match next {
                    FRAGMENT => 8,
                    _ => 8 + 8 * usize::from(*rest.get(1)?),
                };
                (next, rest) = (*rest.first()?, rest.get(length..)?);
            }
            Some(Packet {
                source: address(8)?,
                destination: address(24)?,
                port: port(next, rest),
            })
        }
        _ => None,
    }
}

/// The destination port has the same place in all three protocols.
fn port(number: u8, header: &[u8]) -> Option<(Protocol, u16)> {
    let mut all = Protocol::ALL.into_iter();
    let protocol = all.find(|it| it.number() == number)?;
    Some((protocol, u16::from_be_bytes(array(header, 2)?)))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with options, then ports 9 and 80.
    #[test]
    fn ipv4() {
        let mut bytes = vec![
            0x46, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        bytes.extend([1, 1, 1, 0, 0, 9, 0, 80]);
        let packet = parse(&bytes).expect("a packet");
        assert_eq!(packet.source.to_string(), "10.0.0.1");
        assert_eq!(packet.destination.to_string(), "10.0.0.2");
        assert_eq!(packet.port, Some((Protocol::Tcp, 80)));
        bytes[9] = 1;
        assert_eq!(parse(&bytes).expect("a packet").port, None, "ICMP");
    }

    #[test]
    fn ipv6_with_extension_headers() {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 60, 64];
        bytes.extend([[0; 15].as_slice(), &[1], &[0; 15], &[2]].concat());
        bytes.extend([FRAGMENT, 1].iter().chain(&[0; 14]));
        bytes.extend([17].iter().chain(&[0; 7]));
        bytes.extend([0, 9, 0, 53]);
        let packet = parse(&bytes).expect("a packet");
        assert_eq!(packet.source.to_string(), "::1");
        assert_eq!(packet.destination.to_string(), "::2");
        assert_eq!(packet.port, Some((Protocol::Udp, 53)));
        for length in 0..bytes.len() - 4 {
            assert_eq!(parse(&bytes[..length]), None, "{length}");
        }
    }
}
