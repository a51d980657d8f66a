//! Any bytes as a configuration: `cargo +nightly fuzz run config`.
#![no_main]

#[path = "../oracles/config.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
