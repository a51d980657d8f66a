//! The iptables data plane, with the chains and names of kube-proxy.
//!
//! ```text
//! PortPlan ─▶ render.rs ─▶ Key, Object ─▶ Delta ─▶ script.rs ─▶ iptables-restore ─▶ kernel
//! NodePlan ─▶ layout.rs ─┘      │                  observe.rs ◀── iptables-save ◀───┘
//!                               └─▶ text.rs   what iptables-restore loads
//! ```
//!
//! # Invariants
//!
//! - Equal rules stay, with their counters.
//! - Names, comments and order are kube-proxy's, so that its rules are adopted.
//! - Rules and chains of others stay as they are, in the same tables and in the kernel's chains.
//! - Chains begin with `KUBE-` where kube-proxy has them and with `SLUICE-` where it does not.

mod accounts;
mod backend;
mod lack;
mod layout;
mod leftovers;
mod live;
mod name;
mod object;
mod observe;
mod plane;
mod render;
mod script;
pub mod text;

pub use accounts::Accounting;
pub use backend::{Iptables, render_plan};
pub use layout::Conntrack;
pub use object::{ChainId, Key, Object};
pub use render::port as render_port;
