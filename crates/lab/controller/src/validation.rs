//! What kube-apiserver refuses of Services and EndpointSlices, beside what the allocator does.

mod service;
mod slice;

pub use service::validate_service;
pub use slice::validate_slice;

#[cfg(test)]
mod tests;
