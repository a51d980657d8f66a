//! The command that plays a container.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::container::Role;
use crate::identity::Port;

/// The annotation of a Pod that names a command of this machine for its first container, or with `.NAME` for
/// that container. A shell reads it.
const COMMAND: &str = "sluice.dev/command";

/// Ports of a container that declares none: the ports that images in tutorials listen on.
const DEFAULT_PORTS: [Port; 2] = [Port::Tcp(80), Port::Tcp(8080)];

/// The command of a container that must end and has no annotation.
const NOTHING: &str = "echo 'no image is run: the annotation sluice.dev/command.NAME names a command for the container NAME'";

/// The command of a container in its pod's machine. No image is run: without an annotation the identity server
/// listens on the container's ports, and init containers and those of Jobs succeed at once.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    role: Role,
    inside: impl Fn(&Path) -> Command,
    sluice: &Path,
) -> Command {
    let shell = |text: &str| {
        let mut shell = inside(Path::new("/bin/sh"));
        shell.args(["-c", text]);
        shell
    };
    match of_annotation(pod, container) {
        Some(text) => shell(text),
        None if role == Role::Init || is_of_job(pod) => shell(NOTHING),
        None => {
            let mut identity = inside(sluice);
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            identity.args(["lab", "identity", "--server", name]);
            for port in ports(container) {
                identity.args(["--port", &port.to_string()]);
            }
            identity
        }
    }
}

/// Whether somebody waits for the end of the pod.
fn is_of_job(pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|it| it.controller == Some(true) && it.kind == "Job")
}

/// The hostname of a pod.
pub(super) fn hostname(pod: &Pod) -> String {
    let named = pod.spec.as_ref().and_then(|it| it.hostname.clone());
    let name = named.or_else(|| pod.metadata.name.clone());
    // The kernel's limit.
    name.unwrap_or_default().chars().take(63).collect()
}

fn of_annotation<'a>(pod: &'a Pod, container: &Container) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let own = annotations.get(&format!("{COMMAND}.{}", container.name));
    let first = pod.spec.as_ref()?.containers.first()?;
    let general = || {
        annotations
            .get(COMMAND)
            .filter(|_| first.name == container.name)
    };
    own.or_else(general).map(String::as_str)
}

fn ports(container: &Container) -> Vec<Port> {
    let declared = container.ports.iter().flatten();
    let mut ports: Vec<Port> = declared
        .filter_map(|it| {
            let number = u16::try_from(it.container_port).ok()?;
            match it.protocol.as_deref() {
                Some("UDP") => Some(Port::Udp(number)),
                Some("SCTP") => None,
                _ => Some(Port::Tcp(number)),
            }
        })
        .collect();
    if ports.is_empty() {
        ports.extend(DEFAULT_PORTS);
    }
    ports
}
