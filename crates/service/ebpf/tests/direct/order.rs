//! Fragments of a datagram that arrive in another order.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

use etherparse::{IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, UdpHeader};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket,
};
use sluice_lab::{Netns, require_netns};

use crate::direct::udp::{Flow, datagram, echo};
use crate::direct::world::{agent, cluster, serve, settings};

/// The part of a fragment's bytes that is not the last.
const PIECE: usize = 1_232;

/// The packets of a datagram, in order.
fn fragments(from: SocketAddr, to: SocketAddr, id: u16, payload: &[u8]) -> Vec<Vec<u8>> {
    let udp = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => UdpHeader::with_ipv4_checksum(
            from.port(),
            to.port(),
            &Ipv4Header::new(0, 64, IpNumber::UDP, source.octets(), destination.octets()).unwrap(),
            payload,
        ),
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            UdpHeader::with_ipv6_checksum(from.port(), to.port(), &header, payload)
        }
        _ => panic!("{from} and {to} are of two families"),
    };
    let mut whole = udp.unwrap().to_bytes().to_vec();
    whole.extend(payload);
    let pieces = whole.chunks(PIECE).enumerate();
    let last = whole.len().div_ceil(PIECE) - 1;
    pieces
        .map(|(number, piece)| {
            let offset = u16::try_from(number * PIECE / 8).unwrap();
            let offset = IpFragOffset::try_new(offset).unwrap();
            let mut packet = header(from.ip(), to.ip(), id, offset, number != last, piece.len());
            packet.extend(piece);
            packet
        })
        .collect()
}

/// The header of a fragment with so many bytes.
fn header(
    from: IpAddr,
    to: IpAddr,
    id: u16,
    offset: IpFragOffset,
    more: bool,
    length: usize,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = u16::try_from(length).unwrap();
            let header = Ipv4Header {
                identification: id,
                dont_fragment: false,
                more_fragments: more,
                fragment_offset: offset,
                ..Ipv4Header::new(
                    length,
                    64,
                    IpNumber::UDP,
                    source.octets(),
                    destination.octets(),
                )
                .unwrap()
            };
            header.write(&mut bytes).unwrap();
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                payload_length: u16::try_from(length + Ipv6FragmentHeader::LEN).unwrap(),
                next_header: IpNumber::IPV6_FRAGMENTATION_HEADER,
                hop_limit: 64,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            header.write(&mut bytes).unwrap();
            let fragment = Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, id.into());
            fragment.write(&mut bytes).unwrap();
        }
        _ => panic!("{from} and {to} are of two families"),
    }
    bytes
}

/// Sends packets as they are.
fn send(netns: &Netns, to: IpAddr, packets: impl Iterator<Item = Vec<u8>>) {
    let family = if to.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let open = || socket(family, SockType::Raw, SockFlag::empty(), SockProtocol::Raw);
    let socket = netns.run(open).unwrap();
    let to = SockaddrStorage::from(SocketAddr::new(to, 0));
    for packet in packets {
        sendto(socket.as_raw_fd(), &packet, &to, MsgFlags::empty()).unwrap();
    }
}

/// RFC 791, 3.2: in any order. Two clients at once do not get each other's.
#[test]
fn the_first_fragment_may_come_last() {
    require_netns!();
    let cluster = cluster();
    echo(cluster.pod("here").netns());
    let mut agents = [agent(&cluster, "node-a", settings())];
    serve(&cluster, &mut agents, "", &[("here", "node-a")]);
    let client = cluster.client("cli");
    let cluster_ips = ["10.96.0.10:80", "[fd00:10:96::10]:80"];
    for (number, to) in cluster_ips.into_iter().enumerate() {
        let to: SocketAddr = to.parse().unwrap();
        let mut flows = [
            Flow::open(client.netns(), to),
            Flow::open(client.netns(), to),
        ];
        let from: IpAddr = if to.is_ipv4() {
            client.ipv4().into()
        } else {
            client.ipv6().into()
        };
        for length in [1_500, 2_000, 4_900] {
            let payload = datagram(length);
            let ids = [1, 2].map(|it| u16::try_from(length + number).unwrap() * 2 + it);
            let [one, other] = [0, 1].map(|it: usize| {
                let from = SocketAddr::new(from, flows[it].port());
                fragments(from, to, ids[it], &payload)
            });
            let both = one.into_iter().zip(other).rev();
            send(client.netns(), to.ip(), both.flat_map(|(a, b)| [a, b]));
            for flow in &mut flows {
                assert_eq!(flow.comes_back(&payload), Ok(()), "{to}: {length}");
            }
        }
    }
}
