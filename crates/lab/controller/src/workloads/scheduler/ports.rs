//! Host ports (`pkg/scheduler/framework/plugins/nodeports`).

use k8s_openapi::api::core::v1::{ContainerPort, Pod, PodSpec};

/// Whether a pod needs a host port that a pod on the node has.
pub(super) fn conflict(spec: &PodSpec, here: &[&Pod]) -> bool {
    ports(spec).any(|wanted| {
        let specs = here.iter().filter_map(|it| it.spec.as_ref());
        let mut used = specs.flat_map(ports);
        used.any(|it| is_same(it, wanted))
    })
}

fn ports(spec: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    let ports = spec.containers.iter().flat_map(|it| it.ports.iter());
    ports.flatten().filter(|it| it.host_port.unwrap_or(0) > 0)
}

/// Whether two host ports conflict: same port and protocol, and the same address or none.
fn is_same(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol = |it: &ContainerPort| it.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let address = |it: &ContainerPort| {
        it.host_ip
            .clone()
            .filter(|it| it != "0.0.0.0" && !it.is_empty())
    };
    let is_near = match (address(a), address(b)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    a.host_port == b.host_port && protocol(a) == protocol(b) && is_near
}
