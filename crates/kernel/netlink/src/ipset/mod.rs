//! Sets of `ipset`: create, fill, list, destroy.
//!
//! Numbers and layouts are those of `linux/netfilter/ipset/ip_set.h`.

mod connection;
mod member;
mod reason;
mod set;
mod uapi;

pub use connection::Sets;
pub use member::{Change, Mark, Member};
pub use set::{Fields, HASH_SIZE, Header, Kind, Set};
