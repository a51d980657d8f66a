//! IPVS over generic netlink: virtual servers, their real servers, timeouts.
//!
//! Numbers and layouts are those of `linux/ip_vs.h` and `linux/genetlink.h`; what the kernel makes
//! of them is in `ip_vs_ctl.c`.

mod change;
mod config;
mod connection;
mod key;
mod real;
mod scheduler;
mod statistics;
mod uapi;
mod virtual_server;

pub use change::Change;
pub use config::{Timeouts, Version};
pub use connection::Ipvs;
pub use key::{Key, VirtualServer};
pub use real::{Forwarding, Real, RealState};
pub use scheduler::{SCHEDULERS, scheduler_module};
pub use statistics::Statistics;
pub use virtual_server::{Flags, Virtual, VirtualState};
