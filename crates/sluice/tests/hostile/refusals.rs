//! Refusals that a flood asks for. The ebpf mode answers in its programs, where the kernel's own limits do not hold.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use etherparse::{PacketBuilder, TcpHeader};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use sluice_lab::{Outcome, eventually, require_netns};

use crate::hostile::forged::send;
use crate::hostile::world::{Mode, NODE_PORT, WITHIN, World};

/// Packets of each kind.
const PACKETS: u16 = 1500;
/// A client's answers at once, and how often it gets another one.
const BURST: u128 = 20;
const INTERVAL: Duration = Duration::from_millis(10);

/// A SYN whose checksum differs from the right one by these bits.
fn syn(from: SocketAddrV4, to: SocketAddrV4, wrong: u16) -> Vec<u8> {
    let mut header = TcpHeader::new(from.port(), to.port(), 1000, 1024);
    header.syn = true;
    let (source, destination) = (from.ip().octets(), to.ip().octets());
    let mut bytes = Vec::new();
    let step = PacketBuilder::ipv4(source, destination, 64).tcp_header(header);
    step.write(&mut bytes, &[]).expect("a buffer grows");
    for (byte, wrong) in bytes[36..38].iter_mut().zip(wrong.to_be_bytes()) {
        *byte ^= wrong;
    }
    bytes
}

/// Thousands of SYNs to a Service without endpoints get some resets, those with wrong checksums none, and another client gets
/// its own.
#[test]
fn a_flood_gets_few_answers() {
    require_netns!();
    let world = World::new(Mode::Ebpf);
    world.serve(&[]);
    let is_refused = || world.ask(world.node(), NODE_PORT) == Outcome::Refused;
    let refused = || eventually(WITHIN, || is_refused().then_some(()));
    assert!(refused().is_some(), "{}", world.tail());

    let attacker = world.cluster.client("attacker");
    let to = SocketAddrV4::new(world.node(), NODE_PORT);
    let open = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Tcp)
    };
    let answers = attacker.netns().run(open).expect("root");
    setsockopt(&answers, sockopt::RcvBuf, &(8 << 20)).expect("some memory");
    let count = || {
        let mut packet = [0; 128];
        let mut got = || recv(answers.as_raw_fd(), &mut packet, MsgFlags::empty());
        let count = std::iter::from_fn(|| got().ok()).count() as u128;
        assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::WouldBlock);
        count
    };
    let flood = |wrong| {
        let ports = 10_000..10_000 + PACKETS;
        let packets = ports.map(|port| syn(SocketAddrV4::new(attacker.ipv4(), port), to, wrong));
        send(attacker.netns(), world.node(), packets);
        // What was sent has been answered by now: the network keeps the order.
        assert!(is_refused(), "another client");
        count()
    };
    assert_eq!(flood(1), 0, "wrong checksums");
    let begin = Instant::now();
    let answered = flood(0);
    let grown = begin.elapsed().as_nanos() / INTERVAL.as_nanos() + 1;
    assert!(
        (1..=BURST + grown).contains(&answered),
        "{answered} answers, {grown} more than at once"
    );
}
