//! Corefiles: CoreDNS's configuration, read and checked.
//!
//! ```text
//! text ─tokens─▶ server blocks, imports replaced ─plugins─▶ Corefile (valid) + notes
//!                                                        └▶ every problem, with file and line
//! ```
//!
//! Invariants:
//! - A [`Corefile`] is valid: each field is within CoreDNS's range and has CoreDNS's default where the
//!   file says nothing.
//! - Pure: what other files and the environment say comes in through [`Sources`].
//! - All problems of plugins come at once; after an error of the grammar (a brace, a quote) nothing more is
//!   read. What CoreDNS 1.13 refuses is refused. A plugin or option of CoreDNS that is not here is a problem
//!   that says so, or a [`Note`] where it alters no answer.

mod order;
mod plugins;
mod problem;
mod reader;
mod resolv_conf;
mod servers;
mod sources;
mod syntax;
mod types;
mod values;

pub use order::ORDER;
pub use problem::{Location, Note, Problem};
pub use resolv_conf::ResolvConf;
pub use servers::read;
pub use sources::Sources;
pub use types::*;
