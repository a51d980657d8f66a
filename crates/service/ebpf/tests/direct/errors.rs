//! ICMP errors about replies, which the endpoint's node sends and the first node hears of; and resets.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6,
    SockaddrLike, sendto, socket,
};
use sluice_lab::{Netns, Protocol, Server, Session, eventually, require_netns};

use crate::direct::udp::Flow;
use crate::direct::world::{Agent, PATIENT, POD_PORT, agents, cluster, serve, targets};

/// What the path takes, in bytes.
const MTU: u16 = 1_300;
const UDP: u8 = 17;

/// The beginning of a packet of UDP: the headers of IP and UDP.
fn begin(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 60, UDP, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes.extend([0x60, 0, 0, 0, 5, 0xb4, UDP, 60]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        _ => panic!("{from} and {to} are of two families"),
    }
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend([5, 0xb4, 0, 0]);
    bytes
}

/// A router says that a packet was too long: "fragmentation needed" (RFC 1191), "packet too big" (RFC 4443).
fn too_long(router: &Netns, from: SocketAddr, to: SocketAddr) {
    let [high, low] = MTU.to_be_bytes();
    let about = begin(from, to);
    match from.ip() {
        IpAddr::V4(ip) => {
            let mut message = [&[3, 4, 0, 0, 0, 0, high, low], &about[..]].concat();
            let words = message.chunks(2);
            let words = words.map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])));
            let sum: u32 = words.sum();
            let sum = !((sum & 0xffff) + (sum >> 16));
            let [.., high, low] = sum.to_be_bytes();
            message[2..4].copy_from_slice(&[high, low]);
            let to = SockaddrIn::from(SocketAddrV4::new(ip, 0));
            send(
                router,
                (AddressFamily::Inet, SockProtocol::Icmp),
                &message,
                &to,
            );
        }
        IpAddr::V6(ip) => {
            // The kernel writes the checksum.
            let message = [&[2, 0, 0, 0, 0, 0, high, low], &about[..]].concat();
            let to = SockaddrIn6::from(SocketAddrV6::new(ip, 0, 0, 0));
            let kind = (AddressFamily::Inet6, SockProtocol::IcmpV6);
            send(router, kind, &message, &to);
        }
    }
}

fn send(
    from: &Netns,
    (family, protocol): (AddressFamily, SockProtocol),
    message: &[u8],
    to: &dyn SockaddrLike,
) {
    let open = || socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol);
    let raw = from.run(open).unwrap();
    sendto(raw.as_raw_fd(), message, to, MsgFlags::empty()).unwrap();
}

/// A router on the way of the replies has a smaller MTU. It tells the frontend's address, so the first node; the endpoint
/// hears it, about the packet that it sent.
#[test]
fn endpoints_learn_the_mtu_of_the_path() {
    require_netns!();
    let cluster = cluster();
    let there = cluster.pod("there").netns();
    let _there = Server::start(there, "there", POD_PORT, Protocol::Udp).unwrap();
    let mut agents = agents(&cluster);
    serve(&cluster, &mut agents, "", &[("there", "node-b")]);
    let client = cluster.client("cli");
    for target in targets() {
        let mut flow = Flow::open(client.netns(), target);
        assert_eq!(flow.ask(), Ok(()), "{target}");
        let own: IpAddr = match target {
            SocketAddr::V4(_) => client.ipv4().into(),
            SocketAddr::V6(_) => client.ipv6().into(),
        };
        too_long(client.netns(), target, (own, flow.port()).into());
        let knows = || {
            let listed = there.command("ip", &["route", "get", &own.to_string()]);
            let text = String::from_utf8({ listed }.output().unwrap().stdout).unwrap();
            text.contains(&format!("mtu {MTU}")).then_some(())
        };
        eventually(PATIENT, knows).unwrap_or_else(|| panic!("{target}"));
    }
}

/// The network moves an open connection to another node, which knows nothing of it. The frontend resets it at once.
#[test]
fn a_moved_connection_is_reset() {
    require_netns!();
    let cluster = cluster();
    let here = cluster.pod("here").netns();
    let _here = Server::start(here, "here", POD_PORT, Protocol::Tcp).unwrap();
    let mut agents = agents(&cluster);
    agents.iter_mut().for_each(Agent::carry_all);
    serve(&cluster, &mut agents, "", &[("here", "node-a")]);
    let client = cluster.client("cli");
    let mut sessions = targets().map(|it| Session::connect(client.netns(), it).unwrap());
    for session in &mut sessions {
        session.ping().unwrap();
    }
    for target in targets() {
        client
            .route_via(target.ip().into(), cluster.node("node-b"))
            .unwrap();
    }
    for session in &mut sessions {
        let error = session.ping().unwrap_err();
        assert!(error.to_string().contains("reset by peer"), "{error}");
    }
}
