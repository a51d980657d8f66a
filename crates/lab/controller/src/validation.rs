//! What kube-apiserver refuses of Services and EndpointSlices, beyond what the agents refuse and the allocator.

mod service;
mod slice;

pub use service::validate_service;
pub use slice::validate_slice;

#[cfg(test)]
mod tests;
