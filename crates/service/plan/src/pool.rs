//! Pools: the endpoints a frontend balances over.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// One endpoint of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolEndpoint {
    /// Address and port of the endpoint.
    pub addr: SocketAddr,
    /// Whether the endpoint can be its own client (hairpin): it runs on this node, or its slice names no node. Pods of
    /// other nodes reach themselves through their own node.
    pub may_be_here: bool,
    /// Its share of new connections where the data plane has weights (IPVS); 0 gets none.
    pub weight: u16,
    /// How it replies to clients by direct server return; `None` if its Service has none, or its node is unknown.
    pub direct: Option<Direct>,
    /// Name of its pod, for rule comments.
    pub target: Option<Arc<str>>,
}

/// Where an endpoint is that replies to clients by direct server return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direct {
    /// On this node.
    Here,
    /// On the node with this address.
    Node(IpAddr),
}

/// Endpoints to balance over, by address; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool(Arc<[PoolEndpoint]>);

impl Pool {
    /// `None` without endpoints.
    #[must_use]
    pub fn new(mut endpoints: Vec<PoolEndpoint>) -> Option<Self> {
        endpoints.sort_by_key(|it| it.addr);
        endpoints.dedup_by_key(|it| it.addr);
        (!endpoints.is_empty()).then(|| Self(endpoints.into()))
    }

    /// The endpoints, by address.
    pub fn endpoints(&self) -> &[PoolEndpoint] {
        &self.0
    }
}

/// One of the two pools of a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Endpoints anywhere, narrowed by topology hints.
    Cluster,
    /// Endpoints of this node.
    Local,
}
