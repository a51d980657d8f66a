//! The command that plays a container.

use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::container::Role;
use super::variables::{Variables, expand};
use crate::identity::Port;

/// The annotation of a Pod that names a command of this machine for its first container, or with `.NAME` for
/// that container. A shell reads it.
const COMMAND: &str = "sluice.dev/command";

/// Ports of a container that declares none: the ports that images in tutorials listen on.
const DEFAULT_PORTS: [Port; 2] = [Port::Tcp(80), Port::Tcp(8080)];

/// The command of a container that must end and has no annotation.
const NOTHING: &str = "echo 'no image is run: the annotation sluice.dev/command.NAME names a command for the container NAME'";

/// Images whose program the lab has: its own.
const IMAGES: [&str; 3] = ["sluice", "sluice-iptables", "sluice-dns"];

/// The command of a container in its pod's machine. No image is run, but for Sluice's own, which are this program. Without
/// an annotation the identity server listens on the container's ports, and init containers and those of Jobs succeed at
/// once.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    role: Role,
    variables: &Variables,
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
        None if own_image(container).is_some() => {
            let (program, arguments) = of_image(container, variables);
            let mut command = inside(program.as_deref().unwrap_or(sluice));
            command.args(arguments);
            command
        }
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

/// The image of a container if it is one of Sluice's, whatever its registry and tag.
pub(super) fn own_image(container: &Container) -> Option<&'static str> {
    let image = container.image.as_deref()?.rsplit('/').next()?;
    let name = image.split([':', '@']).next()?;
    IMAGES.into_iter().find(|it| *it == name)
}

/// The program of a container with an image of Sluice's, `None` for Sluice itself, and its arguments. The names under which
/// the images have it are subcommands.
fn of_image(container: &Container, variables: &Variables) -> (Option<PathBuf>, Vec<String>) {
    let known = |name: &str| {
        let mut all = variables.iter();
        let found = all.find(|(it, _)| it == name);
        found.map(|(_, value)| value.clone())
    };
    let entry = match own_image(container) {
        Some("sluice-dns") => "coredns",
        _ => "sluice",
    };
    let command = container.command.clone().filter(|it| !it.is_empty());
    let command = command.unwrap_or_else(|| vec![entry.to_owned()]);
    let words = command
        .into_iter()
        .chain(container.args.clone().unwrap_or_default());
    let mut words = words.map(|it| expand(&it, known));
    let program = PathBuf::from(words.next().unwrap_or_default());
    let name = program
        .file_name()
        .and_then(|it| it.to_str())
        .map(str::to_owned);
    let (program, first) = match name.as_deref() {
        Some("sluice") => (None, None),
        Some("kube-proxy") => (None, Some("proxy".to_owned())),
        Some("coredns") => (None, Some("dns".to_owned())),
        _ => (Some(program), None),
    };
    (program, first.into_iter().chain(words).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_sluice_are_this_program() {
        for (image, command, args, expect) in [
            (
                "sluice:0.1",
                vec!["/usr/local/bin/kube-proxy"],
                vec!["--hostname-override=$(NODE_NAME)"],
                "- proxy --hostname-override=n1",
            ),
            (
                "example.com:5000/a/sluice-iptables@sha256:1",
                vec![],
                vec!["status"],
                "- status",
            ),
            (
                "sluice-dns",
                vec![],
                vec!["-conf", "$$(X)"],
                "- dns -conf $(X)",
            ),
            (
                "sluice",
                vec!["/bin/sh", "-c"],
                vec!["true"],
                "/bin/sh -c true",
            ),
        ] {
            let texts = |it: Vec<&str>| Some(it.into_iter().map(str::to_owned).collect());
            let container = Container {
                image: Some(image.to_owned()),
                command: texts(command),
                args: texts(args),
                ..Container::default()
            };
            assert!(own_image(&container).is_some(), "{image}");
            let variables = vec![("NODE_NAME".to_owned(), "n1".to_owned())];
            let (program, arguments) = of_image(&container, &variables);
            let program = program.map_or("-".to_owned(), |it| it.display().to_string());
            assert_eq!(
                format!("{program} {}", arguments.join(" ")),
                expect,
                "{image}"
            );
        }
        let other = |image: &str| Container {
            image: Some(image.to_owned()),
            ..Container::default()
        };
        assert_eq!(own_image(&other("sluice-lab")), None);
        assert_eq!(own_image(&other("sluice/nginx")), None);
    }
}
