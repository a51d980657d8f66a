//! The API objects, cut to the fields a proxy needs. Unknown fields are ignored.
//!
//! They derive `Deserialize`, so they come from manifests as well as from JSON.
//! `null` means absent, as in Go. Numbers are `i64`: the range is the conversion's to judge, so
//! that it can name the field.

mod endpoint_slice;
mod meta;
mod node;
mod service;
mod service_cidr;

pub use endpoint_slice::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, HintName, TargetRef,
};
pub use meta::{Annotations, Labels, ObjectMeta};
pub use node::{Node, NodeAddress, NodeSpec, NodeStatus, Taint};
pub use service::{
    AffinityConfig, ClientIpConfig, Ingress, LoadBalancerStatus, Service, ServicePort, ServiceSpec,
    ServiceStatus,
};
pub use service_cidr::{ServiceCidr, ServiceCidrSpec};

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
