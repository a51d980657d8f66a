//! Makes the kernel hold what its owners want: desired objects against those that are there.
//!
//! ```text
//! owner ─plan─▶ render ─▶ objects ─┐
//!                                  ├─▶ Delta ─▶ apply ─▶ kernel
//! observe, or what was written ────┘
//! ```
//!
//! An owner is whoever wants objects in the kernel: a service port today, a network policy one day.
//! This crate knows neither.
//!
//! # Invariants
//!
//! - Pure: no I/O, no clock. A [`Backend`] does what there is to do with a kernel.
//! - What is believed to be in the kernel is replaced after the kernel acknowledged a write. After
//!   an error there is no belief, and the next sync observes.
//! - What the machine lacks is known before anything is written, and refused to the owners who need
//!   it: a [`Refusal`]. Every other failure fails the whole sync.

mod backend;
mod backoff;
mod begun;
mod causes;
mod delta;
mod portion;
mod reconciler;
mod report;
mod stage;
#[cfg(test)]
mod tests;

pub use backend::{Backend, BackendError, Change, Objects, Parts, Refusal, Upkeep};
pub use backoff::{Backoff, Waits};
pub use causes::{causes, chain, chain_of};
pub use delta::Delta;
pub use portion::Portion;
pub use reconciler::{Reconciler, Wanted};
pub use report::Report;
