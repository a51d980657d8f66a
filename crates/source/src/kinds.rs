//! The kinds that come with this crate. None of them is special: another crate's are as good.

mod endpoint_slice;
mod namespace;
mod node;
mod pod;
mod service;
mod service_cidr;

pub use crate::api::{EndpointSlice, Namespace, Node, Pod, Service, ServiceCidr};
