//! A cluster, and what changes in it at run time.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{
    Client, ClusterBuilder, LabError, Netns, Node, Place, Pod,
    builder::{check_name, unknown_node},
    drawing,
    ready::{self, Ready},
    sysctls::{self, Role},
    wiring,
};

/// How pods are connected to their node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// One veth pair and one host route per pod, as Calico: every packet passes the node's IP stack.
    #[default]
    Routed,
    /// A bridge `cni0` with hairpin ports, as the CNI bridge plugin; bridged packets pass netfilter.
    Bridged,
}

/// How packets between pods of different nodes travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodNetwork {
    /// Routes through the other node, as flannel's `host-gw`.
    #[default]
    HostGw,
    /// Inside UDP between the nodes (RFC 7348), over IPv4 for both families of pods.
    Vxlan,
}

/// Nodes, pods and external clients; dropping the value removes them.
#[derive(Debug)]
pub struct Cluster {
    /// First part of the names of all its namespaces.
    pub(crate) prefix: String,
    pub(crate) attach: Attach,
    pub(crate) network: PodNetwork,
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) clients: Vec<Client>,
    /// Its namespaces stay when the value is dropped.
    pub(crate) lasts: bool,
    pub(crate) lan: Netns,
}

impl Cluster {
    /// A description without any machine.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// The node called `name`.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn node(&self, name: &str) -> &Node {
        let found = self.nodes.iter().find(|it| it.name == name);
        found.unwrap_or_else(|| panic!("no node {name} in\n{}", self.drawing()))
    }

    /// The pod called `name`.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn pod(&self, name: &str) -> &Pod {
        let found = self.pods.iter().find(|it| it.name == name);
        found.unwrap_or_else(|| panic!("no pod {name} in\n{}", self.drawing()))
    }

    /// The external client called `name`.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn client(&self, name: &str) -> &Client {
        let found = self.clients.iter().find(|it| it.name == name);
        found.unwrap_or_else(|| panic!("no client {name} in\n{}", self.drawing()))
    }

    /// All nodes, in the order of their addresses.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All pods that were not removed, in the order of their creation.
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// All external clients, in the order of their addresses.
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// The bridge between nodes and clients; layer 2 only.
    pub fn lan(&self) -> &Netns {
        &self.lan
    }

    /// The first part of the names of all its namespaces, e.g. `sl4711-3`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Adds a pod on `node`; when it returns, every machine can reach the pod.
    ///
    /// # Errors
    /// [`LabError::Topology`] for a name in use, an unknown or a full node; else the system's error.
    pub fn add_pod(&mut self, name: &str, node: &str) -> Result<&Pod, LabError> {
        self.add_pod_at(name, node, Place::Next)
    }

    /// Adds a pod as [`add_pod`](Self::add_pod) does, and says which address it gets.
    ///
    /// # Errors
    /// Those of [`add_pod`](Self::add_pod).
    pub fn add_pod_at(&mut self, name: &str, node: &str, place: Place) -> Result<&Pod, LabError> {
        check_name(name, self.names())?;
        let made = self.try_add_pod(name, node, place);
        self.unmake(name, made)?;
        Ok(&self.pods[self.pods.len() - 1])
    }

    fn try_add_pod(&mut self, name: &str, node: &str, place: Place) -> Result<(), LabError> {
        let (position, host) = self.allocate(name, node, place)?;
        let netns = if self.lasts {
            Netns::confined(&self.prefix, name)?.lasting()
        } else {
            self.make_netns(name)?
        };
        let node = &self.nodes[position];
        let pod = Pod::new(name.to_owned(), node, host, netns);
        sysctls::apply(pod.netns(), Role::Host)?;
        let (attach, network) = (self.attach, self.network);
        node.netns()
            .wire(|it| wiring::host_end(it, node, &pod, attach))?;
        pod.netns()
            .wire(|it| wiring::pod(it, &pod, node, attach, network))?;
        ready::wait(pod.netns(), &["eth0".to_owned()], Ready::Ipv6)?;
        let interface = pod.host_interface();
        self.pods.push(pod);
        match interface {
            // Others may have been taken down on purpose.
            Some(own) if self.lasts => {
                ready::wait(self.nodes[position].netns(), &[own], Ready::Ipv6)
            }
            _ => self.await_host_ends(position),
        }
    }

    /// Removes the pod's veth pair at once, as when its node kills the pod.
    ///
    /// Servers in the pod run until they are dropped, but no client reaches them any more.
    ///
    /// # Errors
    /// [`LabError::Topology`] for an unknown pod; [`LabError::Wire`] when its veth pair cannot be removed.
    pub fn remove_pod(&mut self, name: &str) -> Result<(), LabError> {
        let position = self.pods.iter().position(|it| it.name == name);
        let position =
            position.ok_or_else(|| LabError::Topology(format!("no pod {name} to remove")))?;
        let pod = self.pods.remove(position);
        let Some(interface) = pod.host_interface() else {
            return Ok(());
        };
        if self.lasts {
            Netns::open(pod.netns().name())?.delete()?;
        }
        let node = self.node(&pod.node).netns();
        // It may have gone with the namespace of its other end.
        node.wire(|it| it.delete_link(&interface)).map(drop)
    }

    /// Gives a pod one more address, with a host route on every machine.
    ///
    /// # Errors
    /// [`LabError::Wire`] when the kernel refuses the address or a route.
    ///
    /// # Panics
    /// When there is no such pod.
    pub fn assign(&self, pod: &str, ip: IpAddr) -> Result<(), LabError> {
        let pod = self.pod(pod);
        let (home, net) = (self.node(&pod.node), IpNet::from(ip));
        pod.netns().wire(|it| wiring::pod_address(it, ip))?;
        ready::address(pod.netns(), ip)?;
        if let Some(name) = pod.host_interface() {
            home.netns()
                .wire(|it| wiring::route_to_pod(it, &name, net, home))?;
        }
        let others = self.nodes.iter().filter(|it| it.name != home.name);
        let clients = self.clients.iter().map(Client::netns);
        let mut others = others.map(Node::netns).chain(clients);
        others.try_for_each(|it| it.wire(|it| wiring::route_via(it, net, home)))
    }

    /// The cluster as text: nodes and clients on the LAN, pods below their nodes.
    pub fn drawing(&self) -> String {
        drawing::draw(self)
    }

    /// A machine that could not be made leaves no name that the next attempt would meet.
    pub(crate) fn unmake<T>(
        &mut self,
        name: &str,
        made: Result<T, LabError>,
    ) -> Result<T, LabError> {
        if made.is_err() && self.lasts {
            self.pods.retain(|it| it.name != name);
            if let Ok(netns) = Netns::open(&format!("{}-{name}", self.prefix)) {
                netns.delete()?;
            }
        }
        made
    }

    pub(crate) fn make_netns(&self, label: &str) -> Result<Netns, LabError> {
        let made = Netns::new_all(&self.prefix, &[label])?.remove(0);
        Ok(if self.lasts { made.lasting() } else { made })
    }

    /// Position of the node called `node`, and the host part of the addresses of a new pod there.
    pub(crate) fn allocate(
        &mut self,
        pod: &str,
        node: &str,
        place: Place,
    ) -> Result<(usize, u8), LabError> {
        let position = self.position(pod, node)?;
        let used: Vec<u8> = self
            .pods
            .iter()
            .filter(|it| it.node == node)
            .filter_map(|it| it.host)
            .collect();
        Ok((position, self.nodes[position].allocate(&used, place)?))
    }

    pub(crate) fn position(&self, pod: &str, node: &str) -> Result<usize, LabError> {
        let position = self.nodes.iter().position(|it| it.name == node);
        position.ok_or_else(|| unknown_node(pod, node))
    }

    /// Waits until the node at `position` can send to each of its pods.
    pub(crate) fn await_host_ends(&self, position: usize) -> Result<(), LabError> {
        let node = &self.nodes[position];
        let pods = self.pods.iter().filter(|it| it.node == node.name);
        let interfaces: Vec<String> = pods.filter_map(Pod::host_interface).collect();
        match self.attach {
            Attach::Routed => ready::wait(node.netns(), &interfaces, Ready::Ipv6),
            Attach::Bridged if interfaces.is_empty() => Ok(()),
            Attach::Bridged => {
                ready::wait(node.netns(), &interfaces, Ready::Running)?;
                ready::wait(node.netns(), &["cni0".to_owned()], Ready::Ipv6)
            }
        }
    }
}
