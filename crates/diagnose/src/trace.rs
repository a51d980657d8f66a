//! The way of one packet through netfilter, from its first hook to its last.
//!
//! ```text
//! Request ─▶ Checkpoints: a table of our own with two empty chains at each hook, one before and one
//!            │            behind all others; a rule of the first ones marks one packet of the flow
//!            ├─▶ Sender: one packet from this node, or from the pod's network namespace
//!            ├─▶ Tracer: the kernel's reports about the marked packet
//!            └─▶ Stage for each hook, with a Hop for each rule ─▶ End
//! Witness ─▶ what programs of the ebpf mode did with the packet, before and behind netfilter
//! ```
//!
//! The kernel reports rules of nftables and of `iptables-nft`, whoever owns them. Rules of legacy
//! iptables and IPVS are no part of a report. The checkpoints tell in which hook the packet changed or
//! was lost, and the counters of legacy rules which of them saw a packet meanwhile.
//!
//! # Invariants
//!
//! - Facts come over netlink. A program (`nft`, `iptables-nft`) adds the text of a rule, and its absence
//!   takes away the text alone.
//! - The kernel removes the table when our socket closes, whatever ends this process.

mod cause;
mod checkpoints;
mod display;
mod legacy;
mod namespace;
mod programs;
mod prose;
mod reports;
mod sender;
mod way;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_model::Protocol;
use sluice_netlink::{RequestError, SocketError};
use sluice_nft::CommitError;
use sluice_plane::{Sighting, Watched, Witness};

use reports::Reports;
use sender::Sender;

pub use legacy::LegacyRule;
pub(crate) use namespace::inside;
pub use sender::Answer;
pub use way::{Addresses, End, Hop, Owner, Stage};

/// Time for the way of the packet and for the answer of the other end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time for the answer to a packet that a rule dropped: a rule that rejects answers at once.
const REJECTION: Duration = Duration::from_millis(100);

/// The packet to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Protocol of the packet.
    pub protocol: Protocol,
    /// The sender of the packet.
    pub source: Source,
    pub destination: SocketAddr,
    /// Wait this long for a packet of another sender; `None` sends one.
    pub wait: Option<Duration>,
}

impl Request {
    /// The connection of the packet, as programs watch it.
    #[must_use]
    pub fn watched(&self) -> Watched {
        Watched {
            client: match self.source {
                Source::Node => sender::own_address(self.destination),
                Source::Address(ip) => Some(ip),
                Source::Anyone => None,
            },
            destination: self.destination,
            protocol: self.protocol,
        }
    }
}

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This node, from the address that the kernel chooses.
    Node,
    /// The owner of this address: a pod on this node, or the node itself. Any machine when waiting.
    Address(IpAddr),
    /// Any machine; only when waiting.
    Anyone,
}

/// The way of one packet. Displays as a few lines for a person, a line for each rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// Address and port that the packet was sent to.
    pub destination: SocketAddr,
    /// Where the packet was sent from, in words; `None` when we waited for one.
    pub sent_from: Option<String>,
    /// What programs of the ebpf mode did with the packet and with its answers, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Sighting>,
    /// The hooks that it reached, in their order.
    pub stages: Vec<Stage>,
    /// Rules of legacy iptables that counted packets meanwhile, this one or others.
    pub legacy: Vec<LegacyRule>,
    /// What happened to the packet.
    pub end: End,
    /// The answer that the sender got; `None` when we waited for a packet.
    pub answer: Option<Answer>,
}

impl Trace {
    /// Every rule and end of a chain that the packet met, in their order.
    pub fn hops(&self) -> impl Iterator<Item = &Hop> {
        self.stages.iter().flat_map(|it| &it.hops)
    }
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The sender is not on this machine.
    #[error("{source_ip} is no address of this machine or of a network namespace on it{}, so no packet can be \
        sent from it; --wait 30s waits for a packet of its own", and_unreadable(*.unreadable))]
    Elsewhere {
        /// Address of the sender.
        source_ip: IpAddr,
        /// Namespaces that we could not look into.
        unreadable: usize,
    },
    /// Any sender.
    #[error("no packet can be sent from outside; --wait 30s waits for one that arrives")]
    Anyone,
    /// Source and destination are of different families.
    #[error("{source_ip} cannot send to {destination}: one address is IPv4, the other IPv6")]
    Families {
        /// Address of the sender.
        source_ip: IpAddr,
        /// Address of the destination.
        destination: IpAddr,
    },
    /// The socket of the packet could not be made.
    #[error("open {protocol} socket{}: {errno}", .from.map(|it| format!(" with address {it}")).unwrap_or_default())]
    Socket {
        /// Protocol of the packet.
        protocol: Protocol,
        /// Address of the sender, if given.
        from: Option<IpAddr>,
        /// The kernel's reason.
        errno: nix::Error,
    },
    /// Interfaces or namespaces could not be listed.
    #[error(transparent)]
    List(#[from] RequestError),
    /// The checkpoints could not be made.
    #[error("make table {table} (needs CAP_NET_ADMIN and Linux 5.12): {source}")]
    Checkpoints {
        /// Name of the table.
        table: String,
        /// The kernel's reason.
        source: CommitError,
    },
    /// A socket of netlink failed.
    #[error("trace packets (needs CAP_NET_ADMIN): {0}")]
    Netlink(#[from] SocketError),
}

/// The note about namespaces that could not be searched.
fn and_unreadable(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(
            " ({count} namespaces could not be entered: that needs CAP_SYS_ADMIN and CAP_SYS_PTRACE)"
        ),
    }
}

/// Traces one packet in the network namespace of the calling thread, which must be the node's. `witness` watches
/// [this connection](Request::watched) where programs lead packets to endpoints: before netfilter sees them, mostly.
///
/// # Errors
///
/// Any [`TraceError`]. A packet that is lost, or that never came, is an [`End`].
pub fn trace(
    request: &Request,
    mut witness: Option<&mut (dyn Witness + '_)>,
) -> Result<Trace, TraceError> {
    let destination = request.destination.ip();
    if let Source::Address(source_ip) = request.source
        && source_ip.is_ipv4() != destination.is_ipv4()
    {
        return Err(TraceError::Families {
            source_ip,
            destination,
        });
    }
    let sender = match request.wait {
        None => Some(Sender::open(request)?),
        Some(_) => None,
    };
    let port = sender.as_ref().map(Sender::port);
    let mut checkpoints = programs::checkpoints(request, sender.as_ref(), witness.is_some())?;
    let before = legacy::counters(destination);
    let start = Instant::now();
    let refusal = sender.as_ref().and_then(|it| it.send().err());
    let first = start + request.wait.unwrap_or(PATIENCE);
    let is_seen = witness
        .as_mut()
        .is_some_and(|it| programs::watch(*it, port, first));
    let reports = match &mut checkpoints {
        Some(it) => reports::collect(it, first, refusal.is_some() || is_seen)?,
        None => Reports::default(),
    };
    let stages = checkpoints.map_or_else(Vec::new, |mut it| prose::stages(&mut it, &reports));
    let sightings = |witness: &mut Option<&mut (dyn Witness + '_)>| {
        let seen = witness.as_mut().map(|it| it.seen(port));
        seen.unwrap_or_default()
    };
    let end = way::end(&stages, reports.is_incomplete);
    let end = programs::end(end, &sightings(&mut witness), request);
    let patience = if end.is_denial() {
        Instant::now() + REJECTION
    } else {
        start + PATIENCE
    };
    let answer = sender.as_ref().map(|it| match refusal {
        Some(errno) => Answer::of_error(errno),
        None => it.answer(patience),
    });
    let mut trace = Trace {
        protocol: request.protocol.to_string(),
        destination: request.destination,
        sent_from: sender.map(|it| it.place().to_owned()),
        programs: sightings(&mut witness),
        stages,
        legacy: legacy::more(&before, &legacy::counters(destination)),
        end,
        answer,
    };
    let causes = cause::of(&trace, request, refusal);
    trace.end.set_causes(causes);
    Ok(trace)
}
