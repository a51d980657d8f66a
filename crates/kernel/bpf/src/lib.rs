//! Loads, pins and attaches Sluice's eBPF programs, and opens their maps.
//!
//! ```text
//! bpf/programs ─build.rs─▶ object ─programs.rs─▶ kernel ─attach.rs─▶ interfaces ◀─follow.rs─ rtnetlink
//!                                   │          └─sockets.rs─▶ a cgroup
//!                                   │
//!                                   └─▶ pins.rs: maps and links outlive the agent ─▶ maps.rs
//! ```
//!
//! # Invariants
//!
//! - The kernel holds programs and maps by their pins, so the agent may end at any moment.
//! - An interface that has had our programs is never without, until [`remove`].
//! - This crate knows no Service: it moves bytes whose meaning `sluice-bpf-abi` gives.

mod attach;
mod batch;
mod destroy;
mod error;
mod events;
mod follow;
mod grow;
mod maps;
mod patterns;
mod pins;
mod probe;
mod programs;
mod sizes;
mod sockets;
mod table;
mod trial;

pub use destroy::{Led, destroy_sockets};
pub use error::BpfError;
pub use events::Events;
pub use maps::{CounterTable, Maps, Sources};
pub use patterns::Patterns;
pub use pins::{Pins, netns_cookie};
pub use probe::{Lack, probe};
pub use programs::{BUILT, Programs, Setup, remove, remove_other_version};
pub use sizes::Sizes;
pub use sockets::{cgroup_root, is_machines_namespace};
pub use table::Table;
pub use trial::{Direction, Trial};
