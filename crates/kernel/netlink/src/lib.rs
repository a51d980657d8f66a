//! Netlink for a service proxy: nf_tables transactions, conntrack entries, IPVS, ipset, nfacct,
//! interfaces and the machine's addresses, spoken by hand.
//!
//! This crate knows no Kubernetes. It encodes nfnetlink messages into one buffer, sends the
//! buffer with one system call, and says which of the caller's objects the kernel refused. It
//! reads the kernel's objects back into the same types, watches for strangers who change them,
//! lists and removes conntrack entries, and says when an address of the machine changes.
//!
//! ```text
//! Table, Chain, Rule, Set, ElementRef ──add_*/delete_*──▶ Batch ──commit──▶ Connection ──▶ kernel
//!                                                           (tags)             │ Refused: tags, errno, text
//! Table, Chain, Rule, Set, Element ◀──observe── Connection ◀───────────────────┘
//! Notice ◀── Monitor ◀── multicast group nftables, less our own port ids
//! Flow ◀──flows── Conntrack ──delete──▶ kernel
//! Address ◀──addresses── kernel;  Wake ◀── rtnetlink::Monitor ◀── multicast groups of rtnetlink
//! names, members ◀── ipset::Sets ──destroy──▶ kernel
//! packets ◀── nfacct::Accounts ──ensure, delete──▶ kernel
//! VirtualState, RealState ◀── ipvs::Ipvs ◀──apply── Change;  Failure ◀── what was refused
//! Link ◀──link, create_dummy── kernel ◀──apply── rtnetlink::Addresses ◀── AddressChange
//! ```
//!
//! # Invariants
//!
//! - A batch is applied whole or not at all; [`nftables::Connection::commit`] returns `Ok` only
//!   after the kernel acknowledged it.
//! - What the kernel holds decodes to the value that was encoded; what this crate cannot express
//!   decodes to [`nftables::Expr::Other`], never to something else.
//! - No input makes a decoder panic; encoders never produce a message with a wrong length.
//! - A socket belongs to the network namespace in which it was opened, for ever.

pub mod attr;
mod bulk;
pub mod conntrack;
mod family;
pub mod ipset;
pub mod ipvs;
pub mod legacy_tables;
pub mod message;
pub mod nfacct;
pub mod nftables;
mod request;
pub mod rtnetlink;
pub mod socket;
mod stop;
mod sys;

pub use bulk::Failure;
pub use family::IpFamily;
pub use nix::errno::Errno;
pub use request::RequestError;
pub use socket::{Socket, SocketError};
pub use stop::Stopper;
