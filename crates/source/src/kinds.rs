//! The kinds that come with this crate, each in a file of its own: its fields at the API, its model's conversion, its
//! faults. Endpoints have their field table in `manifest`. A kind of another crate can do the same.

mod endpoint_slice;
mod endpoints;
mod namespace;
mod node;
mod pod;
mod service;
mod service_cidr;
#[cfg(test)]
mod tests;

pub use endpoint_slice::EndpointSlice;
pub use namespace::Namespace;
pub use node::Node;
pub use pod::Pod;
pub use service::Service;
pub use service_cidr::ServiceCidr;

pub(crate) use endpoint_slice::EndpointPort;
pub(crate) use endpoints::{EndpointSubset, Endpoints, endpoints};
