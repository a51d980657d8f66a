//! The user's own Services: pods of the lab get the addresses of their endpoints.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::rules::Dialled;
use super::{Demo, Dial, From, Options};
use crate::{Cluster, Node, Protocol, Server, sctp_available};

/// Limits of the lab for a folder of manifests.
const MOST_NODES: usize = 4;
const MOST_PODS: usize = 60;

/// A folder of manifests, with its frontends and endpoints.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The folder, which the agents read.
    pub path: PathBuf,
    /// The frontends of its Services.
    pub frontends: Vec<Frontend>,
    /// Endpoints, one for each address.
    pub endpoints: Vec<Endpoint>,
}

/// An address and port that clients dial.
#[derive(Clone, Debug)]
pub struct Frontend {
    /// The Service port.
    pub name: String,
    pub address: Address,
    pub port: u16,
    pub protocol: Protocol,
}

/// The address of a frontend.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    /// A ClusterIP: a pod connects.
    ClusterIp(IpAddr),
    /// A load balancer's address or an external IP: a machine outside the cluster connects.
    External(IpAddr),
    /// The first node's IPv4 address: a machine outside the cluster connects.
    NodePortV4,
    /// The first node's IPv6 address: a machine outside the cluster connects.
    NodePortV6,
}

/// An address with the ports on which something has to answer.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The pod's name in its answers.
    pub name: String,
    /// `nodeName`; the first node without one.
    pub node: Option<String>,
    pub address: IpAddr,
    /// Ports with their protocols.
    pub ports: BTreeSet<(u16, Protocol)>,
}

pub(super) fn build(folder: &Folder, options: &Options<'_>) -> anyhow::Result<Demo> {
    let path = folder.path.display();
    let endpoints = &folder.endpoints;
    ensure!(
        !folder.frontends.is_empty(),
        "{path}: no Service here has an address or a NodePort to connect to"
    );
    let names: BTreeSet<&String> = endpoints.iter().filter_map(|it| it.node.as_ref()).collect();
    let mut node_names: Vec<String> = names.into_iter().cloned().collect();
    if node_names.is_empty() {
        node_names.push("node-a".to_owned());
    }
    ensure!(
        node_names.len() <= MOST_NODES && endpoints.len() <= MOST_PODS,
        "{path}: {} nodes and {} endpoints; the lab makes at most {MOST_NODES} and {MOST_PODS}",
        node_names.len(),
        endpoints.len()
    );
    let mut taken = BTreeSet::from(["shell".to_owned(), "client".to_owned(), "lan".to_owned()]);
    let machines: Vec<String> = node_names.iter().map(|it| label(it, &mut taken)).collect();
    let mut builder = Cluster::builder();
    for machine in &machines {
        builder = builder.node(machine);
    }
    let mut pods = Vec::new();
    for endpoint in endpoints {
        let position = node_names
            .iter()
            .position(|it| Some(it) == endpoint.node.as_ref());
        let pod = label(&endpoint.name, &mut taken);
        builder = builder.pod(&pod, &machines[position.unwrap_or(0)]);
        pods.push(pod);
    }
    let cluster = builder
        .pod("shell", &machines[0])
        .client("client")
        .build()
        .context("build the lab")?;
    let shell = cluster.pod("shell");
    for (pod, endpoint) in pods.iter().zip(endpoints) {
        ensure!(
            endpoint.address != shell.ipv4() && endpoint.address != shell.ipv6(),
            "endpoint {}: the lab needs this address for the pod `shell`",
            endpoint.address
        );
        cluster
            .assign(pod, endpoint.address)
            .with_context(|| format!("endpoint {}", endpoint.address))?;
    }
    let first = &cluster.nodes()[0];
    for frontend in &folder.frontends {
        if let Address::External(ip) = frontend.address {
            cluster.client("client").route_via(ip.into(), first)?;
        }
    }
    Ok(Demo {
        agents: Vec::new(),
        servers: servers(&cluster, &pods, endpoints)?,
        dials: folder.frontends.iter().map(|it| dial(it, first)).collect(),
        title: format!("The Services of {path}"),
        machines: list(&cluster, &pods, endpoints),
        introduction: format!(
            "  Each endpoint of your EndpointSlices is a pod of this lab, with the same\n  \
             address and ports. It answers with its name, ready or not. Its node has the\n  \
             name that the slice says. The agents read your files, and every change of\n  \
             them. {} frontends lead to {} endpoints.",
            folder.frontends.len(),
            endpoints.len()
        ),
        cluster,
        scratch: tempfile::tempdir().context("create a folder for sockets")?,
        mode: options.mode.to_owned(),
        manifests: std::path::absolute(&folder.path).with_context(|| format!("find {path}"))?,
        node_names,
        started: Duration::ZERO,
    })
}

/// The nodes, with each pod's address in the manifests.
fn list(cluster: &Cluster, pods: &[String], endpoints: &[Endpoint]) -> String {
    let mut text = String::new();
    let mut line = |line: String| text += &(line + "\n");
    for node in cluster.nodes() {
        line(format!(
            "  {}  {}  {}",
            node.name(),
            node.ipv4(),
            node.ipv6()
        ));
        for (pod, endpoint) in pods.iter().zip(endpoints) {
            let ports = endpoint.ports.iter().map(|(port, _)| port.to_string());
            let ports: BTreeSet<String> = ports.collect();
            let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
            if cluster.pod(pod).node() == node.name() {
                let (ip, ports) = (endpoint.address, ports.join(", "));
                line(format!("    {pod:20}  {ip:20}  ports {ports}"));
            }
        }
    }
    let (shell, client) = (cluster.pod("shell"), cluster.client("client"));
    line(format!("    {:20}  {}", shell.name(), shell.ipv4()));
    line(format!("  client, outside the cluster  {}", client.ipv4()));
    text
}

/// Without SCTP in the kernel nothing answers there.
fn servers(
    cluster: &Cluster,
    pods: &[String],
    endpoints: &[Endpoint],
) -> anyhow::Result<Vec<(String, Server)>> {
    let mut servers = Vec::new();
    for (pod, endpoint) in pods.iter().zip(endpoints) {
        for &(port, protocol) in &endpoint.ports {
            if protocol != Protocol::Sctp || sctp_available() {
                let netns = cluster.pod(pod).netns();
                let server = Server::start(netns, &endpoint.name, port, protocol)?;
                servers.push((pod.clone(), server));
            }
        }
    }
    Ok(servers)
}

fn dial(frontend: &Frontend, node: &Node) -> Dial {
    let (from, ip, what) = match frontend.address {
        Address::ClusterIp(ip) => (From::Shell, ip, "From pod shell to the ClusterIP of"),
        Address::External(ip) => (From::Client, ip, "From client to an external address of"),
        Address::NodePortV4 => (
            From::Client,
            node.ipv4().into(),
            "From client to the NodePort of",
        ),
        Address::NodePortV6 => (
            From::Client,
            node.ipv6().into(),
            "From client to the NodePort of",
        ),
    };
    Dial {
        title: format!("{what} {}", frontend.name),
        from,
        dialled: Dialled {
            target: SocketAddr::new(ip, frontend.port),
            protocol: frontend.protocol,
            is_node_port: matches!(frontend.address, Address::NodePortV4 | Address::NodePortV6),
        },
        expected: None,
    }
}

/// A name that the lab allows and that is not in `taken`; adds it there.
fn label(name: &str, taken: &mut BTreeSet<String>) -> String {
    let allowed = |it: char| {
        if it.is_ascii_alphanumeric() {
            it.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let base: String = name.chars().map(allowed).take(50).collect();
    let base = if base.is_empty() {
        "endpoint".to_owned()
    } else {
        base
    };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let free = std::iter::once(base.clone())
        .chain(numbered)
        .find(|it| !taken.contains(it))
        .expect("numbers do not end");
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pods_and_nodes_become_labels() {
        let mut taken = BTreeSet::from(["shell".to_owned()]);
        let mut label = |name: &str| super::label(name, &mut taken);
        assert_eq!(
            label("ip-10-0-0-1.ec2.internal"),
            "ip-10-0-0-1-ec2-internal"
        );
        assert_eq!(label("shell"), "shell-2");
        assert_eq!(label("shell"), "shell-3");
        assert_eq!(label(""), "endpoint");
    }
}
