//! What is asked, and what must come of it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Somebody asks, and something must come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Who: names of machines (`cli-a node-a client`). The check holds for each of them.
    pub from: &'static str,
    /// What: `host:port/protocol`, for each family that the host has.
    ///
    /// The host is a literal address, a machine, or a name of the scenario world: `web` for a
    /// ClusterIP, `web.lb` for a load balancer's address, `web.ext` for an external IP. Protocols
    /// are `tcp`, `udp`, `sctp`, joined by `+`; `tcp4` or `udp6` ask in one family only.
    pub to: &'static str,
    /// What must come of it.
    pub expect: Expect,
}

/// What must come of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Every one of these endpoints answers some of many questions, and nobody else any.
    Answers {
        /// The endpoints: names of pods, with the port when it is not 8080.
        by: BTreeSet<&'static str>,
        /// Whom they see.
        seen: Seen,
    },
    /// Session affinity: one of the endpoints answers all questions of this client.
    Stays {
        /// The one; `None` when the choice was free.
        with: Option<&'static str>,
        /// The endpoints that a new client could get.
        among: BTreeSet<&'static str>,
    },
    /// Session affinity: after `idle` without a question the client gets another endpoint.
    Moves {
        /// The endpoint it had.
        away_from: &'static str,
        /// The endpoints that a new client could get, the old one included.
        among: BTreeSet<&'static str>,
        /// How long it has to be quiet.
        idle: Duration,
    },
    /// Session affinity: a client that asks more often than once per `timeout` stays, however long
    /// that goes on.
    Refreshes {
        /// The endpoints that a new client could get.
        among: BTreeSet<&'static str>,
        /// After this long without a question it would be forgotten.
        timeout: Duration,
    },
    /// The client hears at once that there is nobody.
    Refused,
    /// The client hears nothing.
    Dropped,
    /// Is none of the proxy's business; the network alone decides.
    Untouched(Then),
}

/// Whom an endpoint sees as its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The client's own address.
    Client,
    /// An address of node-a: masqueraded.
    Node,
    /// The client's own address, except that a client which reaches itself sees node-a.
    ClientUnlessItself,
}

/// What the network does with a packet that no rule touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is delivered to this machine, which answers. `router` answers for every address that
    /// nobody has, and node-a itself on all ports that checks ask for at its own addresses: so a
    /// packet that no rule touches is told from one that is refused or dropped.
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

/// These endpoints answer and see what `seen` says.
pub(super) fn seen(by: &'static str, seen: Seen) -> Expect {
    Expect::Answers {
        by: names(by),
        seen,
    }
}

/// No rule touches it, so this machine answers: `router` for addresses that nobody has.
pub(super) fn left_to(machine: &'static str) -> Expect {
    Expect::Untouched(Then::Answered(machine))
}

/// The client stays with some endpoint.
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
                let whom = match seen {
                    Seen::Client => "sees the client",
                    Seen::Node => "sees node-a",
                    Seen::ClientUnlessItself => "sees the client, or node-a when it is the client",
                };
                write!(f, "answered by each of {}, which {whom}", join(by))
            }
            Self::Stays { with: None, among } => {
                write!(f, "always answered by the same one of {}", join(among))
            }
            Self::Stays {
                with: Some(name), ..
            } => write!(f, "always answered by {name}"),
            Self::Moves {
                away_from, idle, ..
            } => write!(f, "no longer bound to {away_from} after {idle:?}"),
            Self::Refreshes { timeout, .. } => {
                write!(f, "bound anew for {timeout:?} by each question")
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
