//! A cluster with servers, on which scenarios run one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sluice_model::{Change, Protocol};
use sluice_plan::Event;
use sluice_plan::lookup::Packet;

use super::flush::flush;
use super::objects::parse;
use super::prober::{netns, transport};
use super::world;
use super::{Scenario, Step};
use sluice_lab::{Attach, Cluster, LabError, Protocol as Transport, Server};

/// A server: its machine, its name, its port and its transport.
type ServerKey = (&'static str, String, u16, Transport);

/// A cluster, and the servers of the last scenario on it.
pub(super) struct Testbed {
    /// Declared first, so that they stop before their namespaces are removed.
    servers: BTreeMap<ServerKey, Server>,
    pub(super) cluster: Cluster,
    attach: Attach,
    node_addresses: Vec<IpAddr>,
}

impl Testbed {
    /// A new testbed that suits the scenario.
    pub(super) fn build(scenario: &Scenario) -> Result<Self, LabError> {
        Ok(Self {
            servers: BTreeMap::new(),
            cluster: world::build(scenario)?,
            attach: scenario.attach,
            node_addresses: scenario.node_addresses.clone(),
        })
    }

    /// Whether the cluster has the pod network and the node addresses that `scenario` needs.
    pub(super) fn suits(&self, scenario: &Scenario) -> bool {
        self.attach == scenario.attach && self.node_addresses == scenario.node_addresses
    }

    /// Starts every server that the scenario needs, and stops all others.
    pub(super) fn prepare(&mut self, scenario: &Scenario) -> Result<(), LabError> {
        let wanted = servers(scenario);
        self.servers.retain(|place, _| wanted.contains(place));
        for place in wanted {
            if !self.servers.contains_key(&place) {
                let (machine, name, port, transport) = &place;
                let netns = netns(&self.cluster, machine);
                let server = Server::start(netns, name, *port, *transport)?;
                self.servers.insert(place, server);
            }
        }
        Ok(())
    }

    /// Removes what a scenario left on node-a: connections, nftables tables and sysctls. Legacy
    /// iptables chains, ipsets and devices stay; the next proxy must recognise them as its own.
    pub(super) fn clear(&self) -> Result<(), LabError> {
        let home = self.cluster.node(world::NODE_A).netns();
        home.sysctl("net.ipv4.conf.all.route_localnet", "0")?;
        flush(home)
    }
}

/// The servers of a scenario: every endpoint of a slice, the router, and node-a on every port of
/// its own addresses that a check names.
fn servers(scenario: &Scenario) -> BTreeSet<ServerKey> {
    let mut wanted = BTreeSet::new();
    for step in &scenario.steps {
        let (objects, flows) = match step {
            Step::Apply(manifests) => (parse(manifests), Vec::new()),
            Step::Check(it) => (Vec::new(), world::flows(scenario, it.from, it.to)),
            Step::Hold { .. } | Step::Restart => continue,
        };
        for (endpoint, protocol) in objects.iter().flat_map(endpoints) {
            let machine = world::machine_at(endpoint.ip()).zip(transport(protocol));
            let server = machine.map(|(machine, transport)| {
                let name = world::server_name(machine, endpoint.port());
                (machine, name, endpoint.port(), transport)
            });
            wanted.extend(server);
        }
        let host = world::host_addresses(scenario);
        for flow in flows {
            let Packet {
                destination,
                port,
                protocol,
                ..
            } = flow.packet;
            if host.contains(&destination)
                && let Some(transport) = transport(protocol)
            {
                wanted.insert((world::NODE_A, world::NODE_A.to_owned(), port, transport));
            }
        }
    }
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    for transport in all.into_iter().filter_map(transport) {
        let name = world::ROUTER.to_owned();
        wanted.insert((world::ROUTER, name, world::ROUTER_PORT, transport));
    }
    wanted
}

/// Every endpoint of an object, with every port.
fn endpoints(object: &Event) -> Vec<(SocketAddr, Protocol)> {
    let Event::EndpointSlice(Change::Set(slice)) = object else {
        return Vec::new();
    };
    let pairs = slice.endpoints.iter().flat_map(|endpoint| {
        let address = |port: u16| SocketAddr::new(endpoint.address, port);
        slice
            .ports
            .iter()
            .map(move |it| (address(it.port.get()), it.protocol))
    });
    pairs.collect()
}
