//! The command that plays a container.

use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::core::v1::{Container, Pod};
use sluice_reconcile::chain;

use super::container::Role;
use super::variables::{Variables, expand};
use crate::entry::Entry;
use crate::identity::Port;
use crate::images::{self, StandIn};

/// The annotation of a Pod that names a command of this machine for its first container, or with `.NAME` for
/// that container. A shell reads it.
const COMMAND: &str = "sluice.dev/command";

/// Ports of the first container that declares none: the ports that images in tutorials listen on.
const DEFAULT_PORTS: [Port; 2] = [Port::Tcp(80), Port::Tcp(8080)];

/// The command of a container that must end and has no annotation.
const NOTHING: &str = "echo 'no image is run: the annotation sluice.dev/command.NAME names a command for the container NAME'";

/// Images whose program the lab has: its own.
const IMAGES: [&str; 3] = ["sluice", "sluice-iptables", "sluice-dns"];

/// Why a container cannot run, as its waiting state says it.
#[derive(Debug)]
pub(super) struct Cannot {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Cannot {
    /// The machine refuses.
    pub(super) fn create(error: impl Into<anyhow::Error>) -> Self {
        let error: anyhow::Error = error.into();
        Self {
            reason: "CreateContainerError",
            message: chain(error.as_ref()),
        }
    }
}

/// The command of a container in its pod's machine. No image is run, but for Sluice's own, which are this program: `command`
/// and `args` are programs of this machine. Without them, and without an annotation and a program in the image's place, the
/// identity server listens on the container's ports, and init containers and those of Jobs succeed at once.
///
/// # Errors
///
/// This machine lacks the program.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    role: Role,
    entry: &Entry,
    stand_in: Option<&StandIn>,
    inside: impl Fn(&Path) -> Command,
    sluice: &Path,
) -> Result<Command, Cannot> {
    let variables = &entry.variables;
    let identity = |ports: &[Port]| {
        let mut identity = inside(sluice);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        identity.args(["lab", "identity", "--server", name]);
        for port in ports {
            identity.args(["--port", &port.to_string()]);
        }
        if images::tells_client(container.image.as_deref().unwrap_or_default()) {
            identity.arg("--tells-client");
        }
        identity
    };
    let shell = |text: &str| {
        let mut shell = inside(Path::new("/bin/sh"));
        shell.args(["-c", text]);
        shell
    };
    if let Some(text) = of_annotation(pod, container) {
        return Ok(shell(text));
    }
    if own_image(container).is_some() {
        let (program, arguments) = of_image(container, variables);
        let mut command = inside(program.as_deref().unwrap_or(sluice));
        command.args(arguments);
        return Ok(command);
    }
    Ok(match words(container, entry, stand_in)? {
        Words::Program(program, arguments) => {
            let mut command = inside(Path::new(&program));
            command.args(arguments);
            command
        }
        Words::Ports(ports) => identity(&ports),
        Words::Sick(seconds) => {
            let mut identity = identity(&[Port::Tcp(8080)]);
            identity.args(["--healthy-for", &seconds.to_string()]);
            identity
        }
        Words::None if role == Role::Init || is_of_job(pod) => shell(NOTHING),
        Words::None => match &*ports(pod, container) {
            // Another container has the ports.
            [] => nothing_in(&inside),
            ports => {
                let mut identity = identity(ports);
                if let Some(it) = pages(pod, container, stand_in) {
                    identity.args(["--pages", it]);
                }
                identity
            }
        },
    })
}

/// The folder whose files are served for a container that runs what stands in for its image.
pub(super) fn pages(
    pod: &Pod,
    container: &Container,
    stand_in: Option<&StandIn>,
) -> Option<&'static str> {
    let is_served = stand_in.is_none() && is_left_to_image(pod, container);
    images::pages(container.image.as_deref()?).filter(|_| is_served)
}

/// Whether a container leaves to its image what runs.
fn is_left_to_image(pod: &Pod, container: &Container) -> bool {
    let words = [&container.command, &container.args];
    let has_none = words.iter().all(|it| it.iter().flatten().next().is_none());
    has_none && of_annotation(pod, container).is_none()
}

/// What a container asks to be run.
#[derive(Debug, PartialEq, Eq)]
enum Words {
    Program(String, Vec<String>),
    /// A server of agnhost on these ports, whose paths the identity server has.
    Ports(Vec<Port>),
    /// agnhost's server for liveness probes, which is well for so many seconds.
    Sick(u64),
    /// Neither: the container runs what stands in for its image.
    None,
}

/// `command` and `args`, as its image would take them.
fn words(
    container: &Container,
    entry: &Entry,
    stand_in: Option<&StandIn>,
) -> Result<Words, Cannot> {
    let known = |name: &str| {
        let mut all = entry.variables.iter();
        let found = all.find(|(it, _)| it == name);
        found.map(|(_, value)| value.clone())
    };
    let texts = |it: &Option<Vec<String>>| -> Vec<String> {
        let all = it.iter().flatten();
        all.map(|it| expand(it, known)).collect()
    };
    let image = container.image.as_deref().unwrap_or_default();
    let (mut all, mut args) = (texts(&container.command), texts(&container.args));
    match stand_in {
        // `command` takes the place of ENTRYPOINT and of CMD.
        Some(it) if all.is_empty() => {
            all.clone_from(&it.command);
            if args.is_empty() {
                args.clone_from(&it.args);
            }
        }
        None if images::name(image) == "agnhost" => {
            let is_agnhost = |it: &String| it.ends_with("agnhost");
            let skipped = usize::from(all.first().is_some_and(is_agnhost));
            let words: Vec<String> = all.iter().chain(&args).skip(skipped).cloned().collect();
            if skipped == 1 || all.is_empty() {
                return agnhost(&words, image);
            }
        }
        _ => {}
    }
    let options = args.first().is_none_or(|it| it.starts_with('-'));
    if all.is_empty() && !args.is_empty() && options {
        let Some(program) = images::program(image) else {
            let message = format!(
                "no image is run, and what {image:?} starts with args alone is not known here: name the program in \
                 `command`, or a command of this machine in the annotation {COMMAND}.{}; {}",
                container.name,
                flag(image)
            );
            let reason = "ErrImagePull";
            return Err(Cannot { reason, message });
        };
        all.push(program.to_owned());
    }
    all.extend(args);
    if all.is_empty() && (container.stdin == Some(true) || container.tty == Some(true)) {
        all.extend(images::shell(image).map(str::to_owned));
    }
    if all.is_empty() && images::name(image) == "pause" {
        return Ok(nothing());
    }
    let mut all = all.into_iter();
    let Some(program) = all.next() else {
        return Ok(Words::None);
    };
    let path = images::path_of(entry, image);
    let checked = images::check(&program, &path, &entry.mounts);
    let cannot = |why| Cannot {
        reason: "RunContainerError",
        message: format!("{why}; {}", flag(image)),
    };
    checked.map_err(cannot)?;
    Ok(Words::Program(program, all.collect()))
}

/// How a program takes the place of an image.
fn flag(image: &str) -> String {
    format!(
        "`sluice lab up --image {}=PROGRAM` lets a program stand in for the image",
        images::name(image)
    )
}

/// What `pause` does: it serves nothing, and goes on.
const NOTHING_BUT_LIFE: [&str; 2] = ["sleep", "infinity"];

fn nothing() -> Words {
    let [program, argument] = NOTHING_BUT_LIFE.map(str::to_owned);
    Words::Program(program, vec![argument])
}

fn nothing_in(inside: impl Fn(&Path) -> Command) -> Command {
    let [program, argument] = NOTHING_BUT_LIFE;
    let mut command = inside(Path::new(program));
    command.arg(argument);
    command
}

/// The servers of Kubernetes' test image (`test/images/agnhost`) that the identity server plays.
fn agnhost(words: &[String], image: &str) -> Result<Words, Cannot> {
    let number = |name: &str, default: i32| {
        let mut rest = words.iter().skip_while(|it| {
            let flag = it.split('=').next().unwrap_or_default();
            flag != name
        });
        let flag = rest.next();
        let value = flag.and_then(|it| it.split_once('=').map(|(_, value)| value.to_owned()));
        let value = value.or_else(|| rest.next().filter(|_| flag.is_some()).cloned());
        let value = value.and_then(|it| it.parse().ok()).unwrap_or(default);
        // -1 is none.
        u16::try_from(value).ok()
    };
    let ports = match words.first().map(String::as_str) {
        None => return Ok(Words::None),
        Some("netexec") => [
            number("--http-port", 8080).map(Port::Tcp),
            number("--udp-port", 8081).map(Port::Udp),
        ],
        Some("pause") => return Ok(nothing()),
        Some("serve-hostname") => [number("--port", 9376).map(Port::Tcp), None],
        Some("liveness") => return Ok(Words::Sick(10)),
        Some(other) => {
            let message = format!(
                "no image is run: of agnhost the lab has liveness, netexec, pause and serve-hostname, and not {other:?}; {}",
                flag(image)
            );
            let reason = "RunContainerError";
            return Err(Cannot { reason, message });
        }
    };
    Ok(Words::Ports(ports.into_iter().flatten().collect()))
}

/// The image of a container if it is one of Sluice's, whatever its registry and tag.
pub(super) fn own_image(container: &Container) -> Option<&'static str> {
    let name = images::name(container.image.as_deref()?);
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

/// The ports that a server plays for a container. The containers of a pod share its ports: of those that declare none the first
/// one has the ports that no other one declares.
fn ports(pod: &Pod, container: &Container) -> Vec<Port> {
    let own = declared(container);
    if !own.is_empty() {
        return own;
    }
    let spec = pod.spec.as_ref();
    let apps = spec.map_or(&[][..], |it| &it.containers);
    let sidecars = spec
        .and_then(|it| it.init_containers.as_deref())
        .unwrap_or_default();
    let all = || sidecars.iter().chain(apps);
    if all().all(|it| it.name != container.name) {
        // An ephemeral container has no ports.
        return Vec::new();
    }
    let plays = |it: &&Container| declared(it).is_empty() && is_left_to_image(pod, it);
    let mut candidates = apps.iter().chain(sidecars).filter(plays);
    if candidates
        .next()
        .is_some_and(|it| it.name != container.name)
    {
        return Vec::new();
    }
    let taken: Vec<Port> = all().flat_map(declared).collect();
    let of_image = images::port(container.image.as_deref().unwrap_or_default());
    let ports = DEFAULT_PORTS.into_iter().chain(of_image.map(Port::Tcp));
    ports.filter(|it| !taken.contains(it)).collect()
}

fn declared(container: &Container) -> Vec<Port> {
    let declared = container.ports.iter().flatten();
    let ports = declared.filter_map(|it| {
        let number = u16::try_from(it.container_port).ok()?;
        match it.protocol.as_deref() {
            Some("UDP") => Some(Port::Udp(number)),
            Some("SCTP") => None,
            _ => Some(Port::Tcp(number)),
        }
    });
    ports.collect()
}

#[cfg(test)]
mod tests;
