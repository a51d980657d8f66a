//! Connections from this node to endpoints and frontends.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use sluice_model::Protocol;

use super::large::large_packets;
use super::path::{loosen, reverse_path_drops};
use super::report::Finding;
use super::silence::{Outcome, cause};
use crate::any_like;

/// How long an endpoint has to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a UDP endpoint has to refuse. Silence says nothing.
const REFUSAL: Duration = Duration::from_millis(300);
/// Most endpoints that are asked.
const ASKED: usize = 32;

/// What helps where nothing listens on the port of an endpoint.
pub(super) const WHICH_PORT: &str = "targetPort of the Service, or the port of the EndpointSlice: which port does the \
                                     program in the pod listen on?";

/// The destination of a probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
    /// Its name for a person: `web-1 on node-b`, `the ClusterIP`.
    pub(super) name: String,
    /// Whether this is an endpoint; otherwise a frontend.
    pub(super) is_endpoint: bool,
}

/// Connects to each target once, all at the same time.
pub(super) fn probe(targets: &[Target]) -> Vec<Finding> {
    let dropped = reverse_path_drops().unwrap_or_default();
    let mut findings: Vec<Finding> = thread::scope(|scope| {
        let all = targets.iter().take(ASKED);
        let running: Vec<_> = all.map(|it| scope.spawn(move || one(it))).collect();
        let done = running.into_iter().filter_map(|it| it.join().ok());
        done.collect()
    });
    let dropped = reverse_path_drops()
        .unwrap_or_default()
        .saturating_sub(dropped);
    if dropped > 0 {
        let evidence =
            format!("{dropped} packets were dropped by reverse path filtering during the probe");
        findings.push(Finding::fail("rp_filter", evidence).mend(loosen("INTERFACE")));
    }
    let endpoints = targets.iter().take(ASKED).filter(|it| it.is_endpoint);
    findings.extend(large_packets(
        &endpoints.map(|it| it.address.ip()).collect(),
    ));
    findings
}

fn one(target: &Target) -> Finding {
    let (name, address, protocol) = (&target.name, target.address, target.protocol);
    let to = format!("{name} at {address}/{protocol}");
    let result = match protocol {
        Protocol::Tcp => TcpStream::connect_timeout(&address, PATIENCE).map(|_| "answers"),
        Protocol::Udp => ask_udp(address),
        Protocol::Sctp => {
            return Finding::skip("probe", format!("{to}: SCTP is not asked"));
        }
    };
    let error = match result {
        Ok(how) => return Finding::ok("probe", format!("{to} {how}")),
        Err(error) => error,
    };
    let outcome = match error.kind() {
        io::ErrorKind::ConnectionRefused => Outcome::Refused,
        _ => Outcome::Silent,
    };
    let evidence = match (error.kind(), target.is_endpoint) {
        (io::ErrorKind::ConnectionRefused, true) => format!("{to} refuses"),
        (io::ErrorKind::ConnectionRefused, false) => format!("{to} is refused"),
        (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => {
            format!("{to} does not answer within {} s", PATIENCE.as_secs())
        }
        _ => format!("{to}: {error}"),
    };
    if !target.is_endpoint {
        let mend = format!("sluice explain node {address}/{protocol} --live --trace");
        return Finding::fail("probe", evidence).mend(mend);
    }
    let cause = cause(target, outcome);
    match (cause.why, outcome) {
        (Some(why), _) => Finding::fail("probe", format!("{evidence}: {why}")).mend(cause.mend),
        (None, Outcome::Refused) => {
            Finding::fail("probe", format!("{evidence}: nothing listens there")).mend(WHICH_PORT)
        }
        (None, Outcome::Silent) => Finding::fail("probe", evidence).mend(cause.mend),
    }
}

/// Sends an empty datagram. Most programs do not answer it.
fn ask_udp(address: SocketAddr) -> io::Result<&'static str> {
    let socket = UdpSocket::bind(any_like(address.ip()))?;
    socket.set_read_timeout(Some(REFUSAL))?;
    socket.connect(address)?;
    socket.send(&[])?;
    match socket.recv(&mut [0; 64]) {
        Ok(_) => Ok("answers"),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok("does not refuse (UDP)"),
        Err(error) => Err(error),
    }
}
