//! Links, addresses, routes, rules and neighbours of network namespaces, and notices of their changes.
//!
//! ```text
//! Kind, Settings ──create, set, rename, delete_link──▶ Connection ──▶ kernel
//! Address, Route, Rule, Neighbour, Forward ──add, replace, delete──▶ Connection ──▶ kernel
//! Link, Address, Route, Rule, Neighbour, Forward ◀──list── Connection ◀── kernel
//! Notice, Wake ◀── Monitor ◀── multicast groups of rtnetlink
//! Namespace ──enter, run, Connection::open_in──▶ another namespace
//! ```
//!
//! This crate knows no Kubernetes. Numbers and layouts are those of `linux/rtnetlink.h`, `linux/if_link.h`,
//! `linux/if_addr.h`, `linux/fib_rules.h` and `linux/neighbour.h`.
//!
//! It does not use the crates `rtnetlink` and `netlink-packet-route`, which were looked at (0.24 and 0.34). They are
//! asynchronous, while what uses this crate is not, and belong to a thread of a runtime, while a namespace belongs to a
//! thread of the kernel. `sluice-netlink` has the socket, the attributes and the errors with the kernel's words already.
//! What remains is a writer and a reader for each object, and those are shorter than the change from one release of
//! their types to the next.
//!
//! # Invariants
//!
//! - An object that was added is listed as a value with the same key: what the kernel fills in may differ.
//! - No input makes a decoder panic.
//! - A [`Connection`] belongs to the network namespace in which it was opened, whichever thread uses it.

mod address;
mod change;
mod connection;
mod kind;
mod link;
mod mac;
mod monitor;
mod namespace;
mod neighbour;
mod numbers;
mod route;
mod rule;
mod scope;
mod tun;
mod way;

pub use address::{Address, addresses};
pub use change::{AddressChange, Addresses, Applied, Late};
pub use connection::{Connection, Listed, Messages, Object};
pub use kind::{Bridge, Kind, MacvlanMode, Port, Vxlan};
pub use link::{Link, Settings, link, links};
pub use mac::Mac;
pub use monitor::{Change, Followed, Monitor, Notice, Wake};
pub use namespace::{Entered, Namespace, namespaces};
pub use neighbour::{Forward, Neighbour, State};
pub use numbers::{linked_namespaces, namespace_number};
pub use route::{Hop, MAIN_TABLE, Route, RouteKind, Tunnel};
pub use rule::Rule;
pub use scope::Scope;
pub use tun::open_tun;
pub use way::{Way, way};
