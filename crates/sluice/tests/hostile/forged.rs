//! Packets with the addresses of others, in the ebpf mode, whose programs see them before the kernel does.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use etherparse::{PacketBuilder, TcpHeader};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use sluice_lab::{Netns, eventually, require_netns};

use crate::hostile::world::{Mode, NODE_PORT, VICTIM, WITHIN, World};

/// Connections of each client.
const CONNECTIONS: usize = 12;
/// Sequence numbers that are tried for each connection and kind of packet.
const GUESSES: u32 = 64;

/// A connection that stays open.
struct Held {
    stream: BufReader<TcpStream>,
    from: SocketAddrV4,
    to: SocketAddrV4,
    /// The endpoint's name is in it.
    answer: String,
}

impl Held {
    fn open(client: &Netns, to: SocketAddrV4) -> Self {
        let stream = client.run(|| TcpStream::connect_timeout(&to.into(), WITHIN));
        let stream = stream.expect("an endpoint accepts");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a time");
        let SocketAddr::V4(from) = stream.local_addr().expect("it is bound") else {
            unreachable!("it is of IPv4");
        };
        let mut held = Self {
            stream: BufReader::new(stream),
            from,
            to,
            answer: String::new(),
        };
        held.line().expect("the server says its name");
        held.answer = held.ask().expect("the endpoint answers");
        held
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("the end".to_owned()),
            Ok(_) => Ok(line),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What the endpoint answers.
    fn ask(&mut self) -> Result<String, String> {
        let sent = self.stream.get_mut().write_all(b"ping\n");
        sent.map_err(|error| error.to_string())?;
        self.line()
    }

    /// Packets of this client's side by somebody who does not know its numbers, with right checksums. A reset is the last
    /// before the SYN: after one that is believed, the SYN gets another endpoint.
    fn forged(&self) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        let kinds: [fn(&mut TcpHeader); 5] = [
            |it| it.ack = true,
            |it| (it.fin, it.ack) = (true, true),
            |it| (it.rst, it.ack) = (true, true),
            |it| it.rst = true,
            |it| it.syn = true,
        ];
        let numbers = (0..GUESSES).map(|it| it * (u32::MAX / GUESSES) + 12_345);
        kinds
            .into_iter()
            .flat_map(move |kind| numbers.clone().map(move |number| self.packet(number, kind)))
    }

    fn packet(&self, number: u32, kind: fn(&mut TcpHeader)) -> Vec<u8> {
        let mut header = TcpHeader::new(self.from.port(), self.to.port(), number, 1024);
        header.acknowledgment_number = !number;
        kind(&mut header);
        let (from, to) = (self.from.ip().octets(), self.to.ip().octets());
        let step = PacketBuilder::ipv4(from, to, 64).tcp_header(header);
        let mut bytes = Vec::new();
        step.write(&mut bytes, &[]).expect("a buffer grows");
        bytes
    }
}

/// Sends packets as they are.
pub(crate) fn send(attacker: &Netns, to: Ipv4Addr, packets: impl Iterator<Item = Vec<u8>>) {
    let open = || {
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Raw)
    };
    let socket = attacker.run(open).expect("root");
    let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
    for packet in packets {
        let sent = sendto(socket.as_raw_fd(), &packet, &to, MsgFlags::empty());
        sent.expect("the packet leaves");
    }
}

/// Neither a machine of the network nor a pod ends a connection of somebody else, or leads it to another endpoint.
#[test]
fn forged_packets_end_no_connection() {
    require_netns!();
    let world = World::new(Mode::Ebpf);
    world.serve(&["one", "two"]);
    world.await_status("two endpoints", |it| it.synced);
    let reached = |wanted: &str| {
        eventually(WITHIN, || {
            (world.ask(VICTIM, 80).name() == Some(wanted)).then_some(())
        })
    };
    for pod in ["one", "two"] {
        assert!(reached(pod).is_some(), "{pod}\n{}", world.tail());
    }
    let node_port = SocketAddrV4::new(world.node(), NODE_PORT);
    let cluster_ip = SocketAddrV4::new(VICTIM, 80);
    let clients = [
        (world.cluster.client("client").netns(), node_port),
        (world.cluster.pod("bystander").netns(), cluster_ip),
    ];
    let mut held: Vec<Held> = clients
        .into_iter()
        .flat_map(|(client, to)| (0..CONNECTIONS).map(move |_| Held::open(client, to)))
        .collect();
    let thief = world.cluster.pod("thief").netns();
    for attacker in [thief, world.cluster.client("attacker").netns()] {
        for it in &held {
            send(attacker, *it.to.ip(), it.forged());
        }
    }
    for it in &mut held {
        let answer = it.ask();
        assert_eq!(answer.as_ref(), Ok(&it.answer), "{} to {}", it.from, it.to);
    }
    let metrics = world.metrics();
    for reason in ["numbers", "source"] {
        let series =
            format!("sluice_forged_packets_total{{ip_family=\"IPv4\",reason=\"{reason}\"}} ");
        let value = metrics.lines().find_map(|it| it.strip_prefix(&*series));
        assert!(value.is_some_and(|it| it != "0"), "{reason}: {value:?}");
    }
}
