//! What a cluster's DNS answers: a pure function of the cluster's objects and a question.
//!
//! ```text
//! source ─Event─▶ Objects ─┐
//! Corefile ─────▶ Settings ┼─answer()─▶ Answer { outcome, origin }
//! query ────────▶ Question ┘
//! ```
//!
//! The records are those of the specification "DNS-Based Service Discovery" 1.1.0 of Kubernetes; where it is
//! silent, those of CoreDNS 1.13. The caller owns what is not about objects: sockets, response codes of bad
//! queries, zone transfers, falling through to the next plugin, the order of addresses, truncation, names outside the
//! zones (see [`Outcome::Alias`]).
//!
//! # Invariants
//! - No I/O, no clock, no lock. The serial of the zones is the time that comes with an event.
//! - Neither the order of events about different objects nor their repetition changes an answer.
//! - As long as [`Objects::revision`] stays, so do all answers of a server.
//! - An answer costs what it says: no walk over objects that have nothing to do with it.

mod answer;
mod event;
mod lookup;
mod objects;
mod origin;
mod resolution;
mod search;
mod settings;

pub use answer::{Answer, Outcome, Question};
pub use event::Event;
pub use lookup::answer;
pub use objects::{NamespaceRule, Objects};
pub use origin::{Holder, Label, Missing, Origin};
pub use resolution::{Destination, Resolution, Step, StepResult};
pub use search::SearchPath;
pub use settings::{MAX_TTL, NoForwardZone, PodRecords, Settings, Zones};
