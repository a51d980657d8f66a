//! Assertions about any bytes as an SPDY connection, for the fuzzer and the tests.

/// Checks that the bytes are read, and that no frame comes out of less than its head.
pub fn check(bytes: &[u8]) {
    assert!(sluice_streams::spdy::frames_of(bytes) <= bytes.len() / 8);
}
