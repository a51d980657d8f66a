//! A cluster whose machines come and go, and outlive the process that made them.

use std::net::IpAddr;

use sluice_route::Settings;

use crate::address::{FIRST_CLIENT, FIRST_NODE, lan_v4, lan_v6};
use crate::builder::check_name;
use crate::ready::{self, Ready};
use crate::sysctls::{self, Role};
use crate::{Attach, Client, Cluster, LabError, Netns, Node, Pod, PodNetwork, wiring};

/// Host part of the LAN's own address, where a server for all nodes may listen.
const LAN_HOST: u8 = 2;

/// A node that an earlier process made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldNode {
    pub name: String,
    /// Its number, from 0.
    pub position: u8,
}

/// All machines that an earlier process made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub nodes: Vec<HeldNode>,
    pub pods: Vec<HeldPod>,
    /// Clients by name, in the order in which they were added.
    pub clients: Vec<String>,
}

/// A pod that an earlier process made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPod {
    pub name: String,
    /// The name of its node.
    pub node: String,
    /// The last part of its addresses; none with the host network.
    pub host: Option<u8>,
}

impl Cluster {
    /// A LAN without machines, in a `/run/netns` that no other cluster uses. Its namespaces stay when the
    /// value is dropped.
    ///
    /// # Errors
    /// The system's.
    pub fn lasting(prefix: &str, attach: Attach, network: PodNetwork) -> Result<Self, LabError> {
        let lan = Netns::new_all(prefix, &["lan"])?.remove(0).lasting();
        sysctls::apply(&lan, Role::Lan)?;
        lan.wire(|it| wiring::lan(it, std::iter::empty()))?;
        address_lan(&lan)?;
        Ok(Self::on(lan, prefix, attach, network))
    }

    /// A lasting cluster without machines.
    fn on(lan: Netns, prefix: &str, attach: Attach, network: PodNetwork) -> Self {
        Self {
            prefix: prefix.to_owned(),
            attach,
            network,
            nodes: Vec::new(),
            pods: Vec::new(),
            clients: Vec::new(),
            lasts: true,
            lan,
        }
    }

    /// The cluster that an earlier process made with [`lasting`](Self::lasting). Namespaces that `held` lacks are
    /// deleted: the earlier process ended before it recorded them.
    ///
    /// # Errors
    /// [`LabError::Io`]: a namespace is missing.
    pub fn resume(
        prefix: &str,
        attach: Attach,
        network: PodNetwork,
        held: Held,
    ) -> Result<Self, LabError> {
        let open = |label: &str| Netns::open(&format!("{prefix}-{label}"));
        let mut cluster = Self::on(open("lan")?, prefix, attach, network);
        for it in held.nodes {
            let netns = open(&it.name)?;
            cluster.nodes.push(Node::new(it.name, it.position, netns));
        }
        for it in held.pods {
            let position = cluster.position(&it.name, &it.node)?;
            let node = &mut cluster.nodes[position];
            let pod = match it.host {
                Some(host) => {
                    node.used(host);
                    let netns = open(&it.name)?;
                    Pod::new(it.name, node, host, netns)
                }
                None => Pod::on_host_network(it.name, node),
            };
            cluster.pods.push(pod);
        }
        for (position, name) in (0..).zip(held.clients) {
            let netns = open(&name)?;
            cluster.clients.push(Client {
                name,
                position,
                netns,
            });
        }
        cluster.delete_strangers()?;
        // An earlier version of this program may have made the LAN.
        address_lan(&cluster.lan)?;
        for node in &cluster.nodes {
            cluster.lan.wire(|it| wiring::lan_routes(it, node))?;
        }
        Ok(cluster)
    }

    /// The addresses of the LAN itself, IPv4 first.
    #[must_use]
    pub fn lan_addresses() -> [IpAddr; 2] {
        [lan_v4(LAN_HOST).into(), lan_v6(LAN_HOST).into()]
    }

    /// The addresses of the client that was added first, IPv4 first.
    #[must_use]
    pub fn first_client() -> [IpAddr; 2] {
        [lan_v4(FIRST_CLIENT).into(), lan_v6(FIRST_CLIENT).into()]
    }

    /// Adds a node with a number, from 0; when it returns, every machine can reach it.
    ///
    /// # Errors
    /// [`LabError::Topology`] for a name or number in use or too many nodes; else the system's error.
    pub fn add_node(&mut self, name: &str, position: u8) -> Result<&Node, LabError> {
        check_name(name, self.names())?;
        if self.nodes.iter().any(|it| it.position == position) {
            let why = format!("node {position} has the number that {name} wants");
            return Err(LabError::Topology(why));
        }
        if position >= FIRST_CLIENT - FIRST_NODE {
            let why = "there are addresses for 90 nodes".to_owned();
            return Err(LabError::Topology(why));
        }
        let made = self.try_add_node(name, position);
        self.unmake(name, made)?;
        Ok(&self.nodes[self.nodes.len() - 1])
    }

    fn try_add_node(&mut self, name: &str, position: u8) -> Result<(), LabError> {
        let netns = self.make_netns(name)?;
        let node = Node::new(name.to_owned(), position, netns);
        let role = match self.attach {
            Attach::Routed => Role::Node,
            Attach::Bridged => Role::BridgedNode,
        };
        sysctls::apply(node.netns(), role)?;
        self.connect(node.host(), node.netns())?;
        self.lan.wire(|it| wiring::lan_routes(it, &node))?;
        let (attach, network) = (self.attach, self.network);
        node.netns()
            .wire(|it| wiring::node(it, &node, &self.nodes, attach, network))?;
        for other in &self.nodes {
            other
                .netns()
                .wire(|it| wiring::to_node_pods(it, &node, network))?;
        }
        let is_first = self.nodes.is_empty();
        for client in &self.clients {
            client
                .netns()
                .wire(|it| wiring::client_routes(it, &node, is_first))?;
        }
        ready::wait(node.netns(), &["eth0".to_owned()], Ready::Ipv6)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Removes a node with all its pods.
    ///
    /// # Errors
    /// [`LabError::Topology`] for an unknown node; else the system's error.
    pub fn remove_node(&mut self, name: &str) -> Result<(), LabError> {
        let position = self.nodes.iter().position(|it| it.name == name);
        let unknown = || LabError::Topology(format!("no node {name} to remove"));
        let node = self.nodes.remove(position.ok_or_else(unknown)?);
        let (gone, stay) = std::mem::take(&mut self.pods)
            .into_iter()
            .partition(|it| it.node == name);
        self.pods = stay;
        let gone: Vec<Pod> = gone;
        for pod in gone.iter().filter(|it| !it.is_host_network()) {
            Netns::open(pod.netns().name())?.delete()?;
        }
        let port = wiring::lan_port_name(node.host().into());
        self.lan.wire(|it| it.delete_link(&port))?;
        Netns::open(node.netns().name())?.delete()
    }

    /// Adds a pod that shares the namespace of its node.
    ///
    /// # Errors
    /// [`LabError::Topology`] for a name in use or an unknown node.
    pub fn add_host_pod(&mut self, name: &str, node: &str) -> Result<&Pod, LabError> {
        check_name(name, self.names())?;
        let position = self.position(name, node)?;
        let pod = Pod::on_host_network(name.to_owned(), &self.nodes[position]);
        self.pods.push(pod);
        Ok(&self.pods[self.pods.len() - 1])
    }

    /// Adds a client outside the cluster.
    ///
    /// # Errors
    /// [`LabError::Topology`] for a name in use; else the system's error.
    pub fn add_client(&mut self, name: &str) -> Result<&Client, LabError> {
        check_name(name, self.names())?;
        let position = u8::try_from(self.clients.len()).unwrap_or(u8::MAX);
        let netns = self.make_netns(name)?;
        let client = Client {
            name: name.to_owned(),
            position,
            netns,
        };
        sysctls::apply(client.netns(), Role::Host)?;
        self.connect(client.host(), client.netns())?;
        client
            .netns()
            .wire(|it| wiring::client(it, &client, &self.nodes))?;
        ready::wait(client.netns(), &["eth0".to_owned()], Ready::Ipv6)?;
        self.clients.push(client);
        Ok(&self.clients[self.clients.len() - 1])
    }

    /// Takes the cable of a node out of the LAN, or puts it in again.
    ///
    /// # Errors
    /// [`LabError::Topology`] for an unknown node; [`LabError::Wire`].
    pub fn set_cable(&self, node: &str, plugged: bool) -> Result<(), LabError> {
        let found = self.nodes.iter().find(|it| it.name == node);
        let unknown = || LabError::Topology(format!("no node {node}"));
        let port = found.ok_or_else(unknown)?.host();
        let state = Settings {
            up: Some(plugged),
            ..Settings::default()
        };
        let port = wiring::lan_port_name(port.into());
        self.lan.wire(|it| it.set(&port, &state))
    }

    /// The namespace of a node, pod or client.
    #[must_use]
    pub fn netns_of(&self, name: &str) -> Option<&Netns> {
        let nodes = self.nodes.iter().map(|it| (it.name(), it.netns()));
        let pods = self.pods.iter().map(|it| (it.name(), it.netns()));
        let clients = self.clients.iter().map(|it| (it.name(), it.netns()));
        let mut all = nodes.chain(pods).chain(clients);
        all.find(|(it, _)| *it == name).map(|(_, netns)| netns)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let nodes = self.nodes.iter().map(Node::name);
        let pods = self.pods.iter().map(Pod::name);
        nodes
            .chain(pods)
            .chain(self.clients.iter().map(Client::name))
    }

    fn connect(&self, host: u8, netns: &Netns) -> Result<(), LabError> {
        self.lan.wire(|it| wiring::lan_port(it, host.into(), netns))
    }

    fn delete_strangers(&self) -> Result<(), LabError> {
        let ours = self.names().map(|it| format!("{}-{it}", self.prefix));
        let mut ours: Vec<String> = ours.collect();
        ours.push(self.lan.name().to_owned());
        for name in Netns::names() {
            if name.starts_with(&format!("{}-", self.prefix)) && !ours.contains(&name) {
                Netns::open(&name)?.delete()?;
            }
        }
        Ok(())
    }
}

/// Gives the LAN its own addresses.
fn address_lan(lan: &Netns) -> Result<(), LabError> {
    sysctls::turn_on_ipv6(lan, "br0")?;
    lan.wire(|it| wiring::lan_addresses(it, LAN_HOST))
}
