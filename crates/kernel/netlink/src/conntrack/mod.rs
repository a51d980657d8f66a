//! Connection tracking entries: list and delete.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_conntrack.h`.

mod flow;
mod query;

pub use flow::{Flow, Tuple};
pub use query::{Conntrack, FlowFilter};
