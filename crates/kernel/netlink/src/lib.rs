//! Netlink: its sockets and messages, and conntrack entries, IPVS, ipset and nfacct over it, without libraries
//! of other projects.
//!
//! [`socket`], [`attr`], [`message`], [`request`] and [`bulk`] carry the messages of any part of the kernel.
//!
//! This crate knows no Kubernetes. It encodes the messages, sends many of them with one system call,
//! and tells which of the caller's objects the kernel refused. It decodes the kernel's objects to the
//! same types.
//!
//! ```text
//! Flow ◀──flows── Conntrack ──delete──▶ kernel
//! Header, Member ◀──list── ipset::Sets ──create, apply, swap, destroy──▶ kernel
//! packets ◀── nfacct::Accounts ──ensure, delete──▶ kernel
//! Virtual, RealState ◀──list── ipvs::Ipvs ──apply Change──▶ kernel;  Failure ◀── refused changes
//! ```
//!
//! # Invariants
//!
//! - No input makes a decoder panic; no encoder produces a message with a wrong length.
//! - A socket belongs to the network namespace in which it was opened.

pub mod attr;
pub mod bulk;
pub mod conntrack;
mod family;
pub mod filter;
pub mod ipset;
pub mod ipvs;
pub mod legacy_tables;
pub mod message;
pub mod nfacct;
pub mod nflog;
mod notices;
pub mod request;
pub mod sock_diag;
pub mod socket;
mod stop;
mod sys;

pub use bulk::Failure;
pub use family::{Family, octets};
pub use nix::errno::Errno;
pub use notices::Notices;
pub use request::RequestError;
pub use socket::SocketError;
pub use stop::Stopper;
pub use sys::{duplicate_from, is_secure_execution};
