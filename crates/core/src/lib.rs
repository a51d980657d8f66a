//! Services and endpoints in, the fate of every packet out.
//!
//! ```text
//! Event ─▶ ClusterState ─▶ Plan ─▶ backend objects ─▶ Delta ─▶ kernel
//!            state.rs     plan.rs     backend.rs     delta.rs
//! ```
//!
//! # Invariants
//!
//! - No I/O, no clock, no randomness, no async, no Kubernetes client types: time, node identity
//!   and choices of the operator are arguments.
//! - All Kubernetes semantics end in [`plan::Plan`]. A backend that needs an `if` about
//!   Kubernetes shows a gap in the plan.
//! - Planning cannot fail: bad input becomes an [`issue::Issue`], and everything else stands.
//! - The plan is a function of the objects, never of the order in which they arrived.

pub mod announcement;
pub mod backend;
pub mod backoff;
pub mod delta;
pub mod endpoints;
pub mod explain;
pub mod issue;
pub mod kube_proxy;
pub mod lookup;
pub mod model;
pub mod plan;
pub mod reconcile;
pub mod settings;
pub mod stale;
pub mod state;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
