//! What the API server says beside a plan: the pods of a Service, and pods by name.

use std::collections::BTreeMap;

use serde::Deserialize;
use sluice_diagnose::doctor::{Container, ContainerPort, PodState, ServicePods, Target};
use sluice_model::NamespacedName;
use sluice_source::apiserver::{self, Client};

/// Most pods of a Service that are read.
const PODS: usize = 500;

/// One pod, and why not.
pub(crate) fn pod(client: &Client, name: &NamespacedName) -> Result<PodState, String> {
    let (namespace, pod) = (&name.namespace, &name.name);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    let pod: Pod = apiserver::read(client, &path, || format!("find pod {name}"))
        .map_err(|it| it.to_string())?;
    Ok(pod.state())
}

/// The pods that the selector of a Service chooses.
pub(crate) fn pods(client: &Client, name: &NamespacedName) -> Result<ServicePods, String> {
    let (namespace, service) = (&name.namespace, &name.name);
    let path = format!("/api/v1/namespaces/{namespace}/services/{service}");
    let service: Service = apiserver::read(client, &path, || format!("read Service {name}"))
        .map_err(|it| it.to_string())?;
    let targets = service
        .spec
        .ports
        .iter()
        .filter_map(|it| match &it.target_port {
            Some(IntOrString::String(target)) => Some(Target {
                port: it.name.clone().unwrap_or_else(|| it.port.to_string()),
                name: target.clone(),
            }),
            _ => None,
        });
    let targets = targets.collect();
    let labels = service.spec.selector.iter();
    let selector = labels.map(|(key, value)| format!("{key}={value}"));
    let selector = selector.collect::<Vec<_>>().join(",");
    if selector.is_empty() {
        return Ok(ServicePods::default());
    }
    // Keys and values of labels have no letter that a query would need to escape.
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}&limit={PODS}");
    let pods: List<Pod> = apiserver::read(client, &path, || format!("list pods of {name}"))
        .map_err(|it| it.to_string())?;
    Ok(ServicePods {
        selector,
        targets,
        pods: pods.items.into_iter().map(Pod::state).collect(),
    })
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Service {
    spec: ServiceSpec,
}

#[derive(Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    selector: BTreeMap<String, String>,
    #[serde(default)]
    ports: Vec<ServicePort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServicePort {
    name: Option<String>,
    port: u16,
    target_port: Option<IntOrString>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum IntOrString {
    Int(#[expect(dead_code, reason = "a number needs no container's name")] i64),
    String(String),
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    #[serde(default)]
    containers: Vec<PodContainer>,
}

#[derive(Deserialize)]
struct PodContainer {
    name: String,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    name: Option<String>,
    container_port: u16,
    protocol: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
struct PodIp {
    ip: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: u32,
    #[serde(default)]
    state: ContainerState,
    #[serde(default)]
    last_state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: String,
}

impl Pod {
    fn state(self) -> PodState {
        let statuses = self.status.container_statuses;
        let containers = self.spec.containers.into_iter().map(|it| {
            let status = statuses.iter().find(|status| status.name == it.name);
            let ended = status.and_then(|it| {
                it.state
                    .terminated
                    .as_ref()
                    .or(it.last_state.terminated.as_ref())
            });
            let waiting = status.and_then(|it| it.state.waiting.as_ref());
            let ports = it.ports.into_iter().filter_map(|it| {
                Some(ContainerPort {
                    name: it.name?,
                    number: it.container_port,
                    protocol: it.protocol.unwrap_or_else(|| "TCP".to_owned()),
                })
            });
            Container {
                name: it.name,
                ports: ports.collect(),
                restarts: status.map_or(0, |it| it.restart_count),
                is_ready: status.is_some_and(|it| it.ready),
                waiting: waiting.map(|it| (it.reason.clone(), it.message.clone())),
                ended: ended.map(|it| (it.exit_code, it.reason.clone())),
            }
        });
        PodState {
            name: self.metadata.name,
            phase: self.status.phase,
            addresses: self.status.pod_ips.into_iter().map(|it| it.ip).collect(),
            node: self.spec.node_name,
            containers: containers.collect(),
        }
    }
}
