//! The HTTP server of every part of Sluice.
//!
//! ```text
//! listener ─▶ Budget ─▶ open (TLS) ─▶ converse ─▶ service
//!             refuses or             ends slow and
//!             pushes out             old connections
//! ```
//!
//! All servers of one process share one [`Budget`], so that their clients together cannot use up its descriptors.

mod budget;
mod serve;

pub use budget::{Budget, Limit, Own, Peer, Report, Source};
pub use serve::{Limits, converse, listen, serve, serve_each, socket, widened};
