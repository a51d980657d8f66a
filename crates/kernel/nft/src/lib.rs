//! nf_tables over netlink: objects, expressions, transactions, notices, without the program `nft`.
//!
//! Numbers and layouts are those of `linux/netfilter/nf_tables.h`; [`uapi`] names them.
//!
//! ```text
//! Rule ──exprs──▶ KernelRule ─┐                  (as nft list prints them: Rule::write, mod text)
//! Shape ──set───▶ Set         ├─add_*/delete_*─▶ Batch ──commit──▶ Connection ──▶ kernel
//! Datum ──KeyBytes─▶ ElementRef, Chain ─┘        (tags)               │ Refused: tags, errno, text
//! keyed objects of a table that we own ──owned::Difference──▶ Batch
//! Table, Chain, KernelRule, Set, ElementRef ◀──list── Connection ◀────┘
//! Notice ◀── Monitor ◀── multicast group of nftables, without our own port ids
//! drift::watch ◀── Monitor: who changed a table that we own
//! Step ◀── Tracer ◀── multicast group of traces
//! ```
//!
//! # Invariants
//!
//! - The kernel applies a batch whole or not at all; [`Kernel::commit`] returns `Ok` only after the
//!   kernel acknowledged it.
//! - A rule has the instructions that nft itself would send, so that every nft can print it.
//! - A listed object decodes to the value that was encoded. An expression that this crate cannot
//!   express decodes to [`Expr::Other`], never to another value.
//! - No input makes a decoder panic; no encoder produces a message with a wrong length.

mod any;
mod batch;
mod compile;
mod connection;
mod contents;
pub mod drift;
mod element;
mod expr;
mod generation;
mod kernel;
mod monitor;
mod object;
mod observe;
pub mod owned;
mod ranges;
mod register;
pub mod rule;
mod scope;
pub mod shape;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
mod trace;
pub mod uapi;
mod userdata;
mod value;

pub use any::{Action, AnyChain, NumberedRule, TableFamily};
pub use batch::{Batch, Create};
pub use connection::{CommitError, Connection, Exchange, Failure, Purpose};
pub use contents::Contents;
pub use element::{Datum, KeyBytes, Reader, write_fields};
pub use expr::{CmpOp, CtKey, Expr, FibAddress, MetaKey, PayloadBase};
pub use generation::Generation;
pub use kernel::Kernel;
pub use monitor::{Change, ChangeKind, Monitor, Notice};
pub use object::{
    Chain, ChainKind, ElementRef, Hook, HookPoint, KernelRule, Policy, Set, SetData, SetFlags,
    Table,
};
pub use ranges::{Range, Ranges};
pub use register::Register;
pub use rule::Rule;
pub use scope::{Family, Scope};
pub use shape::Shape;
pub use trace::{Fate, Step, Tracer};
pub use userdata::push_tlv;
pub use value::{DataRef, Verdict};
