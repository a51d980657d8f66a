//! The nftables data plane: a plan as elements of named maps, written over netlink.
//!
//! ```text
//! PortPlan ─▶ render.rs ─▶ Key, Object ─▶ Delta ─▶ apply.rs ─▶ one transaction ─▶ kernel
//! NodePlan ─▶ layout.rs ─┘      │                  observe.rs ◀──────────────────┘
//!                               ├─▶ text.rs   what `nft -f` loads
//!                               └─▶ trace.rs  packet in, outcome out, without a kernel
//! kernel ─▶ counters.rs, denials.rs   connections of each endpoint, refused packets
//! ```
//!
//! # Invariants
//!
//! - The shape of the ruleset is constant. Services and endpoints are elements; the only chains
//!   that come and go are one per kind of client and pool size, and those of session affinity.
//! - No anonymous set, no map that many rules bind, few verdict elements: each of these makes the
//!   kernel walk everything on every commit.
//! - Every nft since 1.0.6 prints the ruleset and loads its own listing again.
//! - Tables other than `ip sluice` and `ip6 sluice` are never written.

mod affinity;
mod apply;
mod backend;
mod block;
mod bytes;
mod counters;
mod definition;
mod denials;
mod frontend;
mod labels;
mod layout;
mod leftovers;
mod live;
mod name;
mod object;
mod observe;
mod parts;
mod placement;
mod pool;
mod render;
mod rows;
mod rule;
mod set;
mod slots;
mod source_list;
mod sources;
mod tables;
pub mod text;
mod unreachable;

pub use sluice_nft::{Hook, HookPoint};

pub use backend::{Nftables, port_parts, render_plan, render_port};
pub use block::Block;
pub use name::{ChainName, PoolKind, Standing, TABLE};
pub use object::{Chain, Key, Object, Rules};
pub use placement::Placement;
pub use rule::{Action, Field, Match, Rule, Sense, SetRef, Side};
pub use set::{Counting, Element, ElementKey, ElementValue, KeyKind, SetName, ValueKind};
pub use source_list::SourceList;
