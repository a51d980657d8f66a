//! A Kubernetes service proxy.
fn main() {}
