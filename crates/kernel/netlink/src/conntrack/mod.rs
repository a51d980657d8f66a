//! Connection tracking entries: list some of them, remove one.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_conntrack.h`.

mod flow;
mod query;

pub use flow::{Flow, Tuple};
pub use query::{Conntrack, FlowFilter};

use crate::nftables::Family;
use std::net::IpAddr;

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1;

fn family_of(address: IpAddr) -> Family {
    match address {
        IpAddr::V4(_) => Family::Ipv4,
        IpAddr::V6(_) => Family::Ipv6,
    }
}
