//! Checks: clients, a target, and the expected result.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Requests of some clients to one target, and their expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The clients: names of machines (`cli-a node-a client`). The check holds for each of them.
    pub from: &'static str,
    /// The target: `host:port/protocol`, in each family that the host has.
    ///
    /// The host is a literal address, a machine, or a name of the scenario world: `web` for a
    /// ClusterIP, `web.lb` for a load balancer's address, `web.ext` for an external IP. Protocols
    /// are `tcp`, `udp`, `sctp`, joined by `+`; `tcp4` and `udp6` mean one family only.
    pub to: &'static str,
    /// The expected result.
    pub expect: Expect,
}

/// The expected result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Of many requests each of these endpoints answers some, and no other server answers any.
    Answers {
        /// The endpoints: names of pods, with the port when it is not 8080.
        by: BTreeSet<&'static str>,
        /// The client address that they see.
        seen: Seen,
    },
    /// Session affinity: one of the endpoints answers all requests of this client.
    Stays {
        /// That endpoint; `None` means any of `among`.
        with: Option<&'static str>,
        /// The endpoints that a new client could get.
        among: BTreeSet<&'static str>,
    },
    /// Session affinity: after `idle` without a request the client gets another endpoint.
    Moves {
        /// The endpoint it had.
        away_from: &'static str,
        /// The endpoints that a new client could get, the old one included.
        among: BTreeSet<&'static str>,
        /// Time without a request.
        idle: Duration,
    },
    /// Session affinity: a client with more than one request per `timeout` stays with its endpoint.
    Refreshes {
        /// The endpoints that a new client could get.
        among: BTreeSet<&'static str>,
        /// The affinity timeout.
        timeout: Duration,
    },
    /// The client gets a refusal at once.
    Refused,
    /// The client gets no answer.
    Dropped,
    /// No rule of the proxy changes the packet; the network alone decides.
    Untouched(Then),
}

/// The client address that an endpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The client's own address.
    Client,
    /// An address of node-a: masqueraded.
    Node,
    /// The client's own address; an endpoint that is its own client sees an address of node-a.
    ClientUnlessItself,
}

/// What the network does with a packet that no rule changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// This machine answers. `router` answers for every address that no machine has, and node-a on
    /// all ports of its own addresses that checks name. So a packet that no rule changes always gets
    /// an answer, unlike one that is refused or dropped.
    Answered(&'static str),
    /// The machine it is addressed to has no such port.
    Refused,
}

/// These endpoints answer and see the client itself.
pub(super) fn answers(by: &'static str) -> Expect {
    seen(by, Seen::Client)
}

/// These endpoints answer and see an address of node-a.
pub(super) fn masqueraded(by: &'static str) -> Expect {
    seen(by, Seen::Node)
}

/// These endpoints answer and see the address that `seen` names.
pub(super) fn seen(by: &'static str, seen: Seen) -> Expect {
    Expect::Answers {
        by: names(by),
        seen,
    }
}

/// No rule changes the packet, so this machine answers: `router` for addresses without a machine.
pub(super) fn untouched(machine: &'static str) -> Expect {
    Expect::Untouched(Then::Answered(machine))
}

/// The client stays with one of these endpoints.
pub(super) fn stays(among: &'static str) -> Expect {
    Expect::Stays {
        with: None,
        among: names(among),
    }
}

/// The client stays with the endpoint `with`.
pub(super) fn stays_with(with: &'static str, among: &'static str) -> Expect {
    Expect::Stays {
        with: Some(with),
        among: names(among),
    }
}

fn names(text: &'static str) -> BTreeSet<&'static str> {
    text.split_whitespace().collect()
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}: {}", self.from, self.to, self.expect)
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        match self {
            Self::Answers { by, seen } => {
                let client = match seen {
                    Seen::Client => "sees the client",
                    Seen::Node => "sees node-a",
                    Seen::ClientUnlessItself => "sees the client, or node-a when it is the client",
                };
                write!(f, "answered by each of {}, which {client}", join(by))
            }
            Self::Stays { with: None, among } => {
                write!(f, "always answered by the same one of {}", join(among))
            }
            Self::Stays {
                with: Some(name), ..
            } => write!(f, "always answered by {name}"),
            Self::Moves {
                away_from, idle, ..
            } => write!(f, "no longer with {away_from} after {idle:?}"),
            Self::Refreshes { timeout, .. } => {
                write!(f, "affinity renewed for {timeout:?} by each request")
            }
            Self::Refused => f.write_str("refused at once"),
            Self::Dropped => f.write_str("dropped"),
            Self::Untouched(Then::Answered(name)) => {
                write!(f, "left alone, so answered by {name}")
            }
            Self::Untouched(Then::Refused) => f.write_str("left alone, so refused by the machine"),
        }
    }
}
