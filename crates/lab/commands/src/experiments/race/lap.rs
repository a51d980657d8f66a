//! One measurement: one data plane with so many Services.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sluice_cluster::alone;
use sluice_lab::{Agent, Cluster, Outcome, Probe, Protocol, Server};
use sluice_node::client;

use super::manifests::{ENDPOINT_PORT, Folder, SERVICE_PORT};
use super::process;
use crate::output::say;

/// Number of connections, and of first packets. The result is the median.
const SAMPLES: usize = 500;

/// Number of changes of the endpoint. The result is the median.
const CHANGES: usize = 9;

/// Timeout of a change.
const CHANGE: Duration = Duration::from_secs(60);

/// Timeout of a connection, and of an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Names of the servers.
const SERVERS: [&str; 2] = ["one", "two"];

/// More flags of the agent: no health server, and sysctls of the whole machine stay as they are.
const FLAGS: [&str; 6] = [
    "--healthz-bind-address",
    "",
    "--conntrack-max-per-core",
    "0",
    "--oom-score-adj",
    "0",
];

/// What is measured. Times are medians.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Lap {
    /// From a datagram on a new socket to its answer, in microseconds.
    pub(super) first_packet_us: f64,
    /// `connect()` over TCP, in microseconds.
    pub(super) connect_us: f64,
    /// From a changed manifest to the first connection that the new endpoint answers, in milliseconds.
    pub(super) update_ms: f64,
    /// CPU time of the agent and its programs for one such change, in milliseconds: the mean.
    pub(super) update_cpu_ms: f64,
    /// CPU time of the agent and its programs until all rules are in the kernel, in seconds.
    pub(super) start_cpu_s: f64,
    /// Largest resident memory of the agent, in MiB.
    pub(super) memory_mib: f64,
}

/// Measures in the namespaces of this process and prints what it found; `sluice lab lap`.
pub(crate) fn run(mode: &str, services: u32) -> anyhow::Result<()> {
    // Before the mounts change: the path is one of the present mounts.
    let program = std::env::current_exe().context("find the path of this program")?;
    alone::begin()?;
    let lap = measure(&program, mode, services)?;
    say!("{}", serde_json::to_string(&lap)?);
    Ok(())
}

/// Binds this thread, and threads that it starts, to one processor: waking another processor takes longer than the rules
/// of a Service, and does not happen each time.
fn stay_on_one_processor() -> anyhow::Result<()> {
    let this = Pid::from_raw(0);
    let all = sched_getaffinity(this).context("read the processors")?;
    let first = (0..CpuSet::count()).find(|it| all.is_set(*it) == Ok(true));
    let mut one = CpuSet::new();
    one.set(first.context("there is no processor")?)?;
    sched_setaffinity(this, &one).context("stay on one processor")
}

/// Two pods that take turns as the endpoint, and a third one that dials.
fn measure(program: &Path, mode: &str, services: u32) -> anyhow::Result<Lap> {
    let mut cluster = Cluster::builder().node("node-a").pod("client", "node-a");
    for name in SERVERS {
        cluster = cluster.pod(name, "node-a");
    }
    let cluster = cluster.build()?;
    // `/run` is a mount of this mount namespace: it ends with it.
    let scratch = PathBuf::from("/run/race");
    std::fs::create_dir(&scratch).context("make /run/race")?;
    let pods = SERVERS.map(|it| cluster.pod(it).ipv4());
    let folder = Folder::new(scratch.join("manifests"), services, pods[0])?;
    let manifests = folder.path.to_string_lossy();
    let flags = ["--manifests", &manifests, "--proxy-mode", mode];
    let flags = [&flags[..], &FLAGS].concat();
    let node = cluster.node("node-a");
    let agent = Agent::start(program, node, &scratch, &flags, client::is_synced)?;
    let start_cpu = process::cpu(agent.pid())?;
    // Servers and clients, which start now; the agent keeps all processors.
    stay_on_one_processor()?;
    let start = |name| {
        let start =
            |protocol| Server::start(cluster.pod(name).netns(), name, ENDPOINT_PORT, protocol);
        Ok([start(Protocol::Tcp)?, start(Protocol::Udp)?])
    };
    let servers = SERVERS.map(start);
    let servers: Vec<_> = servers.into_iter().collect::<anyhow::Result<_>>()?;
    let target = SocketAddr::new(folder.dialled(), SERVICE_PORT);
    let netns = cluster.pod("client").netns();
    let (connect, first_packet) = netns.run(|| -> anyhow::Result<_> {
        Ok((median(connect, target)?, median(first_packet, target)?))
    })?;
    let before = process::cpu(agent.pid())?;
    let update = netns.run(|| update(&folder, target, pods))?;
    let update_cpu = process::cpu(agent.pid())?.saturating_sub(before);
    let memory_mib = process::peak_mib(agent.pid())?;
    drop((agent, servers));
    Ok(Lap {
        first_packet_us: first_packet.as_secs_f64() * 1e6,
        connect_us: connect.as_secs_f64() * 1e6,
        update_ms: update.as_secs_f64() * 1e3,
        update_cpu_ms: update_cpu.as_secs_f64() * 1e3 / CHANGES as f64,
        start_cpu_s: start_cpu.as_secs_f64(),
        memory_mib,
    })
}

fn median(
    sample: impl Fn(SocketAddr) -> anyhow::Result<Duration>,
    target: SocketAddr,
) -> anyhow::Result<Duration> {
    let samples = (0..SAMPLES).map(|_| sample(target));
    middle(samples.collect::<anyhow::Result<_>>()?)
}

fn middle(mut samples: Vec<Duration>) -> anyhow::Result<Duration> {
    samples.sort_unstable();
    let middle = samples.get(samples.len() / 2).copied();
    middle.context("nothing was measured")
}

fn connect(target: SocketAddr) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let stream = TcpStream::connect_timeout(&target, ANSWER);
    let took = started.elapsed();
    stream.with_context(|| format!("connect to {target}"))?;
    Ok(took)
}

/// A new socket is a new flow: its first packet passes all rules.
fn first_packet(target: SocketAddr) -> anyhow::Result<Duration> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("make a socket")?;
    socket.connect(target).context("choose an address")?;
    socket.set_read_timeout(Some(ANSWER))?;
    let started = Instant::now();
    socket.send(b"who?\n")?;
    let answer = socket.recv(&mut [0; 512]);
    let took = started.elapsed();
    answer.with_context(|| format!("an answer of {target}/udp"))?;
    Ok(took)
}

/// The two pods take turns as the endpoint. Returns the median of the times until a connection reaches the new one.
fn update(folder: &Folder, target: SocketAddr, pods: [Ipv4Addr; 2]) -> anyhow::Result<Duration> {
    let mut samples = Vec::new();
    for change in 1..=CHANGES {
        let next = change % 2;
        let started = Instant::now();
        folder.replace(pods[next])?;
        samples.push(until_answered_by(SERVERS[next], target, started)?);
    }
    middle(samples)
}

fn until_answered_by(name: &str, target: SocketAddr, started: Instant) -> anyhow::Result<Duration> {
    loop {
        let outcome = Probe::tcp(target).timeout(ANSWER).ask();
        let took = started.elapsed();
        match outcome {
            Outcome::Answered { name: by, .. } if by == name => return Ok(took),
            outcome if took > CHANGE => bail!("{CHANGE:?} after a change {target}: {outcome}"),
            // The pause grows with the time so far, so that a long wait makes no more connections than a short one.
            #[expect(clippy::disallowed_methods, reason = "a pause between attempts")]
            _ => thread::sleep(took / 50),
        }
    }
}
