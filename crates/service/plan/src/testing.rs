//! Clusters for tests: objects written in a line of text, and random ones.
//!
//! Everything lives in one small universe, so that Services collide as often as they never should.

mod build;
mod strategy;

pub use sluice_objects::NODE;

pub use build::{cidr, deletion, endpoints, node, packet, planner, service, slices};
pub use strategy::{arbitrary_events, arbitrary_packet, arbitrary_settings};

use std::net::IpAddr;

use crate::state::HostAddresses;

/// The addresses of [`NODE`]: two primary ones, a second IPv4 one, loopback, and one load balancer
/// address of the universe, as some load balancers bind theirs.
pub fn host() -> HostAddresses {
    let all = [
        "192.168.0.1",
        "192.168.5.1",
        "fd00:168::1",
        "127.0.0.1",
        "::1",
        "203.0.113.1",
    ];
    all.into_iter().map(ip).collect()
}

/// An address that the test knows to be one.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no address"))
}
