//! Network policy: the verdict of this node on every connection to and from its pods.
//!
//! ```text
//! Event ─▶ Planner ─▶ Plan: sets of peers, chains of policies, profiles, addresses of pods
//!         planner.rs    └──▶ lookup.rs: one connection, and why
//! ```
//!
//! A [`Plan`] is a map of pieces, so that a change costs what it changes: a pod's new label moves some members of sets
//! and perhaps one address to another profile, a policy's change touches its chain and the sets that it needs.
//!
//! # Invariants
//!
//! - No I/O, no clock, no randomness: the plan is a function of the objects, never of the order in which they arrived.
//! - Planning cannot fail. What cannot be read of an object was refused or closed before it came here.
//! - [`lookup`](lookup::lookup) reads the plan alone. A data plane that needs an `if` about Kubernetes shows a gap in the
//!   plan.

mod classes;
pub mod diff;
mod event;
mod groups;
mod id;
pub mod lookup;
mod peer;
mod pieces;
mod plan;
mod planner;
mod pods;
mod policy;
pub mod reach;
mod rules;
mod sets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use classes::Traffic;
pub use event::Event;
pub use groups::groups;
pub use id::{GroupId, ProfileId, SetId};
pub use peer::{Block, Namespaces, Peer, PodSelection};
pub use plan::{
    AddressPlan, Claims, Content, Member, PeerSet, Piece, Plan, PlannedRule, PolicyPlan, PortMatch,
    PortRange, Profile, TierRule,
};
pub use planner::Planner;
pub use policy::{
    Action, ClusterNetworkPolicy, Connections, Direction, Mode, NetworkPolicy, Outcome, Port,
    PortNumber, Rule, Tier, UnknownPods,
};
