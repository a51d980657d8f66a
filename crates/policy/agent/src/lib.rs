//! Network policy as a part of the node agent.
//!
//! ```text
//! source ─▶ kinds ─▶ PolicyEvent ─▶ Policies ─▶ Planner ─▶ Reconciler ─▶ table sluice-policy
//! kernel: nflog ─▶ drops ─▶ log lines, `sluice policy watch`
//! ```
//!
//! [`Policies`] is a consumer beside the Service proxy, of which it knows nothing.

mod bridges;
mod connections;
mod drops;
mod event;
pub mod kinds;
mod metrics;
mod policies;
mod questions;
mod state;
mod web;

pub use connections::{cutting, forbidden};
pub use drops::{End, PolicyDrop, PolicyDrops, listen};
pub use event::PolicyEvent;
pub use metrics::show_metrics;
pub use policies::{Policies, PolicyStatus};
pub use questions::{PolicyAnswer, questions};
pub use state::PolicyState;
pub use web::data;
