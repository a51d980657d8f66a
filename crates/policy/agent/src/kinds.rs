//! The kinds of objects that say who may talk to whom.

mod cluster_network_policy;
mod network_policy;
mod parts;
#[cfg(test)]
mod words;

pub use cluster_network_policy::ClusterNetworkPolicy;
pub use network_policy::NetworkPolicy;
