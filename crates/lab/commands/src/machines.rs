//! Commands that run something in a machine of the lab.

use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use sluice_cluster::client::{Client, Patch};
use sluice_cluster::enter::{self, Inside};
use sluice_cluster::lab_dir::LabDir;
use sluice_cluster::launch::Program;
use sluice_cluster::names::{CLIENT, netns_name};
use sluice_cluster::nodes::POWER;
use sluice_cluster::probe::{Answers, Request};
use sluice_lab::Spread;

use super::open;
use crate::args::{MachineArgs, ProbeArgs};
use crate::output::{put, say};
use sluice_node::output::{Stream, write_json};

/// A machine that a user named.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Machine {
    Client,
    Node(String),
    Pod { object: Box<Value> },
}

pub(super) fn find(client: &Client, name: &str, namespace: &str) -> anyhow::Result<Machine> {
    if name == CLIENT {
        return Ok(Machine::Client);
    }
    let (only, name) = match name.split_once('/') {
        Some(("node" | "nodes" | "no", name)) => ("node", name),
        Some(("pod" | "pods" | "po", name)) => ("pod", name),
        Some((other, _)) => bail!("{other}: a machine is a node, a pod or `{CLIENT}`"),
        None => ("", name),
    };
    let nodes = format!("/api/v1/nodes/{name}");
    if only != "pod" && client.get(&nodes).is_ok() {
        return Ok(Machine::Node(name.to_owned()));
    }
    let pods = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    match client.get(&pods) {
        Ok(object) if only != "node" => Ok(Machine::Pod {
            object: Box::new(object),
        }),
        _ => bail!(
            "no node and no pod {name} in the namespace {namespace}: `sluice lab get nodes`, \
             `sluice lab get pods -A`"
        ),
    }
}

impl Machine {
    /// The name of its network namespace.
    pub(super) fn netns(&self, lab_dir: &LabDir) -> String {
        self.inside(lab_dir).netns
    }

    fn inside(&self, lab_dir: &LabDir) -> Inside {
        match self {
            Self::Client => Inside {
                netns: netns_name(CLIENT),
                hostname: CLIENT.to_owned(),
                resolv_conf: Some(lab_dir.resolv_conf_of_nodes()),
                ..Inside::default()
            },
            Self::Node(name) => Inside {
                netns: netns_name(name),
                hostname: name.clone(),
                run: Some(lab_dir.node(name).join("run")),
                resolv_conf: Some(lab_dir.resolv_conf_of_nodes()),
                ..Inside::default()
            },
            Self::Pod { object } => inside_pod(lab_dir, object).0,
        }
    }
}

/// A command that runs in a machine once this process is in the lab.
pub(super) fn command(
    lab_dir: &LabDir,
    machine: &Machine,
    words: &[String],
) -> anyhow::Result<Command> {
    let path = std::env::current_exe().context("find the path of this program")?;
    let lab = Program {
        path: &path,
        lab_dir,
    };
    let (program, arguments) = words.split_first().context("name a program")?;
    let mut command = machine.inside(lab_dir).command(lab, program.as_ref());
    command.args(arguments);
    if let Machine::Pod { object } = machine {
        let (inside, variables) = inside_pod(lab_dir, object);
        let has_terminal = io::stdin().is_terminal();
        inside.set_environment(&mut command, &variables, has_terminal);
    }
    Ok(command)
}

/// What the first container of a pod sees, and its variables.
fn inside_pod(lab_dir: &LabDir, pod: &Value) -> (Inside, Vec<(String, String)>) {
    Inside::of_container(lab_dir, pod, first_container(pod))
}

fn first_container(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["name"]
        .as_str()
        .unwrap_or_default()
}

pub(super) fn exec(args: &MachineArgs, words: &[String]) -> anyhow::Result<ExitCode> {
    let lab_dir = LabDir::of(&args.at.lab.name)?;
    let client = Client::open(&lab_dir)?;
    let machine = find(&client, &args.machine, &args.at.namespace)?;
    // Its threads may not come along into the lab.
    drop(client);
    let mut command = command(&lab_dir, &machine, words)?;
    let inside = machine.inside(&lab_dir);
    Ok(code(enter::run(&lab_dir, &inside, &mut command)?))
}

pub(super) fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;

    let code = status.code().or_else(|| Some(128 + status.signal()?));
    ExitCode::from(code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1))
}

pub(super) fn kill(args: &MachineArgs) -> anyhow::Result<ExitCode> {
    let client = open(&args.at.lab.name)?;
    match find(&client, &args.machine, &args.at.namespace)? {
        Machine::Client => bail!("`{CLIENT}` has nothing to kill"),
        Machine::Node(name) => {
            power(&client, &name, Some("off"))?;
            say!("node/{name} is cut off; `sluice lab start {name}` brings it back");
            Ok(ExitCode::SUCCESS)
        }
        Machine::Pod { object } => {
            if object["spec"]["hostNetwork"] == true {
                bail!("the processes of a pod with hostNetwork are not alone in its namespace");
            }
            drop(client);
            let machine = Machine::Pod { object };
            let script = "for it in /proc/[0-9]*; do \
                          if [ $it/ns/net -ef \"/run/netns/$0\" ]; then kill -9 ${it#/proc/}; fi; done";
            let lab_dir = LabDir::of(&args.at.lab.name)?;
            let netns = machine.inside(&lab_dir).netns;
            let words = ["sh", "-c", script, &netns].map(str::to_owned);
            // Outside the pod's namespace, so that it does not kill itself.
            let mut command = command(&lab_dir, &Machine::Client, &words)?;
            Ok(code(enter::run(
                &lab_dir,
                &Inside::default(),
                &mut command,
            )?))
        }
    }
}

pub(super) fn start(args: &MachineArgs) -> anyhow::Result<()> {
    let client = open(&args.at.lab.name)?;
    power(&client, &args.machine, None)?;
    say!("node/{} is back", args.machine);
    Ok(())
}

fn power(client: &Client, node: &str, value: Option<&str>) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {POWER: value}}});
    let path = format!("/api/v1/nodes/{node}");
    client.patch(&path, Patch::Merge, &patch).map(drop)
}

pub(super) fn probe(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let lab_dir = LabDir::of(&args.lab.name)?;
    let client = Client::open(&lab_dir)?;
    let from = find(&client, &args.from, &args.namespace)?;
    let (target, udp) = target(&client, &from, &args.to, &args.namespace)?;
    drop(client);
    let request = Request {
        target,
        udp,
        count: args.count,
        timeout: args.timeout,
        pause: args.pause,
        source_port: args.source_port,
    };
    let answers = ask(&lab_dir, &from, &request)?;
    if args.output.is_some() {
        write_json(Stream::Out, &serde_json::to_string_pretty(&answers)?);
    } else {
        say!("{} requests from {} to {target}", args.count, args.from);
        put!("{}", drawn(&answers));
    }
    Ok(match answers.failures() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Sends requests from a machine. This process stays in the lab's namespaces afterwards.
pub(super) fn ask(lab_dir: &LabDir, from: &Machine, request: &Request) -> anyhow::Result<Answers> {
    let path = std::env::current_exe().context("find the path of this program")?;
    let lab = Program {
        path: &path,
        lab_dir,
    };
    // The program itself, whatever else the machine sees.
    let network = Inside {
        netns: from.netns(lab_dir),
        ..Inside::default()
    };
    let mut command = network.command(lab, &path);
    command.args(request.words());
    enter::join(lab_dir)?;
    let output = command.stderr(Stdio::inherit()).output()?;
    serde_json::from_slice(&output.stdout).context("the requests could not be sent")
}

/// The shares of the servers as bars, the errors, and percentiles of the times.
fn drawn(answers: &Answers) -> String {
    let spread = Spread {
        answered: answers.answered.clone(),
        failed: answers.failed.clone(),
    };
    let mut text = format!("{spread}\n");
    if !answers.seen_from.is_empty() {
        let seen: Vec<String> = answers
            .seen_from
            .iter()
            .map(|(address, count)| format!("{address} ({count})"))
            .collect();
        text += &format!("the server saw: {}\n", seen.join(", "));
    }
    for (what, sorted) in [
        ("connect", &answers.connect_us),
        ("answer", &answers.answer_us),
    ] {
        let at = |percent| Answers::percentile(sorted, percent);
        if let (Some(half), Some(most), Some(nearly), Some(last)) =
            (at(50), at(90), at(99), sorted.last().copied())
        {
            let ms = |us: u64| us as f64 / 1000.0;
            text += &format!(
                "{what:8} p50 {:.2} ms  p90 {:.2} ms  p99 {:.2} ms  longest {:.2} ms\n",
                ms(half),
                ms(most),
                ms(nearly),
                ms(last)
            );
        }
    }
    if std::io::stdout().is_terminal() {
        text.insert(0, '\n');
    }
    text
}

/// The address that a user named, and whether requests are datagrams.
pub(super) fn target(
    client: &Client,
    from: &Machine,
    text: &str,
    namespace: &str,
) -> anyhow::Result<(SocketAddr, bool)> {
    let (text, udp) = match text.strip_suffix("/udp") {
        Some(text) => (text, true),
        None => (text.strip_suffix("/tcp").unwrap_or(text), false),
    };
    Ok((address(client, from, text, namespace)?, udp))
}

fn address(
    client: &Client,
    from: &Machine,
    text: &str,
    namespace: &str,
) -> anyhow::Result<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some((of, name)) = text.split_once('/') {
        let (name, port) = match name.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (name, None),
        };
        let kind = client.kind(of)?;
        let object = client.get(&kind.path(Some(namespace), Some(name)))?;
        return match kind.kind.as_str() {
            "Service" => of_service(client, from, &object, port),
            "Pod" => of_pod(&object, port),
            _ => bail!("{text}: svc/NAME, pod/NAME, NODE:PORT or IP:PORT"),
        };
    }
    let (name, port) = text
        .rsplit_once(':')
        .with_context(|| format!("{text}: svc/NAME, pod/NAME, NODE:PORT or IP:PORT"))?;
    let node = client.get(&format!("/api/v1/nodes/{name}"))?;
    Ok(SocketAddr::new(
        node_ip(&node, &Value::Null)?,
        port.parse()?,
    ))
}

/// The first address of a node, of the first family of a Service if it is of one.
fn node_ip(node: &Value, service: &Value) -> anyhow::Result<IpAddr> {
    let is_wanted = |ip: &IpAddr| match service["spec"]["ipFamilies"][0].as_str() {
        Some("IPv6") => ip.is_ipv6(),
        Some(_) => ip.is_ipv4(),
        None => true,
    };
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let mut addresses = addresses.filter_map(|it| it["address"].as_str()?.parse().ok());
    addresses
        .find(is_wanted)
        .context("the node has no address of this family yet")
}

fn of_pod(pod: &Value, port: Option<&str>) -> anyhow::Result<SocketAddr> {
    let ip = pod["status"]["podIP"].as_str();
    let ip = ip.context("the pod has no address yet")?.parse()?;
    let containers = pod["spec"]["containers"].as_array();
    let mut ports = containers
        .into_iter()
        .flatten()
        .flat_map(|it| it["ports"].as_array().into_iter().flatten());
    let number = match port {
        Some(text) if text.parse::<u16>().is_ok() => text.parse()?,
        Some(name) => number(ports.find(|it| it["name"] == name), "containerPort")
            .with_context(|| format!("the pod has no port {name}"))?,
        None => number(ports.next(), "containerPort").unwrap_or(80),
    };
    Ok(SocketAddr::new(ip, number))
}

fn of_service(
    client: &Client,
    from: &Machine,
    service: &Value,
    port: Option<&str>,
) -> anyhow::Result<SocketAddr> {
    let spec = &service["spec"];
    if let Some(name) = spec["externalName"].as_str() {
        bail!("a Service of type ExternalName has no address: it is a DNS name for {name}");
    }
    let ports = spec["ports"].as_array().cloned().unwrap_or_default();
    let wanted = |it: &&Value| match port {
        None => true,
        Some(text) => it["name"] == text || number(Some(it), "port") == text.parse().ok(),
    };
    let port = ports
        .iter()
        .find(wanted)
        .context("the Service has no such port")?;
    let service_port = number(Some(port), "port").context("the Service's port")?;
    if *from == Machine::Client {
        let ingress = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        let external = spec["externalIPs"][0].as_str();
        if let Some(ip) = ingress.or(external) {
            return Ok(SocketAddr::new(ip.parse()?, service_port));
        }
        if let Some(node_port) = number(Some(port), "nodePort") {
            let nodes = client.get("/api/v1/nodes")?;
            return Ok(SocketAddr::new(
                node_ip(&nodes["items"][0], service)?,
                node_port,
            ));
        }
    }
    let ip = spec["clusterIP"].as_str().filter(|it| *it != "None");
    let ip = ip.context("a headless Service has no address: ask a pod")?;
    Ok(SocketAddr::new(ip.parse()?, service_port))
}

fn number(port: Option<&Value>, field: &str) -> Option<u16> {
    port?[field].as_u64().and_then(|it| u16::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_port_is_dialled_at_an_address_of_the_services_family() {
        let addresses = ["lab-1", "192.0.2.1", "2001:db8::1"].map(|it| json!({ "address": it }));
        let node = json!({ "status": { "addresses": addresses } });
        let service = |families: Value| json!({ "spec": { "ipFamilies": families } });
        for (families, ip) in [
            (json!(["IPv6"]), "2001:db8::1"),
            (json!(["IPv4", "IPv6"]), "192.0.2.1"),
            (json!(["IPv6", "IPv4"]), "2001:db8::1"),
            (Value::Null, "192.0.2.1"),
        ] {
            let found = node_ip(&node, &service(families)).unwrap();
            assert_eq!(found.to_string(), ip);
        }
        assert!(node_ip(&json!({}), &service(json!(["IPv6"]))).is_err());
    }
}
