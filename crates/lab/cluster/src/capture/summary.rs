//! A packet as one line, and the filter of packets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use etherparse::{LaxNetSlice, LaxSlicedPacket, TcpSlice, TransportSlice};

/// Ports of VXLAN: the registered one, the lab's network and direct server return.
const TUNNELS: [u16; 3] = [4789, 8472, 8476];

/// The length of a VXLAN header in bytes (RFC 7348).
const TUNNEL_HEADER: usize = 8;
const TUNNEL_FLAG: u8 = 0x08;

/// The summary of a packet. Displays as `192.168.100.100:40000 > 192.168.100.10:30080 tcp SYN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    ends: Option<(SocketAddr, SocketAddr)>,
    protocol: &'static str,
    /// What follows the protocol, such as the flags of TCP.
    rest: String,
    /// The packet in the tunnel.
    inner: Option<Box<Summary>>,
}

/// Which packets to show; without any condition all of them. A packet in a tunnel is compared, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// One of these is source or destination of the packet; empty for any.
    pub hosts: Vec<IpAddr>,
    /// One of these is source or destination port of the packet; empty for any.
    pub ports: Vec<u16>,
    /// The protocol: `tcp`, `udp`, `icmp`, `arp` and others.
    pub protocol: Option<String>,
}

impl Summary {
    /// Parses an Ethernet frame.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        let unknown = Self {
            ends: None,
            protocol: "ethernet",
            rest: format!("{} bytes", frame.len()),
            inner: None,
        };
        let Ok(packet) = LaxSlicedPacket::from_ethernet(frame) else {
            return unknown;
        };
        let (source, destination): (IpAddr, IpAddr) = match &packet.net {
            Some(LaxNetSlice::Ipv4(it)) => {
                let header = it.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            Some(LaxNetSlice::Ipv6(it)) => {
                let header = it.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            Some(LaxNetSlice::Arp(_)) => {
                return Self {
                    protocol: "arp",
                    ..unknown
                };
            }
            None => return unknown,
        };
        let (ports, protocol, rest) = match &packet.transport {
            Some(TransportSlice::Tcp(it)) => {
                let ports = (it.source_port(), it.destination_port());
                (ports, "tcp", of_tcp(it))
            }
            Some(TransportSlice::Udp(it)) => {
                let ports = (it.source_port(), it.destination_port());
                (ports, "udp", bytes(it.payload().len()))
            }
            Some(TransportSlice::Icmpv4(it)) => {
                let rest = format!("type {} code {}", it.type_u8(), it.code_u8());
                ((0, 0), "icmp", rest)
            }
            Some(TransportSlice::Icmpv6(it)) => {
                let rest = format!("type {} code {}", it.type_u8(), it.code_u8());
                ((0, 0), "icmp6", rest)
            }
            _ => ((0, 0), "ip", bytes(frame.len())),
        };
        let inner = match &packet.transport {
            Some(TransportSlice::Udp(it)) if TUNNELS.contains(&ports.1) => of_tunnel(it.payload()),
            _ => None,
        };
        Self {
            ends: Some((
                SocketAddr::new(source, ports.0),
                SocketAddr::new(destination, ports.1),
            )),
            protocol,
            rest,
            inner,
        }
    }

    fn is_wanted(&self, filter: &Filter) -> bool {
        let ends = self.ends.iter().flat_map(|(from, to)| [*from, *to]);
        let host = ends.clone().any(|it| filter.hosts.contains(&it.ip()));
        let port = ends.clone().any(|it| filter.ports.contains(&it.port()));
        let protocol = filter.protocol.as_deref();
        (filter.hosts.is_empty() || host)
            && (filter.ports.is_empty() || port)
            && protocol.is_none_or(|it| it == self.protocol)
    }
}

impl Filter {
    /// Whether the packet, or the one in its tunnel, meets the conditions.
    #[must_use]
    pub fn wants(&self, packet: &Summary) -> bool {
        let inner = packet.inner.as_ref();
        packet.is_wanted(self) || inner.is_some_and(|it| self.wants(it))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((from, to)) = self.ends else {
            return write!(f, "{} {}", self.protocol, self.rest);
        };
        match (from.port(), to.port()) {
            (0, 0) => write!(f, "{} > {}", from.ip(), to.ip())?,
            _ => write!(f, "{from} > {to}")?,
        }
        match &self.inner {
            Some(inner) => write!(f, " vxlan [{inner}]"),
            None => write!(f, " {} {}", self.protocol, self.rest),
        }
    }
}

fn of_tcp(segment: &TcpSlice<'_>) -> String {
    let flags = [
        (segment.syn(), "SYN"),
        (segment.fin(), "FIN"),
        (segment.rst(), "RST"),
        (segment.ack(), "ACK"),
    ];
    let set = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name);
    let mut words = vec![set.collect::<Vec<_>>().join(",")];
    if !segment.payload().is_empty() {
        words.push(bytes(segment.payload().len()));
    }
    words.join(" ")
}

fn of_tunnel(payload: &[u8]) -> Option<Box<Summary>> {
    let (header, frame) = payload.split_at_checked(TUNNEL_HEADER)?;
    (header[0] & TUNNEL_FLAG != 0).then(|| Box::new(Summary::of(frame)))
}

fn bytes(count: usize) -> String {
    format!("{count} bytes")
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    const CLIENT: [u8; 4] = [192, 168, 100, 100];
    const NODE: [u8; 4] = [192, 168, 100, 10];
    const POD: [u8; 4] = [10, 244, 1, 2];

    fn syn(to: [u8; 4], port: u16) -> Vec<u8> {
        let packet = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(CLIENT, to, 64);
        let mut bytes = Vec::new();
        packet
            .tcp(40000, port, 1, 100)
            .syn()
            .write(&mut bytes, &[])
            .unwrap();
        bytes
    }

    fn tunnelled(frame: &[u8]) -> Vec<u8> {
        let packet = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(NODE, [192, 168, 100, 11], 64);
        let payload = [&[8, 0, 0, 0, 0, 0, 1, 0], frame].concat();
        let mut bytes = Vec::new();
        packet.udp(50000, 8476).write(&mut bytes, &payload).unwrap();
        bytes
    }

    #[test]
    fn a_line_has_both_ends_and_what_is_inside() {
        let lines = [syn(NODE, 30080), tunnelled(&syn(POD, 8080)), vec![1, 2, 3]];
        let lines = lines.map(|it| Summary::of(&it).to_string());
        assert_eq!(
            lines,
            [
                "192.168.100.100:40000 > 192.168.100.10:30080 tcp SYN",
                "192.168.100.10:50000 > 192.168.100.11:8476 vxlan \
                 [192.168.100.100:40000 > 10.244.1.2:8080 tcp SYN]",
                "ethernet 3 bytes",
            ]
        );
    }

    #[test]
    fn conditions_hold_for_the_packet_or_the_one_inside() {
        let filter = |hosts: &[[u8; 4]], ports: &[u16], protocol: Option<&str>| Filter {
            hosts: hosts.iter().map(|it| IpAddr::from(*it)).collect(),
            ports: ports.to_vec(),
            protocol: protocol.map(str::to_owned),
        };
        let (plain, inside) = (syn(NODE, 30080), tunnelled(&syn(POD, 8080)));
        for (filter, of_plain, of_inside) in [
            (filter(&[], &[], None), true, true),
            (filter(&[], &[30080], None), true, false),
            (filter(&[], &[30080, 8080], None), true, true),
            (filter(&[POD], &[], None), false, true),
            (filter(&[], &[], Some("udp")), false, true),
            (filter(&[CLIENT], &[], Some("tcp")), true, true),
            (filter(&[POD], &[8476], None), false, false),
        ] {
            assert_eq!(
                (
                    filter.wants(&Summary::of(&plain)),
                    filter.wants(&Summary::of(&inside))
                ),
                (of_plain, of_inside),
                "{filter:?}"
            );
        }
    }
}
