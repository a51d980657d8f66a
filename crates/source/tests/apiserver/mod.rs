//! Tests the source with a real HTTP server that fails on purpose. No sleeps: the tests wait for the events of the
//! source.

mod access;
pub(crate) mod cluster;
mod events;
mod first;
mod garbage;
mod names;
mod outage;
mod pod;
mod reconnect;
