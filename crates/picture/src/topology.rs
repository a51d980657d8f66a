//! The cluster as a picture: nodes, the pods on them, Services.

mod draw;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::Serialize;
use serde_json::Value;
use sluice_model::NamespacedName;
use sluice_plan::inventory::{self, ServiceSummary};
use sluice_plan::{Planner, topology};

use crate::objects::{Kind, Objects, has_condition, name, text};
use crate::question::ips;

/// A cluster in one picture. Scripts read it: fields are added, not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    pub nodes: Vec<NodeBox>,
    /// Pods without a node.
    pub unscheduled: Vec<PodBox>,
    /// The Services, by namespace and name.
    pub services: Vec<ServiceSummary>,
    /// The Services all of whose endpoints refuse connections: `namespace/name`.
    pub refusing: BTreeSet<String>,
}

/// A node with its pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeBox {
    pub name: String,
    /// The zone of its label, if any.
    pub zone: Option<String>,
    /// The addresses, the primary ones first.
    pub addresses: Vec<String>,
    /// The data plane of its agent.
    pub mode: String,
    /// The condition `Ready`.
    pub ready: bool,
    /// The node gets no new pods (`kubectl cordon`).
    pub unschedulable: bool,
    /// The pods on it, by namespace and name.
    pub pods: Vec<PodBox>,
}

/// A pod, with the Services that it is an endpoint of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodBox {
    pub namespace: String,
    pub name: String,
    /// The addresses, the primary one first.
    pub addresses: Vec<String>,
    pub state: PodState,
    /// The Services that have it as an endpoint: `namespace/name`.
    pub services: Vec<String>,
}

/// Whether a pod serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodState {
    Ready,
    /// Not ready, or not ready yet.
    NotReady,
    Terminating,
    /// The phase is Succeeded or Failed.
    Ended,
}

impl PodState {
    /// The state as a text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Terminating => "terminating",
            Self::Ended => "ended",
        }
    }

    fn of(pod: &Value) -> Self {
        match text(&pod["status"]["phase"]) {
            "Succeeded" | "Failed" => Self::Ended,
            _ if pod["metadata"]["deletionTimestamp"].is_string() => Self::Terminating,
            _ if has_condition(pod, "Ready") => Self::Ready,
            _ => Self::NotReady,
        }
    }
}

impl Topology {
    /// The cluster of these objects. `planner` may be that of any node; `mode_of` names the data plane of a Node
    /// object; `refuses` says whether nothing listens at the address of an endpoint.
    #[must_use]
    pub fn of(
        objects: &Objects,
        planner: &Planner,
        mode_of: impl Fn(&Value) -> String,
        refuses: impl Fn(SocketAddr) -> bool,
    ) -> Self {
        let mut services: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in topology::nodes(planner) {
            for endpoint in topology::node(planner, &node.name) {
                let of_pod = services.entry(endpoint.address.to_string()).or_default();
                of_pod.insert(endpoint.service);
            }
        }
        let mut pods: BTreeMap<&str, Vec<PodBox>> = BTreeMap::new();
        for pod in objects.all(Kind::Pod) {
            let addresses = ips(&pod["status"]["podIPs"], "ip");
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let of_pod: BTreeSet<&String> = match pod["spec"]["hostNetwork"].as_bool() {
                // The pods with `hostNetwork` on a node have the same addresses: those of the node.
                Some(true) => BTreeSet::new(),
                _ => addresses
                    .iter()
                    .filter_map(|it| services.get(it))
                    .flatten()
                    .collect(),
            };
            pods.entry(text(&pod["spec"]["nodeName"]))
                .or_default()
                .push(PodBox {
                    namespace: text(&pod["metadata"]["namespace"]).to_owned(),
                    name: name(pod).to_owned(),
                    state: PodState::of(pod),
                    services: of_pod.into_iter().cloned().collect(),
                    addresses,
                });
        }
        let nodes = objects.all(Kind::Node).into_iter().map(|it| NodeBox {
            name: name(it).to_owned(),
            zone: it["metadata"]["labels"]["topology.kubernetes.io/zone"]
                .as_str()
                .map(str::to_owned),
            addresses: ips(&it["status"]["addresses"], "address")
                .iter()
                .map(ToString::to_string)
                .collect(),
            mode: mode_of(it),
            ready: has_condition(it, "Ready"),
            unschedulable: it["spec"]["unschedulable"] == true,
            pods: pods.remove(name(it)).unwrap_or_default(),
        });
        let services = inventory::services(planner, "");
        let names = services.iter().map(|it| it.name.clone());
        Self {
            nodes: nodes.collect(),
            unscheduled: pods.remove("").unwrap_or_default(),
            refusing: names
                .filter(|it| all_refuse(planner, it, &refuses))
                .collect(),
            services,
        }
    }
}

/// Whether every endpoint that clients of a Service are sent to refuses connections. Only TCP does.
fn all_refuse(planner: &Planner, service: &str, refuses: &impl Fn(SocketAddr) -> bool) -> bool {
    let (namespace, name) = service.split_once('/').unwrap_or_default();
    let Some(detail) = inventory::service(planner, &NamespacedName::new(namespace, name)) else {
        return false;
    };
    let served = detail.ports.iter().filter(|it| !it.frontends.is_empty());
    let used = served.flat_map(|port| {
        let endpoints = port.endpoints.iter().filter(|it| it.included);
        endpoints.map(|it| port.protocol == "tcp" && refuses(it.address))
    });
    let mut used = used.peekable();
    used.peek().is_some() && used.all(|refuses| refuses)
}
