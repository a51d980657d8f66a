//! What the API server says beside a plan: the pods of a Service, and pods by name.

use serde_json::Value;
use sluice_diagnose::doctor::{Container, ContainerPort, PodState, ServicePods, Target};
use sluice_model::NamespacedName;
use sluice_source::apiserver::{self, Client};

/// Most pods of a Service that are read.
const PODS: usize = 500;

/// One pod, and why not.
pub(crate) fn pod(client: &Client, name: &NamespacedName) -> Result<PodState, String> {
    let (namespace, pod) = (&name.namespace, &name.name);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    let pod: Value = apiserver::read(client, &path, || format!("find pod {name}"))
        .map_err(|it| it.to_string())?;
    Ok(state(&pod))
}

/// The first object of the list at this path; `None` without one, and where the list cannot be read.
pub(crate) fn first_of(client: &Client, path: &str) -> Option<String> {
    let list: Value = apiserver::read(client, path, || format!("list {path}")).ok()?;
    let metadata = &list["items"].get(0)?["metadata"];
    let name = text(&metadata["name"]);
    Some(match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    })
}

/// The pods that the selector of a Service chooses.
pub(crate) fn pods(client: &Client, name: &NamespacedName) -> Result<ServicePods, String> {
    let (namespace, service) = (&name.namespace, &name.name);
    let path = format!("/api/v1/namespaces/{namespace}/services/{service}");
    let service: Value = apiserver::read(client, &path, || format!("read Service {name}"))
        .map_err(|it| it.to_string())?;
    let labels = service["spec"]["selector"].as_object();
    let selector = labels.into_iter().flatten();
    let selector: Vec<String> = selector
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    let selector = selector.join(",");
    if selector.is_empty() {
        return Ok(ServicePods::default());
    }
    // Keys and values of labels have no letter that a query would need to escape.
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}&limit={PODS}");
    let pods: Value = apiserver::read(client, &path, || format!("list pods of {name}"))
        .map_err(|it| it.to_string())?;
    // A number needs no container's name.
    let target = |it: &Value| {
        let name = it["targetPort"].as_str()?.to_owned();
        let port = it["name"].as_str().map(str::to_owned);
        let port = port.unwrap_or_else(|| it["port"].to_string());
        Some(Target { port, name })
    };
    Ok(ServicePods {
        selector,
        targets: list(&service["spec"]["ports"]).filter_map(target).collect(),
        pods: list(&pods["items"]).map(state).collect(),
    })
}

fn state(pod: &Value) -> PodState {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let container = |it: &Value| {
        let mut statuses = list(&status["containerStatuses"]);
        let status = statuses.find(|status| status["name"] == it["name"]);
        container(it, status.unwrap_or(&Value::Null))
    };
    PodState {
        name: text(&pod["metadata"]["name"]),
        phase: text(&status["phase"]),
        addresses: list(&status["podIPs"]).map(|it| text(&it["ip"])).collect(),
        node: spec["nodeName"].as_str().map(str::to_owned),
        containers: list(&spec["containers"]).map(container).collect(),
    }
}

fn container(container: &Value, status: &Value) -> Container {
    let port = |it: &Value| {
        Some(ContainerPort {
            name: it["name"].as_str()?.to_owned(),
            number: number(&it["containerPort"]),
            protocol: it["protocol"].as_str().unwrap_or("TCP").to_owned(),
        })
    };
    let present = |it: &&Value| it.is_object();
    let waiting = Some(&status["state"]["waiting"]).filter(present);
    let ended = ["state", "lastState"].map(|it| &status[it]["terminated"]);
    let ended = ended.into_iter().find(present);
    Container {
        name: text(&container["name"]),
        ports: list(&container["ports"]).filter_map(port).collect(),
        restarts: number(&status["restartCount"]),
        is_ready: status["ready"] == true,
        waiting: waiting.map(|it| (text(&it["reason"]), text(&it["message"]))),
        ended: ended.map(|it| (number(&it["exitCode"]), text(&it["reason"]))),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number<N: TryFrom<i64> + Default>(value: &Value) -> N {
    let number = value.as_i64().and_then(|it| it.try_into().ok());
    number.unwrap_or_default()
}
