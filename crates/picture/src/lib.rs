//! Pictures of a cluster: its nodes with their pods, and the way of a packet to one Service.
//!
//! ```text
//!                            ┌─▶ Topology ─┐     ┌─▶ text for a terminal
//! Objects ─▶ plan::Planner ──┤             ├─────┤
//!                            └─▶ Way ──────┘     └─▶ Drawing ─▶ SVG, the lab's web page
//! ```
//!
//! `Topology` and `Way` say what is shown, `Drawing` where. What a node does with a packet is the answer of
//! `plan::explain`, so a picture says what the agent's rules do.
//!
//! # Invariants
//! - Pure: no I/O, no clock. The same objects make the same picture.
//! - A drawing loads nothing: it has no fonts, images, scripts or styles from elsewhere.
//! - Everything that a drawing shows stands in its description or in the text form too.

pub mod chart;
mod drawing;
mod objects;
mod question;
mod text;
mod topology;
mod way;

pub use drawing::{Drawing, Element, STYLE};
pub use objects::{Kind, Objects};
pub use question::{Question, Unknown};
pub use topology::{NodeBox, PodBox, PodState, Topology};
pub use way::{Measured, Rules, Target, Way};

#[cfg(test)]
mod tests;
