//! nf_tables: objects, expressions, transactions, notices.
//!
//! Numbers and layouts are those of `linux/netfilter/nf_tables.h`; [`uapi`] names them.

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
