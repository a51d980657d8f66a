//! The objects that the proxy and the DNS server read, without Kubernetes client types.
//!
//! A source checks and converts API objects into these; [`Change`] and [`Notice`] are the contract between a source
//! and its consumers.

mod announcement;
mod duration;
mod endpoint;
pub mod label;
mod labels;
mod local;
mod name;
mod network;
mod node;
mod node_dns;
mod notice;
mod object;
mod pod;
mod request;
mod selector;
mod service;

pub use announcement::Announcement;
pub use duration::parse_go_duration;
pub use endpoint::{AddressType, Conditions, Endpoint, EndpointPort, EndpointSlice, Hints};
pub use label::is_label_value;
pub use labels::Labels;
pub use local::{LocalDetector, LocalTraffic};
pub use name::{NamespacedName, ServicePortName, is_label, is_label_of_any_length, is_subdomain};
pub use network::{IpFamily, Protocol, UnknownProtocol};
pub use node::{LocalAddresses, Node, ServiceCidr};
pub use node_dns::{DNS_ADDRESSES, DNS_OWNER_PORT, DNS_PORT, NodeDns};
pub use notice::Notice;
pub use object::{Change, KindName, Model, Owner, Reference};
pub use pod::{ContainerPort, ContainerPorts, DnsPolicy, Namespace, Pod, PodDns};
pub use request::ApiRequest;
pub use selector::{Expression, Requirement, Selector};
pub use service::{
    Algorithm, ClusterIps, Forwarding, IpMode, LoadBalancerIngress, Service, ServiceKind,
    ServicePort, SessionAffinity, TrafficPolicy,
};
