//! The DNS server as a part of the node agent.
//!
//! ```text
//! source ─▶ Names ─ held until the rules of a Service are in ─▶ objects of the server
//!             └─ once all is known: LocalDns::take ─▶ queries of this node's pods come to the server
//! ```
//!
//! The server itself is `sluice-dns`. This crate says which objects it may know ([`Names`]) and brings queries
//! to it ([`local_dns`]).

pub mod local_dns;
mod names;
mod questions;

pub use names::{DnsStatus, NameEvent, Names};
pub use questions::{NameAnswers, questions};
