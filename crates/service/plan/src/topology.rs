//! The nodes of the cluster with the endpoints on them, as far as this node knows: its Node objects,
//! and the node names of its EndpointSlices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Planner;
use crate::inventory::{Walk, next_services};
use crate::state::ServiceEntry;
use sluice_model::{Endpoint, EndpointSlice, NamespacedName};

/// A node in one line. Scripts read it: fields are added, not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Its name; empty for endpoints without a node, which run outside the cluster.
    pub name: String,
    /// Zone of its Node object, else that of its endpoints, if known.
    pub zone: Option<String>,
    /// Addresses of its Node object; empty where that is not known.
    pub addresses: Vec<IpAddr>,
    /// Whether this is the node of this process.
    pub this: bool,
    /// See [`Node::leaving`](sluice_model::Node::leaving).
    pub leaving: bool,
    /// Services with an endpoint on it.
    pub services: usize,
    /// Endpoints on it, once for each EndpointSlice that names the endpoint.
    pub endpoints: usize,
    /// Number of ready endpoints.
    pub ready: usize,
}

/// An endpoint on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEndpoint {
    /// `namespace/name` of the Service.
    pub service: String,
    pub address: IpAddr,
    /// `8080/tcp`.
    pub ports: Vec<String>,
    /// Its pod, if known.
    pub pod: Option<String>,
    /// `conditions.ready`.
    pub ready: bool,
    /// `conditions.serving`.
    pub serving: bool,
    /// `conditions.terminating`.
    pub terminating: bool,
}

/// Every node that has a Node object or an endpoint, by name, and the answering node in any case.
#[must_use]
pub fn nodes(planner: &Planner) -> Vec<NodeSummary> {
    let mut walk = NodeWalk::default();
    while !walk.step(planner) {}
    walk.finish()
}

/// [`nodes`] in steps.
#[derive(Debug, Default)]
pub struct NodeWalk {
    nodes: BTreeMap<Arc<str>, NodeSummary>,
    last: Option<NamespacedName>,
}

impl NodeWalk {
    fn service(&mut self, entry: &ServiceEntry) {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for endpoint in entry.slices.values().flat_map(|it| &it.endpoints) {
            let name = endpoint.node.clone().unwrap_or_default();
            let node = self.nodes.entry(name).or_default();
            node.endpoints += 1;
            node.ready += usize::from(endpoint.conditions.ready);
            let is_new = names.insert(endpoint.node.as_deref().unwrap_or_default());
            node.services += usize::from(is_new);
            if node.zone.is_none() {
                node.zone = endpoint.zone.as_deref().map(str::to_owned);
            }
        }
    }

    /// What the Node objects say.
    fn objects(&mut self, planner: &Planner) {
        let this = &planner.settings().node_name;
        self.nodes.entry(this.clone()).or_default().this = true;
        for object in planner.state().nodes() {
            let node = self.nodes.entry(object.name.clone()).or_default();
            node.addresses.clone_from(&object.addresses);
            node.leaving = object.leaving;
            if let Some(zone) = &object.zone {
                node.zone = Some(zone.to_string());
            }
        }
    }
}

impl Walk for NodeWalk {
    type Answer = Vec<NodeSummary>;

    fn step(&mut self, planner: &Planner) -> bool {
        for (_, entry) in next_services(planner, &mut self.last) {
            if entry.service.is_some() {
                self.service(entry);
            }
        }
        if self.last.is_none() {
            self.objects(planner);
        }
        self.last.is_none()
    }

    fn finish(self) -> Vec<NodeSummary> {
        let named = self.nodes.into_iter().map(|(name, node)| NodeSummary {
            name: name.to_string(),
            ..node
        });
        named.collect()
    }
}

/// The endpoints on one node, by Service; an empty name for those without a node.
#[must_use]
pub fn node(planner: &Planner, name: &str) -> Vec<NodeEndpoint> {
    let here = |it: &Endpoint| it.node.as_deref().unwrap_or_default() == name;
    let all = endpoints(planner).filter(|(_, _, endpoint)| here(endpoint));
    let shown = all.map(|(service, slice, endpoint)| {
        let ports = slice.ports.iter();
        NodeEndpoint {
            service: service.to_string(),
            address: endpoint.address,
            ports: ports
                .map(|it| format!("{}/{}", it.port, it.protocol))
                .collect(),
            pod: endpoint.target.as_deref().map(str::to_owned),
            ready: endpoint.conditions.ready,
            serving: endpoint.conditions.serving,
            terminating: endpoint.conditions.terminating,
        }
    });
    shown.collect()
}

/// Every endpoint of every Service, with its slice.
fn endpoints(
    planner: &Planner,
) -> impl Iterator<Item = (&NamespacedName, &Arc<EndpointSlice>, &Endpoint)> {
    let services = planner.state().services();
    let served = services.filter(|(_, entry)| entry.service.is_some());
    let slices = served.flat_map(|(name, entry)| entry.slices.values().map(move |it| (name, it)));
    slices.flat_map(|(name, slice)| slice.endpoints.iter().map(move |it| (name, slice, it)))
}

#[cfg(test)]
mod tests;
