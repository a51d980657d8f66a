//! What a Service costs the packets of a connection, in each mode and in one run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_ebpf::SocketSetup;
use sluice_lab::{Cluster, OwnCgroup};
use sluice_nftables::{Counting, Nftables};
use sluice_plane::{ServiceBackend, Sockets};

use super::changes::Node;
use super::ebpf;
use super::measure::{Samples, measure_all, micros};
use super::pins::Pins;
use super::synthetic::{self, ENDPOINT_PORT};

/// Services beside the one that is measured.
const SERVICES: u32 = 10_000;
const CONNECTIONS: usize = 3000;
const ROUND_TRIPS: usize = 20_000;
/// Bytes of the stream.
const STREAM: usize = 4 << 30;
const CHUNK: usize = 128 << 10;

/// Who leads the client to the pod.
#[derive(Clone, Copy)]
enum By {
    Nobody,
    Nftables,
    Packets,
    Sockets,
}

/// Prints the table.
pub(super) fn run() -> anyhow::Result<()> {
    println!(
        "One connection at a time from a pod to a pod of the same node, among {SERVICES} Services: \
         connect() p50 of {CONNECTIONS}, round trip of one byte p50 of {ROUND_TRIPS}, a stream of 4 GiB. \
         CPU: of both ends and the way between.\n"
    );
    println!(
        "| by | connect, us | CPU, us | round trip, us | CPU, us | Gbit/s | CPU ms per GiB |\n\
         | --- | --- | --- | --- | --- | --- | --- |"
    );
    for (by, name) in [
        (By::Nobody, "direct"),
        (By::Nftables, "nftables"),
        (By::Packets, "ebpf, packets"),
        (By::Sockets, "ebpf, sockets"),
    ] {
        let row = measure(by)?;
        println!("| {name} | {row} |");
    }
    println!();
    Ok(())
}

fn measure(by: By) -> anyhow::Result<String> {
    let builder = Cluster::builder().node("node-a");
    let cluster = builder
        .pod("server", "node-a")
        .pod("client", "node-a")
        .build()?;
    let pins = Pins::new();
    let cgroup = match by {
        By::Sockets => {
            let root =
                sluice_ebpf::cgroup_root().context("cgroups of version 2 are not mounted")?;
            Some(OwnCgroup::enter(&root)?)
        }
        _ => None,
    };
    let pod = cluster.pod("server");
    let node = cluster.node("node-a").netns();
    let target = match by {
        By::Nobody => SocketAddr::new(pod.ipv4().into(), ENDPOINT_PORT),
        _ => SocketAddr::new(synthetic::cluster_ip(SERVICES - 1), 80),
    };
    let rules: Option<Box<dyn Send>> = node.run(|| {
        let pod = pod.ipv4().into();
        anyhow::Ok(match by {
            By::Nobody => None,
            By::Nftables => {
                let plane = Nftables::connect()?.counting(Counting::Nothing);
                Some(load(plane, pod)?)
            }
            By::Packets => Some(load(ebpf::open(&pins)?, pod)?),
            By::Sockets => {
                let cgroup = cgroup.as_ref().map(|it| it.path().to_owned());
                let sockets = SocketSetup {
                    led: Sockets::All,
                    ended: Sockets::Off,
                    cgroup,
                };
                Some(load(ebpf::open(&pins)?.with_sockets(sockets), pod)?)
            }
        })
    })?;
    let listener = pod
        .netns()
        .run(|| TcpListener::bind(("0.0.0.0", ENDPOINT_PORT)))?;
    thread::spawn(move || serve(&listener));
    let row = cluster.pod("client").netns().run(|| client(target))?;
    drop(rules);
    Ok(row)
}

fn load<P: ServiceBackend + Send + 'static>(
    plane: P,
    pod: std::net::IpAddr,
) -> anyhow::Result<Box<dyn Send>>
where
    Node<P>: Send,
{
    let mut events = synthetic::cluster(SERVICES);
    events.push(synthetic::slice(SERVICES - 1, &[pod]));
    let mut node = Node::new(plane);
    node.absorb(events);
    node.sync()?;
    Ok(Box::new(node))
}

/// Answers a byte with a byte, until a client sends more: then it reads on.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        stream.set_nodelay(true).ok();
        let mut buffer = vec![0; CHUNK];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if count == 1 && stream.write_all(&buffer[..1]).is_err() {
                break;
            }
        }
    }
}

fn client(target: SocketAddr) -> anyhow::Result<String> {
    let open = || TcpStream::connect_timeout(&target, Duration::from_secs(2));
    let mut connects = Samples::default();
    let (result, connecting) = measure_all(|| {
        for _ in 0..CONNECTIONS {
            let started = Instant::now();
            let stream = open().with_context(|| format!("connect to {target}"))?;
            connects.push(started.elapsed());
            drop(stream);
        }
        anyhow::Ok(())
    });
    result?;
    let mut stream = open()?;
    stream.set_nodelay(true)?;
    let mut trips = Samples::default();
    let (result, tripping) = measure_all(|| {
        for _ in 0..ROUND_TRIPS {
            let started = Instant::now();
            stream.write_all(&[1])?;
            stream.read_exact(&mut [0])?;
            trips.push(started.elapsed());
        }
        anyhow::Ok(())
    });
    result?;
    let chunk = vec![7; CHUNK];
    let (result, streaming) = measure_all(|| {
        for _ in 0..STREAM / CHUNK {
            stream.write_all(&chunk)?;
        }
        anyhow::Ok(())
    });
    result?;
    let gigabits = STREAM as f64 * 8.0 / 1e9 / streaming.wall.as_secs_f64();
    let per_gibibyte = streaming.cpu.as_secs_f64() * 1e3 / (STREAM >> 30) as f64;
    let each = |cpu: Duration, count: usize| micros(cpu / u32::try_from(count).unwrap_or(1));
    Ok(format!(
        "{} | {} | {} | {} | {gigabits:.1} | {per_gibibyte:.0}",
        micros(connects.percentile(50)),
        each(connecting.cpu, CONNECTIONS),
        micros(trips.percentile(50)),
        each(tripping.cpu, ROUND_TRIPS),
    ))
}
