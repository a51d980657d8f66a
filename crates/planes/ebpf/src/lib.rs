//! The eBPF data plane: a plan as elements of the programs' maps.
//!
//! ```text
//! PortPlan ─▶ placement.rs ─▶ render.rs ─▶ Key, Object ─▶ Delta ─▶ apply.rs ─▶ maps ◀─ programs ◀─ packets
//! NodePlan ──────────────────┘    │                       observe.rs ◀────────┘
//!                                 ├─▶ text.rs      what `render` prints
//!                                 └─▶ evaluate.rs  packet in, fate out, from the maps or without a kernel
//! sockets.rs        whose sockets are led
//! dns.rs            where the node's own DNS server is, whose queries are left alone
//! EVENTS ─▶ witness.rs   what programs did with the packets of `explain --trace`
//! FLOWS ─▶ flows/   connections that end, and those that netfilter carried for an earlier proxy
//! ```
//!
//! The programs are in `bpf/`, whose README draws a packet's way; `sluice-bpf` loads them.
//!
//! # Invariants
//!
//! - The programs know no policy: which clients get what is data, computed here from the plan.
//! - A service port keeps its id and its endpoints their slots, also when the agent starts again.
//! - Whatever an element leads to is written before it and deleted after it.

mod apply;
mod backend;
mod convert;
mod dns;
pub mod evaluate;
mod fills;
mod flows;
mod leftovers;
mod live;
mod maglev;
mod object;
mod observe;
mod placement;
mod plane;
mod render;
mod sockets;
pub mod text;
mod tunnel;
mod witness;

pub use backend::{Ebpf, render_plan, render_port};
pub use flows::Timeouts;
pub use object::{AddressKind, Key, ListId, Object};
pub use placement::Placement;
pub use render::{Facts, masquerade_ports};
pub use sluice_bpf::{Direction, Patterns, Setup, Sizes, Trial, cgroup_root};
pub use sockets::SocketSetup;
pub use tunnel::create as create_tunnel;
