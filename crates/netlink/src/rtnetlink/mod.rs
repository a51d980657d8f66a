//! Addresses of a network namespace, word of their changes, and the end of an interface.
//!
//! Numbers and layouts are those of `linux/rtnetlink.h` and `linux/if_addr.h`.

mod address;
mod filter;
mod link;
mod monitor;

pub use address::{Address, addresses};
pub use link::delete_link;
pub use monitor::{Monitor, Wake};

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
