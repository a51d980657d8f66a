//! One program for all tests of this crate: linking takes longer than most of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod custom;
mod http;
mod kinds;
mod kubectl;
mod managers;
mod namespaces;
mod protocol;
mod proxy;
mod put;
mod rules;
mod server;
mod store;
mod strict;
mod values;
