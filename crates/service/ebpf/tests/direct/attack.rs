//! Who is no node gets nothing through the tunnel, and a node gets connections of frontends alone.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use etherparse::PacketBuilder;
use sluice_lab::{Cluster, Netns, require_netns};
use sluice_plane::EbpfOptions;

use crate::direct::world::{PATIENT, POD_PORT, agents, cluster, serve, targets};

/// Where the forged packets say that they come from.
const FORGED: (Ipv4Addr, u16) = (Ipv4Addr::new(203, 0, 113, 9), 4_711);

/// What the tunnel carries: a network identifier and the frontend's address in an Ethernet header, then the packet.
fn wrapped(frontend: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    let [high, low] = frontend.port().to_be_bytes();
    let mut bytes = vec![8, 0, 0, 0, 0x51, high, low, 0];
    // The first ten bytes of a mapped address are zeros, the next two are not.
    bytes.extend([0; 6]);
    bytes.extend([0xff, 0xff]);
    bytes.extend(frontend.ip().octets());
    bytes.extend([8, 0]);
    bytes.extend(packet);
    bytes
}

/// An IPv4 packet with a datagram to the endpoint.
fn datagram(pod: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    datagram_to(pod, POD_PORT, payload)
}

fn datagram_to(pod: Ipv4Addr, to_port: u16, payload: &[u8]) -> Vec<u8> {
    let (from, port) = FORGED;
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(from.octets(), pod.octets(), 64)
        .udp(port, to_port)
        .write(&mut bytes, payload)
        .unwrap();
    bytes
}

/// The same packet with other protocols than those of Services, which the kernel would take.
fn others(pod: Ipv4Addr) -> Vec<Vec<u8>> {
    let (from, _) = FORGED;
    let echo = || {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4(from.octets(), pod.octets(), 64)
            .icmpv4_echo_request(1, 1)
            .write(&mut bytes, b"x")
            .unwrap();
        bytes
    };
    // An error about a connection that nobody has.
    let error = || {
        let about = datagram(from, b"about");
        let mut bytes = Vec::new();
        let unreachable = etherparse::Icmpv4Type::DestinationUnreachable(
            etherparse::icmpv4::DestUnreachableHeader::Port,
        );
        PacketBuilder::ipv4(from.octets(), pod.octets(), 64)
            .icmpv4(unreachable)
            .write(&mut bytes, &about)
            .unwrap();
        bytes
    };
    let mut later = datagram(pod, b"a later fragment");
    later[7] = 3;
    let mut all = vec![echo(), error(), later];
    for protocol in [4, 47, 50, 136] {
        let mut bytes = datagram(pod, b"of another protocol");
        bytes[9] = protocol;
        all.push(bytes);
    }
    // The header's sum has changed.
    for bytes in &mut all {
        bytes[10..12].fill(0);
        let words = bytes[..20].chunks(2);
        let sum: u32 = words
            .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16));
        let [.., high, low] = sum.to_be_bytes();
        bytes[10..12].copy_from_slice(&[high, low]);
    }
    all
}

/// Sends to the tunnel's port of node-b.
fn send(cluster: &Cluster, from: &Netns, bytes: &[u8]) {
    let socket = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
    let to = (
        cluster.node("node-b").ipv4(),
        EbpfOptions::default().tunnel_port,
    );
    socket.unwrap().send_to(bytes, to).unwrap();
}

fn nft(netns: &Netns, rules: &str) {
    let loaded = netns.command("nft", &[rules]).status();
    assert!(loaded.unwrap().success());
}

/// How many packets of IPv4 a pod got.
fn received(pod: &Netns) -> u64 {
    let listed = pod
        .command("nft", &["list table ip seen"])
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let (_, after) = text.split_once("packets ").unwrap();
    after.split(' ').next().unwrap().parse().unwrap()
}

/// The datagram at the end shows that everything before it was dropped: packets of one sender keep their order.
#[test]
fn the_tunnel_is_for_connections_of_frontends() {
    require_netns!();
    let cluster = cluster();
    let there = cluster.pod("there");
    let open = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, POD_PORT));
    let server = there.netns().run(open).unwrap();
    server.set_read_timeout(Some(PATIENT)).unwrap();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let SocketAddr::V4(frontend) = targets()[0] else {
        unreachable!("the first one is of IPv4");
    };
    let pod = there.ipv4();
    let good = wrapped(frontend, &datagram(pod, b"of a node"));
    let count =
        "table ip seen { chain every { type filter hook prerouting priority -300; counter; }; }";
    nft(there.netns(), count);
    // Many network plugins let other machines see the node in place of its pods.
    let masquerade =
        "table ip plugin { chain post { type nat hook postrouting priority 100; masquerade; }; }";
    nft(cluster.node("node-a").netns(), masquerade);

    let node = cluster.node("node-a").netns();
    let strangers = [cluster.client("cli").netns(), cluster.pod("here").netns()];
    for stranger in strangers {
        send(&cluster, stranger, &good);
        for other in others(pod) {
            send(&cluster, stranger, &wrapped(frontend, &other));
        }
    }
    // What a node does not send: packets of no Service, to no endpoint, to the other node itself.
    let unknown = SocketAddrV4::new(*frontend.ip(), frontend.port() + 1);
    let node_b = cluster.node("node-b").ipv4();
    for (frontend, packet) in [
        (unknown, datagram(pod, b"to no Service")),
        (frontend, datagram_to(pod, POD_PORT + 1, b"to no endpoint")),
        (frontend, datagram(node_b, b"to the node")),
        (frontend, datagram(Ipv4Addr::LOCALHOST, b"to the node")),
    ] {
        send(&cluster, node, &wrapped(frontend, &packet));
    }
    for other in others(pod) {
        send(&cluster, node, &wrapped(frontend, &other));
    }
    send(&cluster, node, &good);
    let mut bytes = [0; 512];
    let (length, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"of a node");
    assert_eq!(from, SocketAddr::from(FORGED));
    assert_eq!(received(there.netns()), 1);
    server.set_nonblocking(true).unwrap();
    let next = server.recv_from(&mut bytes).map_err(|it| it.kind());
    assert_eq!(next, Err(ErrorKind::WouldBlock));
}
