//! Loads an object of eBPF programs, pins its maps, attaches the programs, and gives typed handles of the maps.
//!
//! ```text
//! Object ─load─▶ kernel ─attach.rs─▶ interfaces ◀─follow.rs─ rtnetlink
//!                   │   └─cgroup.rs─▶ a cgroup
//!                   │
//!                   └─▶ pins.rs: maps and links outlive the process ─▶ Table, Single, Counters, Ring
//! ```
//!
//! # Invariants
//!
//! - The kernel holds programs and maps by their pins, so the process may end at any moment.
//! - An interface that has had the programs is never without, until [`remove`].
//! - This crate knows no program and no map by name: users bring an [`Object`], pins and types of their own.

mod attach;
mod call;
mod cgroup;
mod error;
mod follow;
mod grow;
mod object;
mod patterns;
mod pins;
mod probe;
mod programs;
mod ring;
mod table;
#[cfg(feature = "testing")]
mod testing;

pub use aya::maps::MapType;
pub use aya::maps::lpm_trie::Key as Prefix;
pub use aya::{Pod, include_bytes_aligned};
pub use cgroup::{cgroup_root, is_machines_namespace};
pub use error::BpfError;
pub use follow::{Interfaces, Machine};
pub use grow::MapSize;
pub use object::{Direction, Filter, Losses, Object, Order};
pub use patterns::Patterns;
pub use pins::{Pins, netns_cookie};
pub use probe::{Lack, probe};
pub use programs::{Programs, remove};
pub use ring::{Ring, are_unread};
pub use table::{Counters, Single, Table};
#[cfg(feature = "testing")]
pub use testing::Trial;
