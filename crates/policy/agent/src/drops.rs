//! Packets that policies drop, or in audit mode would drop: the last ones, and their log lines.

mod events;
mod packet;
mod reader;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sluice_model::NamespacedName;
use sluice_nft::Kernel;
use sluice_policy_plan::lookup::{Packet, Reason, audited, lookup};
use sluice_policy_plan::{Direction, Outcome, Planner};
use tracing::info;

use crate::Policies;
pub(crate) use events::Events;
pub use reader::listen;

/// How many packets are remembered for whoever asks.
const REMEMBERED: usize = 1_024;
/// A pair of addresses has at most one log line within this time.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// Most pairs with a log line within that time.
const MOST_SAID: usize = 512;

/// A packet that was dropped, or would have been. The kernel tells of one for each pair of addresses in a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyDrop {
    /// When the agent learned of it, RFC 3339.
    pub time: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Whose policies: the source's for egress, the destination's for ingress.
    pub direction: Direction,
    /// Where it came from.
    pub source: End,
    /// Where it was sent to, after the translation of a Service's address.
    pub destination: End,
    /// `tcp`, `udp` or `sctp`; `None` for any other one.
    pub protocol: Option<String>,
    /// Its destination port, where the protocol has ports.
    pub port: Option<u16>,
    /// The policies, as `NetworkPolicy default/web`; none when they changed meanwhile.
    pub policies: Vec<String>,
    /// The reason for a person, after a word for the outcome.
    pub why: String,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub address: IpAddr,
    /// The pods that have the address, as `NAMESPACE/NAME`: one, and none for what is no pod.
    pub pods: Vec<String>,
}

impl End {
    /// An address, and the pods that have it as far as a planner knows.
    #[must_use]
    pub fn of(planner: &Planner, address: IpAddr) -> Self {
        let pods = planner.pods_at(&address);
        Self {
            address,
            pods: pods.iter().map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, pods } = self;
        match &pods[..] {
            [] => write!(f, "{address}"),
            pods => write!(f, "{} ({address})", pods.join(" or ")),
        }
    }
}

impl fmt::Display for PolicyDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            outcome,
            direction,
            source,
            destination,
            protocol,
            port,
            why,
            ..
        } = self;
        write!(f, "{time} {outcome} {direction} {source} to {destination}")?;
        if let (Some(protocol), Some(port)) = (protocol, port) {
            write!(f, " port {port}/{protocol}")?;
        }
        write!(f, ": {why}")
    }
}

/// The packets after one that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyDrops {
    /// How many there were since the agent began. Ask next for those after this one.
    pub last: u64,
    /// How many more the kernel told of than the agent could take.
    pub lost: u64,
    /// Those that are still remembered: 1,024 at most.
    pub drops: Vec<PolicyDrop>,
}

/// How often the kernel told of packets, by the namespace of the pod whose policies these are, or by the policy.
pub(crate) type Reports = BTreeMap<(Arc<str>, Outcome, Direction), u64>;

/// Most entries of [`Reports`]: further ones share the one without a name.
const MOST_REPORTS: usize = 400;

/// The last packets.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    recent: VecDeque<PolicyDrop>,
    last: u64,
    lost: u64,
    pub(crate) reports: Reports,
    pub(crate) by_policy: Reports,
    pub(crate) events: Option<Events>,
    /// When a pair had its last log line.
    said: HashMap<(IpAddr, IpAddr, Outcome, Direction), Instant>,
}

impl Drops {
    /// `pod`: the one whose policies these are.
    fn take(&mut self, pod: Option<&NamespacedName>, drop: PolicyDrop, now: Instant) {
        if self.is_to_be_said(&drop, now) {
            if let (Some(events), Some(pod)) = (&mut self.events, pod) {
                events.tell(pod, &drop, now);
            }
            let PolicyDrop {
                outcome,
                direction,
                source,
                destination,
                port,
                why,
                ..
            } = &drop;
            let protocol = drop.protocol.as_deref();
            info!(%outcome, %direction, %source, %destination, protocol, port, "network policy: {why}");
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(drop);
        self.last += 1;
    }

    fn is_to_be_said(&mut self, drop: &PolicyDrop, now: Instant) -> bool {
        let is_recent = |it: &Instant| now.saturating_duration_since(*it) < SAID_AGAIN;
        let pair = (
            drop.source.address,
            drop.destination.address,
            drop.outcome,
            drop.direction,
        );
        if self.said.get(&pair).is_some_and(is_recent) {
            return false;
        }
        if self.said.len() >= MOST_SAID {
            self.said.retain(|_, it| is_recent(it));
        }
        let has_room = self.said.len() < MOST_SAID;
        if has_room {
            self.said.insert(pair, now);
        }
        has_room
    }

    fn after(&self, after: u64) -> PolicyDrops {
        let new = usize::try_from(self.last.saturating_sub(after)).unwrap_or(usize::MAX);
        let known = self.recent.len().saturating_sub(new);
        PolicyDrops {
            last: self.last,
            lost: self.lost,
            drops: self.recent.iter().skip(known).cloned().collect(),
        }
    }
}

fn count(reports: &mut Reports, mut key: (Arc<str>, Outcome, Direction)) {
    if reports.len() >= MOST_REPORTS && !reports.contains_key(&key) {
        key.0 = "".into();
    }
    *reports.entry(key).or_default() += 1;
}

impl<K: Kernel> Policies<K> {
    /// The packets after the one of this number; `None` when the kernel tells of none.
    pub(crate) fn drops_after(&self, after: u64) -> Option<PolicyDrops> {
        self.is_logging().then(|| self.drops.after(after))
    }

    /// Takes in a packet that the kernel told of, and how many others it could not.
    fn shown(&mut self, outcome: Outcome, direction: Direction, packet: &Packet, lost: u64) {
        self.drops.lost += lost;
        // Rules of an earlier agent, about objects that are not known yet.
        if self.unwritten().is_some() && self.planner().plan().is_empty() {
            return;
        }
        let plan = self.planner().plan();
        let reason = match outcome {
            Outcome::Audited => Reason::Audited(audited(plan, packet, direction)),
            Outcome::Dropped => {
                let decision = lookup(plan, packet);
                match direction {
                    Direction::Egress => decision.egress,
                    Direction::Ingress => decision.ingress,
                }
            }
        };
        let policies: Vec<String> = reason.droppers().iter().map(ToString::to_string).collect();
        let is_current = match outcome {
            Outcome::Audited => !policies.is_empty(),
            Outcome::Dropped => !reason.is_allowed(),
        };
        let why = if is_current {
            reason.cause(direction)
        } else {
            "by rules that have changed since".to_owned()
        };
        let own = match direction {
            Direction::Egress => packet.source,
            Direction::Ingress => packet.destination,
        };
        let pod = self.planner().pods_at(&own).into_iter().next();
        let namespace = pod.as_ref().map(|it| it.namespace.clone());
        let namespace = namespace.unwrap_or_default();
        let drop = PolicyDrop {
            time: format!("{:.3}", Timestamp::now()),
            outcome,
            direction,
            source: End::of(self.planner(), packet.source),
            destination: End::of(self.planner(), packet.destination),
            protocol: packet.port.map(|(protocol, _)| protocol.to_string()),
            port: packet.port.map(|(_, port)| port),
            policies,
            why,
        };
        count(&mut self.drops.reports, (namespace, outcome, direction));
        for policy in &drop.policies {
            let key = (policy.as_str().into(), outcome, direction);
            count(&mut self.drops.by_policy, key);
        }
        self.drops.take(pod.as_ref(), drop, Instant::now());
    }
}

#[cfg(test)]
mod tests;
