//! What this machine does with the packets of a Service, and what keeps them from an endpoint.
//!
//! For the commands of a person: the agent needs nothing of it.

pub mod doctor;
pub mod trace;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Every address of a family, with a port that the kernel chooses: what a socket binds to that sends to `to`.
fn any_like(to: IpAddr) -> SocketAddr {
    let any = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, 0)
}

/// The text of a file below `/proc` without its end of line; `None` when it cannot be read.
fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

/// The number in a sysctl, as `net/ipv4/ip_forward`.
fn sysctl(key: &str) -> Option<i64> {
    read(&format!("/proc/sys/{key}"))?.parse().ok()
}
