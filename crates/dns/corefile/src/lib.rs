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
//! - All problems of a file come at once. What CoreDNS refuses is refused.

mod order;
mod problem;
mod types;

pub use order::ORDER;
pub use problem::{Note, Place, Problem};
pub use types::*;
