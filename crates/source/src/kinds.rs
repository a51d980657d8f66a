//! The kinds that come with this crate. A kind of another crate can do the same.

mod endpoint_slice;
mod namespace;
mod node;
mod pod;
mod service;
mod service_cidr;

pub use crate::api::{EndpointSlice, Namespace, Node, Pod, Service, ServiceCidr};
