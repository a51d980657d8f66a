//! Any bytes as an SPDY connection of a client of the lab: `cargo +nightly fuzz run spdy`.
#![no_main]

#[path = "../oracles/spdy.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
