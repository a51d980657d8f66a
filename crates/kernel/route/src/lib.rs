//! Addresses, routes and interfaces of a network namespace, and notices of their changes.
//!
//! Numbers and layouts are those of `linux/rtnetlink.h` and `linux/if_addr.h`.

mod address;
mod change;
mod link;
mod monitor;
mod namespace;
mod route;

pub use address::{Address, addresses};
pub use change::{AddressChange, Addresses, Applied, Late};
pub use link::{Link, create_dummy, create_vxlan, delete_link, link, links};
pub use monitor::{Monitor, Wake};
pub use namespace::{linked_namespaces, namespace_number};
pub use route::{Route, route};

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
