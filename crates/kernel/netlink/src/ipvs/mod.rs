//! IPVS over generic netlink: virtual servers, their real servers, timeouts.
//!
//! Numbers and layouts are those of `linux/ip_vs.h` and `linux/genetlink.h`; the kernel reads them in
//! `ip_vs_ctl.c`.

mod change;
mod config;
mod connection;
mod key;
mod real;
mod uapi;
mod virtual_server;

pub use change::Change;
pub use config::Timeouts;
pub use connection::{Ipvs, SCHEDULERS};
pub use key::{Key, VirtualServer};
pub use real::{Forwarding, Real, RealState};
pub use virtual_server::{Flags, Virtual};
