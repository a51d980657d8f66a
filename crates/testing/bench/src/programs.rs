//! What each way through the programs of packets costs.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use anyhow::{Context, bail};
use etherparse::{NetHeaders, PacketBuilder, PacketHeaders, TransportHeader};
use sluice_ebpf::{Direction, Ebpf, Facts, Maps, Trial};
use sluice_lab::Cluster;
use sluice_route::link;

use super::changes::Node;
use super::ebpf;
use super::measure::{Samples, count};
use super::pins::Pins;
use super::synthetic::{self, SERVICE_PORT};

const SERVICES: u32 = 10_000;
/// Runs with one packet each.
const RUNS: u16 = 10_000;
/// Runs in a row with a packet that stays the same.
const ROW: u32 = 100_000;
/// The client's port of the first run.
const FIRST_PORT: u16 = 20_000;
/// A port that sockets get by themselves.
const SOCKET: u16 = 40_000;

/// Prints the table.
pub(super) fn run() -> anyhow::Result<()> {
    println!(
        "Programs with one packet of IPv4 (BPF_PROG_TEST_RUN), of TCP but where UDP is named, {} Services, ns: p50 of \
         {} runs by themselves, and the mean of {} in a row where the packet stays the same.\n",
        count(SERVICES),
        count(RUNS.into()),
        count(ROW)
    );
    println!("| program | packet | by itself | in a row |\n| --- | --- | --- | --- |");
    let cluster = Cluster::builder()
        .node("node-a")
        .client("outside")
        .build()?;
    cluster.node("node-a").netns().run(|| {
        let pins = Pins::new();
        let mut node = Node::new(ebpf::open(&pins, Facts::default())?);
        let mut events = synthetic::cluster(SERVICES);
        events.push(synthetic::slice(0, &[]));
        node.first_sync(events)?;
        let interface = link("eth0")?.context("the node has no eth0")?.index;
        let plane = node.0.reconciler_mut().backend_mut();
        Bench { plane, interface }.print()
    })?;
    println!();
    Ok(())
}

/// Programs in a network namespace, and the interface whose packets they get.
struct Bench<'a> {
    plane: &'a Ebpf,
    interface: u32,
}

/// How a packet meets the programs.
#[derive(Clone, Copy)]
enum Way {
    /// It arrives.
    In,
    /// It arrived, and leaves.
    Out,
    /// A socket of the node sends it.
    Sent,
}

impl Bench<'_> {
    fn print(&self) -> anyhow::Result<()> {
        let service = SocketAddrV4::new(v4(synthetic::cluster_ip(1))?, SERVICE_PORT);
        let empty = SocketAddrV4::new(v4(synthetic::cluster_ip(0))?, SERVICE_PORT);
        let other = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443);
        let client = |port| SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 7), port);
        let known = client(FIRST_PORT - 1);
        let opening = self.run(Way::In, &frame(Kind::First, known, service)?)?;
        let endpoint = destination(&opening.packet)?;
        let request = frame(Kind::Later, known, endpoint)?;
        let new: anyhow::Result<Vec<_>> = (FIRST_PORT..FIRST_PORT + RUNS)
            .map(|port| frame(Kind::First, client(port), service))
            .collect();
        let to_other = vec![frame(Kind::Later, known, other)?];
        let datagram = vec![frame(Kind::Datagram, client(SOCKET), other)?];
        let in_reach = vec![frame(Kind::Datagram, known, other)?];
        let reply = vec![frame(Kind::Later, endpoint, known)?];
        let later = vec![frame(Kind::Later, known, service)?];
        let refused = vec![frame(Kind::First, known, empty)?];
        self.row(Way::In, "of no Service", &to_other)?;
        self.row(Way::Out, "of no Service", &to_other)?;
        self.row(Way::In, "of no Service, UDP", &datagram)?;
        self.row(Way::Out, "of no Service, UDP", &datagram)?;
        self.row(Way::Sent, "of no Service, UDP of the node", &datagram)?;
        let name = "of no Service, UDP of the node from a port that masquerades others";
        self.row(Way::Sent, name, &in_reach)?;
        self.row(Way::In, "first of a connection", &new?)?;
        self.row(Way::In, "request", &later)?;
        self.row(Way::Out, "request", &[request])?;
        self.row(Way::In, "reply", &reply)?;
        self.row(Way::Out, "reply", &reply)?;
        self.row(Way::In, "refused", &refused)?;
        self.masquerade()?;
        let arrived: anyhow::Result<Vec<_>> = (FIRST_PORT..FIRST_PORT + RUNS)
            .map(|port| {
                let other = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 8), port);
                Ok(self
                    .run(Way::In, &frame(Kind::First, other, service)?)?
                    .packet)
            })
            .collect();
        self.row(Way::Out, "first of a masqueraded connection", &arrived?)
    }

    /// From here on clients of ClusterIPs are masqueraded.
    fn masquerade(&self) -> anyhow::Result<()> {
        let mut maps = Maps::open(self.plane.programs().pins())?;
        maps.change_node(|it| it.families[0].masquerades_cluster_ips = [1, 1, 1, 0])?;
        Ok(())
    }

    /// Measures a program with these packets in turn.
    fn row(&self, way: Way, name: &str, packets: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut samples = Samples::default();
        for packet in packets.iter().cycle().take(RUNS.into()) {
            samples.push(self.run(way, packet)?.took);
        }
        let packet = packets.first().context("a packet")?;
        let stays = self.run(way, packet)?.packet == *packet;
        let in_a_row = if stays {
            self.repeat(way, packet, ROW)?.took.as_nanos().to_string()
        } else {
            String::new()
        };
        let program = match way {
            Way::In => "ingress",
            Way::Out | Way::Sent => "egress",
        };
        let alone = samples.percentile(50).as_nanos();
        println!("| {program} | {name} | {alone} | {in_a_row} |");
        Ok(())
    }

    fn run(&self, way: Way, packet: &[u8]) -> anyhow::Result<Trial> {
        self.repeat(way, packet, 1)
    }

    fn repeat(&self, way: Way, packet: &[u8], times: u32) -> anyhow::Result<Trial> {
        let (direction, arrived) = match way {
            Way::In => (Direction::In, self.interface),
            Way::Out => (Direction::Out, self.interface),
            Way::Sent => (Direction::Out, 0),
        };
        let programs = self.plane.programs();
        Ok(programs.try_packet(direction, self.interface, arrived, packet, times)?)
    }
}

/// A packet of a connection.
#[derive(Clone, Copy)]
enum Kind {
    First,
    Later,
    /// Of UDP.
    Datagram,
}

fn frame(kind: Kind, from: SocketAddrV4, to: SocketAddrV4) -> anyhow::Result<Vec<u8>> {
    let ip =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from.ip().octets(), to.ip().octets(), 64);
    let mut bytes = Vec::new();
    if let Kind::Datagram = kind {
        ip.udp(from.port(), to.port()).write(&mut bytes, &[])?;
        return Ok(bytes);
    }
    let tcp = ip.tcp(from.port(), to.port(), 1, 64_000);
    let tcp = match kind {
        Kind::First => tcp.syn(),
        _ => tcp.ack(1),
    };
    tcp.write(&mut bytes, &[])?;
    Ok(bytes)
}

/// Where a packet goes.
fn destination(frame: &[u8]) -> anyhow::Result<SocketAddrV4> {
    let headers = PacketHeaders::from_ethernet_slice(frame)?;
    match (headers.net, headers.transport) {
        (Some(NetHeaders::Ipv4(ip, _)), Some(TransportHeader::Tcp(tcp))) => {
            let address = Ipv4Addr::from(ip.destination);
            Ok(SocketAddrV4::new(address, tcp.destination_port))
        }
        _ => bail!("the program made something else of a packet of TCP"),
    }
}

fn v4(address: IpAddr) -> anyhow::Result<Ipv4Addr> {
    match address {
        IpAddr::V4(it) => Ok(it),
        IpAddr::V6(it) => bail!("{it} is not IPv4"),
    }
}
