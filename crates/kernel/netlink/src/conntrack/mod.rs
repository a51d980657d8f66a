//! Connection tracking entries: list, delete, and how many there are.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_conntrack.h`.

mod flow;
mod query;
mod table;

pub use flow::{Flow, FlowState, Tuple};
pub use query::{Conntrack, FlowFilter};
pub use table::{Failures, Table};
