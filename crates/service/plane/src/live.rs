//! What the kernel does with the packet of an explanation, and where that differs from the plan:
//! `sluice explain --live`.
//!
//! ```text
//! Explanation ─▶ Question ─▶ a data plane reads the kernel ─▶ Findings ─▶ Live
//!                                    walk.rs: rules            compare.rs, flows.rs
//! ```
//!
//! # Invariants
//!
//! - Nothing is written, and no agent is needed.
//! - The data plane follows what the kernel holds. It never computes what an agent would have written, so
//!   the rules of a kube-proxy are read by the same code.

mod compare;
mod display;
mod flows;
mod walk;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Serialize;
use sluice_model::IpFamily;
use sluice_plan::explain::Explanation;
use sluice_plan::lookup::Packet;
use sluice_reconcile::BackendError;

pub use walk::{Chains, End, Step, Walk};

/// What the kernel holds about one packet, compared with the plan. Displays as a few lines for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Live {
    /// The objects of the kernel that carry the decision, in the order of the packet; then the
    /// connections of the client.
    pub evidence: Vec<Evidence>,
    /// Where kernel and plan differ, a sentence each. Empty when the kernel does what the plan says.
    pub differences: Vec<String>,
}

/// An object of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Kind and place, as in `element of map ip sluice frontends`.
    pub what: String,
    /// Its content.
    pub text: String,
    /// Packets that it has counted; `None` when it does not count.
    pub packets: Option<u64>,
    /// Bytes that it has counted; `None` when it does not count them.
    pub bytes: Option<u64>,
}

impl Evidence {
    /// An object without counters.
    pub fn new(what: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            text: text.into(),
            packets: None,
            bytes: None,
        }
    }
}

/// A packet, and the machine that has it.
#[derive(Clone, Debug)]
pub struct Question {
    pub packet: Packet,
    /// Addresses of this machine now, loopback included.
    pub host: BTreeSet<IpAddr>,
}

impl Question {
    /// The packet of an explanation, on this machine.
    ///
    /// # Errors
    ///
    /// The addresses of this machine cannot be read, or the explanation has a protocol that no Service
    /// has.
    pub fn of(explanation: &Explanation) -> Result<Self, BackendError> {
        let protocol = explanation.protocol.parse();
        let protocol = protocol.map_err(|_| BackendError {
            operation: "read the explanation".into(),
            reason: format!("{} is no protocol of Services", explanation.protocol),
            source: None,
        })?;
        let host = sluice_route::addresses();
        let host = host.map_err(|error| BackendError::new("list addresses of this machine", error));
        Ok(Self {
            packet: Packet {
                source: explanation.source,
                destination: explanation.destination.ip(),
                protocol,
                port: explanation.destination.port(),
                interface: explanation.interface.as_deref().map(Into::into),
            },
            host: host?.into_iter().map(|it| it.ip).collect(),
        })
    }

    /// The family of the packet.
    #[must_use]
    pub fn family(&self) -> IpFamily {
        IpFamily::of(&self.packet.destination)
    }

    /// Whether this machine has the address.
    #[must_use]
    pub fn is_ours(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.host.contains(&ip)
    }

    /// Whether this machine sends the packet, which then meets output and not prerouting.
    #[must_use]
    pub fn is_sent_here(&self) -> bool {
        self.packet.interface.is_none() && self.is_ours(self.packet.source)
    }
}

/// What a data plane found in the kernel.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The objects that carry the decision.
    pub evidence: Vec<Evidence>,
    /// Sentences about what is wrong whatever the plan says: a missing table, a missing element.
    pub wrong: Vec<String>,
    /// How the packet may end. Several for random choices.
    pub ends: BTreeSet<End>,
    /// Objects that would have decided and are not there; they are named when the decision differs.
    pub missing: Vec<String>,
}

impl Live {
    /// The findings beside the explanation, and the connections of the client.
    ///
    /// # Errors
    ///
    /// The connections cannot be read.
    pub fn of(
        explanation: &Explanation,
        question: &Question,
        findings: Findings,
    ) -> Result<Self, BackendError> {
        let mut live = Self {
            differences: findings.differences(explanation),
            evidence: findings.evidence,
        };
        flows::add(explanation, question, &mut live)?;
        Ok(live)
    }

    /// The result on a machine that has the rules of no data plane.
    ///
    /// # Errors
    ///
    /// As of [`Live::of`].
    pub fn without_rules(explanation: &Explanation) -> Result<Self, BackendError> {
        let findings = Findings {
            wrong: vec![
                "this machine has no rules of Sluice and none of kube-proxy, in no mode".into(),
            ],
            ends: [End::Past].into(),
            ..Findings::default()
        };
        Self::of(explanation, &Question::of(explanation)?, findings)
    }
}
