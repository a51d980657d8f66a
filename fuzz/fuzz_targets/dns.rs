//! Any bytes as a query to the DNS server: `cargo +nightly fuzz run dns`.
#![no_main]

#[path = "../oracles/dns.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
