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
//! FLOWS ─▶ flows/   connections that end, and those that netfilter translates for an earlier proxy
//! netfilter.rs      keeps netfilter's translation of those until they end
//! ```
//!
//! The programs are in `bpf/`, whose README draws a packet's way. `build.rs` builds them, `programs.rs` has them in this
//! binary with their names, sizes and maps, and `sluice-bpf` loads them.
//!
//! # Invariants
//!
//! - The programs know no policy: which clients get what is data, computed here from the plan.
//! - A service port keeps its id and its endpoints their slots, also when the agent starts again.
//! - Whatever an element leads to is written before it and deleted after it.

mod apply;
mod backend;
mod convert;
mod destroy;
mod dns;
pub mod evaluate;
mod fills;
mod flows;
mod interfaces;
mod leftovers;
mod live;
mod maglev;
mod maps;
mod netfilter;
mod object;
mod observe;
mod older;
mod parts;
mod placement;
mod plane;
mod ports;
mod programs;
mod render;
mod sizes;
mod sockets;
pub mod text;
mod tunnel;
mod witness;

pub use backend::{Ebpf, port_parts, render_plan, render_port};
pub use destroy::{Led, destroy_sockets};
pub use flows::Timeouts;
pub use maps::{CounterTable, Maps};
pub use object::{AddressKind, Key, ListId, Object};
pub use placement::Placement;
pub use programs::{BUILT, LOSSES, Programs, Setup, pins, remove};
pub use render::{Facts, masquerade_ports};
pub use sizes::Sizes;
#[cfg(feature = "testing")]
pub use sluice_bpf::Trial;
pub use sluice_bpf::{Direction, Patterns, cgroup_root};
pub use sockets::SocketSetup;
pub use tunnel::create as create_tunnel;
