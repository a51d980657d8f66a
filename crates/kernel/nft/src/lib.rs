//! nf_tables over netlink: objects, expressions, transactions, notices, without the program `nft`.
//!
//! Numbers and layouts are those of `linux/netfilter/nf_tables.h`; [`uapi`] names them.
//!
//! ```text
//! Table, Chain, Rule, Set, ElementRef ──add_*/delete_*──▶ Batch ──commit──▶ Connection ──▶ kernel
//!                                                           (tags)             │ Refused: tags, errno, text
//! Table, Chain, Rule, Set, ElementRef ◀──list── Connection ◀───────────────────┘
//! Notice ◀── Monitor ◀── multicast group of nftables, without our own port ids
//! Step ◀── Tracer ◀── multicast group of traces
//! ```
//!
//! # Invariants
//!
//! - The kernel applies a batch whole or not at all; [`Connection::commit`] returns `Ok` only after the
//!   kernel acknowledged it.
//! - A listed object decodes to the value that was encoded. An expression that this crate cannot
//!   express decodes to [`Expr::Other`], never to another value.
//! - No input makes a decoder panic; no encoder produces a message with a wrong length.

mod batch;
mod connection;
mod expr;
mod filters;
mod generation;
mod jump;
mod monitor;
mod object;
mod observe;
mod register;
mod scope;
mod trace;
pub mod uapi;
mod userdata;
mod value;

pub use batch::{Batch, Create};
pub use connection::{CommitError, Connection, Exchange, Failure};
pub use expr::{CmpOp, CtKey, Expr, FibAddress, MetaKey, PayloadBase};
pub use filters::{Action, AnyChain, Decision};
pub use generation::Generation;
pub use jump::Jump;
pub use monitor::{Change, ChangeKind, Monitor, Notice};
pub use object::{
    Chain, ChainKind, ElementRef, Hook, HookPoint, Policy, Rule, Set, SetData, SetFlags, Table,
};
pub use register::Register;
pub use scope::{Family, Scope};
pub use trace::{Fate, NumberedRule, Step, TableFamily, Tracer};
pub use userdata::push_tlv;
pub use value::{DataRef, Verdict};
