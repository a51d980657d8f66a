//! The IPVS data plane: a plan as virtual servers of the kernel's load balancer, with ipsets and a
//! constant set of iptables rules around it.
//!
//! ```text
//! PortPlan ─▶ render.rs ─▶ Key, Object ─▶ Delta ─▶ apply.rs ─▶ netlink, iptables-restore ─▶ kernel
//! NodePlan ─▶ chain.rs  ─┘      │                  observe.rs ◀─────────────────────────────┘
//!                               └─▶ text.rs   what ipset, ipvsadm and iptables-restore load
//! kernel ─▶ drain.rs   deletes real servers after their last connection
//! ```
//!
//! # Invariants
//!
//! - Services and endpoints are virtual servers, real servers, addresses and members of ipsets.
//!   The rules of iptables depend on the node alone.
//! - Members are added before virtual servers, and these before their addresses; deletions come in the
//!   opposite order.
//! - Virtual servers in excluded networks, marks outside our range, ipsets and chains of other names
//!   are never touched.

mod apply;
mod backend;
mod chain;
mod convert;
mod counters;
mod drain;
mod grow;
mod kernel;
mod leftovers;
mod live;
mod mark;
mod object;
mod observe;
mod placement;
mod plane;
mod render;
mod scheduler;
mod script;
mod set;
mod state;
mod sysctl;
pub mod text;

pub use backend::{Ipvs, IpvsOptions, render_plan, render_ports};
pub use mark::MarkLayout;
pub use object::{Balancing, DEVICE, Hashing, Key, Object, Server, Triple};
pub use placement::Placement;
pub use set::{Entry, SetKind, SetName};
pub use sluice_netlink::ipvs::Timeouts;
pub use sysctl::{Arp, sysctls};
