//! What this machine does with the packets of a Service, and what keeps them from an endpoint.
//!
//! For the commands of a person: the agent needs nothing of it.

pub mod doctor;
pub mod trace;
