//! API object → model object, every problem of the object at once.
//!
//! The rules are the API server's where they protect us: what passes has DNS names, ports in
//! range and addresses that can be programmed. A [`Fault`] either refuses the object or only
//! drops the value it names; the text says which.

mod address;
mod endpoint_slice;
mod endpoints;
mod fault;
mod intern;
mod name;
mod node;
mod pod;
mod service;

pub(crate) use endpoint_slice::endpoint_slice;
pub(crate) use endpoints::endpoints;
pub use fault::{At, Converted, Fault, Faults, Step};
pub use intern::Interner;
pub use name::{cluster_scoped, labels, namespaced};
pub(crate) use node::{node, service_cidr};
pub(crate) use pod::{namespace, pod};
pub(crate) use service::service;

pub(crate) use name::displayable;

#[cfg(test)]
mod tests;
