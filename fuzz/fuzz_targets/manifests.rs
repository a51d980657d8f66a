//! Any bytes, as YAML and as JSON: `cargo +nightly fuzz run manifests`.
#![no_main]

#[path = "../oracles/manifests.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
