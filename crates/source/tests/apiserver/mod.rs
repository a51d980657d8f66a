//! The source on a real HTTP server that misbehaves on purpose. No sleeps: what the source says
//! is waited for.

mod access;
pub(crate) mod cluster;
mod events;
mod first;
mod garbage;
mod names;
mod outage;
mod pod;
mod reconnect;
