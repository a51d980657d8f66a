//! Builds a cluster from a description of its machines.

use crate::{
    Attach, Client, Cluster, LabError, Netns, Node, Place, Pod, PodNetwork,
    address::{FIRST_CLIENT, FIRST_NODE, FIRST_POD, LAST_HOST},
    netns::next_prefix,
    ready::{self, Ready},
    sysctls::{self, Role},
    wiring,
};

/// Description of a cluster; machines get their addresses in the order of the calls.
#[derive(Clone, Debug, Default)]
pub struct ClusterBuilder {
    attach: Attach,
    nodes: Vec<String>,
    pods: Vec<PodSpec>,
    clients: Vec<String>,
}

#[derive(Clone, Debug)]
struct PodSpec {
    name: String,
    node: String,
    network: Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Own,
    Host,
}

impl ClusterBuilder {
    /// Adds a node: 192.168.100.10, .11, … and fd00:100::a, ::b, …
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        self.nodes.push(name.to_owned());
        self
    }

    /// Adds a pod on `node`: 10.244.n.2, .3, … and `fd00:10:244:n::2`, `::3`, … on the n-th node from 0.
    #[must_use]
    pub fn pod(self, name: &str, node: &str) -> Self {
        self.add(name, node, Network::Own)
    }

    /// Adds a pod with the host network: the namespace and the addresses of `node`.
    #[must_use]
    pub fn host_pod(self, name: &str, node: &str) -> Self {
        self.add(name, node, Network::Host)
    }

    /// Adds a client outside the cluster: 192.168.100.100, … and fd00:100::64, …
    #[must_use]
    pub fn client(mut self, name: &str) -> Self {
        self.clients.push(name.to_owned());
        self
    }

    /// How pods are connected to their nodes; the default is [`Attach::Routed`].
    #[must_use]
    pub fn attach(mut self, attach: Attach) -> Self {
        self.attach = attach;
        self
    }

    /// Builds the cluster; when it returns, every machine can reach every other.
    ///
    /// # Errors
    /// [`LabError::Topology`] for a description that contradicts itself, before anything was created;
    /// otherwise the system's error, after everything was removed again.
    pub fn build(&self) -> Result<Cluster, LabError> {
        let cluster = self.lay_out()?;
        sysctls::apply(&cluster.lan, Role::Lan)?;
        let role = match cluster.attach {
            Attach::Routed => Role::Node,
            Attach::Bridged => Role::BridgedNode,
        };
        cluster
            .nodes
            .iter()
            .try_for_each(|node| sysctls::apply(node.netns(), role))?;
        let own = cluster
            .pods
            .iter()
            .filter(|pod| !pod.is_host_network())
            .map(Pod::netns);
        let mut hosts = own.chain(cluster.clients.iter().map(Client::netns));
        hosts.try_for_each(|netns| sysctls::apply(netns, Role::Host))?;
        wire(&cluster)?;
        await_links(&cluster)?;
        Ok(cluster)
    }

    fn add(mut self, name: &str, node: &str, network: Network) -> Self {
        self.pods.push(PodSpec {
            name: name.to_owned(),
            node: node.to_owned(),
            network,
        });
        self
    }

    /// Creates the namespaces and assigns addresses; nothing is connected yet.
    fn lay_out(&self) -> Result<Cluster, LabError> {
        self.check()?;
        let prefix = next_prefix();
        let own = self
            .pods
            .iter()
            .filter(|pod| pod.network == Network::Own)
            .map(|pod| &pod.name);
        let named = self.nodes.iter().chain(&self.clients).chain(own);
        let labels: Vec<&str> = ["lan"]
            .into_iter()
            .chain(named.map(String::as_str))
            .collect();
        let mut made = Netns::new_all(&prefix, &labels)?.into_iter();
        let mut next = || {
            made.next()
                .expect("one namespace was made per label, in this order")
        };

        let lan = next();
        let nodes = (0..)
            .zip(&self.nodes)
            .map(|(position, name)| Node::new(name.clone(), position, next()))
            .collect();
        let client = |(position, name): (u8, &String)| Client {
            name: name.clone(),
            position,
            netns: next(),
        };
        let clients = (0..).zip(&self.clients).map(client).collect();
        let mut cluster = Cluster {
            prefix,
            attach: self.attach,
            network: PodNetwork::HostGw,
            nodes,
            pods: Vec::new(),
            clients,
            lasts: false,
            lan,
        };
        for PodSpec {
            name,
            node,
            network,
        } in &self.pods
        {
            let pod = match network {
                Network::Own => {
                    let (position, host) = cluster.allocate(name, node, Place::Next)?;
                    Pod::new(name.clone(), &cluster.nodes[position], host, next())
                }
                Network::Host => Pod::on_host_network(
                    name.clone(),
                    &cluster.nodes[cluster.position(name, node)?],
                ),
            };
            cluster.pods.push(pod);
        }
        Ok(cluster)
    }

    fn check(&self) -> Result<(), LabError> {
        limit("nodes", self.nodes.len(), FIRST_CLIENT - FIRST_NODE)?;
        limit("clients", self.clients.len(), LAST_HOST - FIRST_CLIENT + 1)?;
        let pods = self.pods.iter().map(|pod| &pod.name);
        let names: Vec<&String> = self.nodes.iter().chain(&self.clients).chain(pods).collect();
        for (position, name) in names.iter().enumerate() {
            check_name(name, names[..position].iter().map(|it| it.as_str()))?;
        }
        for node in self.pods.iter().map(|pod| &pod.node) {
            let pods = self
                .pods
                .iter()
                .filter(|pod| pod.node == *node && pod.network == Network::Own);
            limit(
                &format!("pods on {node}"),
                pods.count(),
                LAST_HOST - FIRST_POD + 1,
            )?;
        }
        let stray = self.pods.iter().find(|pod| !self.nodes.contains(&pod.node));
        stray.map_or(Ok(()), |pod| Err(unknown_node(&pod.name, &pod.node)))
    }
}

/// Checks that `name` can be a host name, and that it is not `lan` and not one of `taken`.
pub(crate) fn check_name<'a>(
    name: &str,
    mut taken: impl Iterator<Item = &'a str>,
) -> Result<(), LabError> {
    let allowed = |it: u8| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if name.is_empty() || name.len() > 63 || !name.bytes().all(allowed) {
        return Err(LabError::Topology(format!(
            "name `{name}` is not 1 to 63 of a-z, 0-9 and -"
        )));
    }
    if name == "lan" || taken.any(|it| it == name) {
        return Err(LabError::Topology(format!("name {name} is taken")));
    }
    Ok(())
}

pub(crate) fn unknown_node(pod: &str, node: &str) -> LabError {
    LabError::Topology(format!("pod {pod} is on node {node}, which does not exist"))
}

fn limit(what: &str, wanted: usize, room: u8) -> Result<(), LabError> {
    if wanted > usize::from(room) {
        return Err(LabError::Topology(format!(
            "{wanted} {what}, but there are addresses for {room}"
        )));
    }
    Ok(())
}

/// Connects all machines: first the LAN, then the nodes with both ends of their pods' veth pairs,
/// then the pods and the clients.
fn wire(cluster: &Cluster) -> Result<(), LabError> {
    let nodes = cluster.nodes.iter().map(Node::netns);
    let on_lan: Vec<&Netns> = nodes
        .chain(cluster.clients.iter().map(Client::netns))
        .collect();
    cluster.lan.wire(|it| wiring::lan(it, on_lan.into_iter()))?;
    let (attach, network) = (cluster.attach, cluster.network);
    for node in &cluster.nodes {
        node.netns().wire(|it| {
            wiring::node(it, node, &cluster.nodes, attach, network)?;
            let mut pods = cluster.pods.iter().filter(|pod| pod.node == node.name);
            pods.try_for_each(|pod| wiring::host_end(it, node, pod, attach))
        })?;
    }
    for pod in cluster.pods.iter().filter(|pod| !pod.is_host_network()) {
        let node = cluster.node(&pod.node);
        pod.netns()
            .wire(|it| wiring::pod(it, pod, node, attach, network))?;
    }
    cluster.clients.iter().try_for_each(|client| {
        client
            .netns()
            .wire(|it| wiring::client(it, client, &cluster.nodes))
    })
}

fn await_links(cluster: &Cluster) -> Result<(), LabError> {
    let ports = wiring::lan_ports(cluster.nodes.len() + cluster.clients.len());
    ready::wait(&cluster.lan, &ports, Ready::Running)?;
    let all = cluster
        .nodes
        .iter()
        .map(Node::netns)
        .chain(cluster.pods.iter().map(Pod::netns));
    for netns in all.chain(cluster.clients.iter().map(Client::netns)) {
        ready::wait(netns, &["eth0".to_owned()], Ready::Ipv6)?;
    }
    (0..cluster.nodes.len()).try_for_each(|position| cluster.await_host_ends(position))
}
