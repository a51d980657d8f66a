//! The checklist of a Service that does not answer, in the order of a packet.
//!
//! ```text
//! Service's objects ─▶ decision ─▶ path ─▶ machine ─▶ probe, dns ─▶ way ─▶ filters
//!     (service)        (service)                                (a trace)
//! ```
//!
//! What names need is for the machine as a whole: the servers that pods ask, and those that are asked in turn
//! (`dns`, `resolver`).
//!
//! Each check reads the machine or what the plan says, and gives [`Finding`]s. A check that cannot be
//! made says so; it stops no other.

mod checklist;
mod clock;
mod dialled;
mod dns;
mod filters;
mod large;
mod machine;
mod names;
mod path;
mod pods;
mod policies;
mod ports;
mod probe;
mod process;
mod proxy;
mod question;
mod report;
mod resolver;
mod rules;
mod service;
mod silence;
mod sources;
mod way;

pub use checklist::check;
pub use pods::{Container, ContainerPort, PodState, ServicePods, Target};
pub use policies::Enforcement;
pub use proxy::{Agent, NoAgent, NodeDns};
pub use question::{Kubelet, Question};
pub use report::{Finding, Report, State};
pub use sources::{Plan, ResolvConf, Sources};

use sluice_plan::inventory::listed;

use crate::read;
