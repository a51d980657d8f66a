//! Clients of the DNS server.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use sluice_lab::Netns;

use crate::measure::Samples;

/// Seconds of each load.
const SECONDS: u32 = 8;

/// Time for the last responses.
const LAST: Duration = Duration::from_millis(500);

/// Ids of queries on their way.
const IDS: usize = 1 << 16;

/// The most queries a second that are answered, as dnsperf finds it; all of them are.
pub(super) fn dnsperf(
    netns: &Netns,
    scratch: &Path,
    server: SocketAddr,
    names: &[String],
    code: &str,
) -> anyhow::Result<u32> {
    let file = scratch.join("queries");
    let lines: String = names.iter().map(|it| format!("{it} A\n")).collect();
    fs::write(&file, lines).context("write queries")?;
    let (address, port) = (server.ip().to_string(), server.port().to_string());
    let (file, seconds) = (file.to_string_lossy(), SECONDS.to_string());
    let arguments = [
        "-c", "1", "dnsperf", "-s", &address, "-p", &port, "-d", &file, "-c", "10", "-q", "200",
        "-l", &seconds,
    ];
    let output = netns.command("taskset", &arguments).output();
    let text = String::from_utf8(output.context("run dnsperf")?.stdout)?;
    let field = |name: &str| {
        let line = text.lines().find_map(|it| it.trim().strip_prefix(name));
        line.with_context(|| format!("dnsperf did not say {name:?}: {text}"))
    };
    let first = |field: &'_ str| {
        field
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    ensure!(
        first(field("Queries lost:")?) == "0",
        "queries were lost: {text}"
    );
    let codes = field("Response codes:")?.trim();
    let is_only = codes.starts_with(code) && codes.ends_with("(100.00%)");
    ensure!(is_only, "not only {code}: {text}");
    Ok(first(field("Queries per second:")?).parse::<f64>()? as u32)
}

/// Asks so often a second, from the second processor; how long each answer took, from the moment that its query
/// was due. Where none came it took [`LAST`].
pub(super) fn paced(server: SocketAddr, names: &[String], rate: u32) -> anyhow::Result<Samples> {
    let mut processors = CpuSet::new();
    processors.set(1)?;
    sched_setaffinity(Pid::from_raw(0), &processors).context("stay on the second processor")?;
    let queries: anyhow::Result<Vec<Vec<u8>>> = names.iter().map(|it| query(it)).collect();
    let mut queries = queries?;
    let socket = connect(server)?;
    socket.set_nonblocking(true)?;
    let total = rate * SECONDS;
    let began = Instant::now();
    let due =
        |number: u32| Duration::from_nanos(u64::from(number) * 1_000_000_000 / u64::from(rate));
    let mut due_of = vec![Duration::ZERO; IDS];
    let mut samples = Samples::default();
    let (mut sent, mut answered) = (0, 0);
    let mut response = [0; 4096];
    while answered < total {
        let now = began.elapsed();
        if sent < total && due(sent) <= now {
            let id = sent as usize % IDS;
            due_of[id] = due(sent);
            let index = sent as usize % queries.len();
            let query = &mut queries[index];
            query[..2].copy_from_slice(&(id as u16).to_be_bytes());
            socket.send(query)?;
            sent += 1;
        }
        match socket.recv(&mut response) {
            Ok(2..) => {
                let id = u16::from_be_bytes([response[0], response[1]]);
                samples.push(began.elapsed() - due_of[usize::from(id)]);
                answered += 1;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if now > due(total) + LAST {
                    (answered..total).for_each(|_| samples.push(LAST));
                    break;
                }
            }
            Err(error) => return Err(error).context("receive a response"),
        }
    }
    Ok(samples)
}

/// The response to a question for the addresses of a name; `None` without one.
pub(super) fn ask(server: SocketAddr, name: &str) -> Option<Message> {
    let socket = connect(server).ok()?;
    socket.set_read_timeout(Some(LAST)).ok()?;
    socket.send(&query(name).ok()?).ok()?;
    let mut response = [0; 4096];
    let length = socket.recv(&mut response).ok()?;
    Message::from_vec(&response[..length]).ok()
}

/// The addresses in a response.
pub(super) fn addresses(response: &Message) -> Vec<IpAddr> {
    let addresses = response.answers.iter().filter_map(|it| match it.data {
        RData::A(it) => Some(it.0.into()),
        _ => None,
    });
    addresses.collect()
}

fn query(name: &str) -> anyhow::Result<Vec<u8>> {
    let mut message = Message::new(1, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_str(name)?, RecordType::A));
    Ok(message.to_vec()?)
}

fn connect(server: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server)?;
    Ok(socket)
}
