//! Any bytes as a Corefile: `cargo +nightly fuzz run corefile`.
#![no_main]

#[path = "../oracles/corefile.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
