//! Checks of the source tree.
fn main() {}
