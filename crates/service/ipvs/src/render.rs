//! One service port as objects.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{IpFamily, Protocol};
use sluice_plan::{
    FamilyPlan, Frontend, NodePlan, PlannedFrontend, Pool, PortPlan, Role, Route, Scope, Verdict,
};

use crate::object::{Key, Object, Server, Triple};
use crate::placement::Placement;
use crate::scheduler::Choice;
use crate::set::{Entry, SetKind, SetName};

type Objects = Vec<(Key, Object)>;

/// The objects of one service port. `scheduler`: for Services that ask for none.
pub(crate) fn port(
    node: &NodePlan,
    port: &PortPlan,
    placement: &Placement,
    scheduler: &Arc<str>,
) -> Objects {
    let mut port = Port {
        family: port.key.family,
        node: node.family(port.key.family),
        plan: port,
        mark: placement.mark,
        choice: Choice {
            port,
            usual: scheduler,
            lacking: &placement.lacking,
        },
        objects: Vec::new(),
        seen: BTreeSet::new(),
    };
    port.render();
    port.objects
}

struct Port<'a> {
    family: IpFamily,
    node: &'a FamilyPlan,
    plan: &'a PortPlan,
    mark: Option<u32>,
    choice: Choice<'a>,
    objects: Objects,
    /// Shared objects that are rendered already.
    seen: BTreeSet<Key>,
}

impl Port<'_> {
    fn render(&mut self) {
        let plan = self.plan;
        for planned in &plan.frontends {
            self.frontend(planned);
        }
        if let Some(ip) = plan.owned_cluster_ip {
            self.virtual_ip(ip);
        }
        if let Some(mark) = self.mark {
            let server = Server::Mark(self.family, self.protocol(), mark);
            self.server(server, plan.cluster.as_ref());
        }
        for endpoint in plan.reachable().iter().filter(|it| it.may_be_here) {
            let (ip, port) = (endpoint.addr.ip(), endpoint.addr.port());
            let entry = Entry::AddressPortAddress(ip, self.protocol(), port, ip);
            self.shared_member(SetName::LoopBack, entry);
        }
        if let Some(port) = plan.health_check_node_port {
            self.shared_member(SetName::HealthCheckNodePort, Entry::Port(port));
        }
    }

    fn frontend(&mut self, planned: &PlannedFrontend) {
        self.sets(planned);
        self.source_ranges(planned);
        if let Frontend::Address { addr, .. } = planned.frontend {
            self.virtual_ip(addr);
        }
        match planned.route {
            Route::Internal(verdict) => self.verdict(planned, verdict),
            Route::External(verdict) => {
                self.verdict(planned, verdict);
                if verdict == Verdict::Reject {
                    self.near_clients(planned);
                }
            }
            Route::ExternalLocal { far } => {
                match far {
                    Verdict::Drop => {
                        self.servers(planned, self.plan.pool(Scope::Cluster));
                        let set = match planned.role {
                            Role::NodePort => SetName::NoLocalNodePortFar,
                            _ => SetName::NoLocalEndpointFar,
                        };
                        self.address_member(planned, set);
                    }
                    far => self.verdict(planned, far),
                }
                self.near_clients(planned);
            }
        }
    }

    /// The virtual server for every client. It exists under every verdict, because it has the earlier
    /// connections.
    fn verdict(&mut self, planned: &PlannedFrontend, verdict: Verdict) {
        match verdict {
            Verdict::Balance(scope) => self.servers(planned, self.plan.pool(scope)),
            Verdict::Reject => self.servers(planned, None),
            Verdict::Drop => {
                self.servers(planned, None);
                self.address_member(planned, SetName::NoLocalEndpoint);
            }
        }
    }

    /// The mark of the virtual server of near clients, if they have one.
    fn near_clients(&mut self, planned: &PlannedFrontend) {
        let set = match planned.role {
            Role::NodePort => SetName::NearNodePorts,
            _ => SetName::NearClients,
        };
        if let Some(mark) = self.mark {
            self.each(planned, |it, triple| {
                it.member(set, triple.into(), Some(mark))
            });
        }
    }

    /// Adds the frontend to the sets of its role.
    fn sets(&mut self, planned: &PlannedFrontend) {
        let is_local = matches!(planned.route, Route::ExternalLocal { .. });
        let port = planned.frontend.port();
        match (planned.role, self.protocol()) {
            (Role::NodeDns | Role::ClusterIp, _) => {
                self.address_member(planned, SetName::ClusterIp);
            }
            (Role::LoadBalancer, _) => {
                self.address_member(planned, SetName::LoadBalancer);
                if is_local {
                    self.address_member(planned, SetName::LoadBalancerLocal);
                }
            }
            (Role::ExternalIp, _) if is_local => {
                self.address_member(planned, SetName::ExternalIpLocal);
            }
            (Role::ExternalIp, _) => self.address_member(planned, SetName::ExternalIp),
            (Role::NodePort, protocol) => {
                let sets = SetName::node_ports(protocol);
                for set in &sets[..1 + usize::from(is_local)] {
                    match set.kind() {
                        SetKind::Port => self.member(*set, Entry::Port(port), None),
                        _ => self.address_member(planned, *set),
                    }
                }
            }
        }
    }

    fn source_ranges(&mut self, planned: &PlannedFrontend) {
        let Some(allowed) = &planned.allowed_sources else {
            return;
        };
        self.address_member(planned, SetName::LoadBalancerFw);
        self.each(planned, |it, triple| {
            let Triple { ip, port, protocol } = triple;
            for net in allowed.iter() {
                if net.prefix_len() == net.max_prefix_len() {
                    let entry = Entry::AddressPortAddress(ip, protocol, port, net.addr());
                    it.member(SetName::LoadBalancerSourceIp, entry, None);
                } else {
                    let entry = Entry::AddressPortNet(ip, protocol, port, net.trunc());
                    it.member(SetName::LoadBalancerSourceCidr, entry, None);
                }
            }
        });
    }

    /// Puts a virtual IP on kube-ipvs0, unless the node has it already.
    fn virtual_ip(&mut self, ip: IpAddr) {
        if self.node.addresses.binary_search(&ip).is_err() {
            self.shared(Key::Address(ip), Object::Address);
            self.shared_member(SetName::IpvsIps, Entry::Address(ip));
        }
    }

    /// Calls `act` with every address and port of a frontend.
    fn each(&mut self, planned: &PlannedFrontend, mut act: impl FnMut(&mut Self, Triple)) {
        for server in self.virtual_servers(planned) {
            if let Some(triple) = server.triple() {
                act(self, triple);
            }
        }
    }

    fn virtual_servers(&self, planned: &PlannedFrontend) -> Vec<Server> {
        let triple = |ip| Triple {
            ip,
            port: planned.frontend.port(),
            protocol: self.protocol(),
        };
        match planned.frontend {
            Frontend::Address { addr, .. } => vec![Server::Address(triple(addr))],
            Frontend::NodePort { .. } => {
                let own = self.node.node_port_addresses().into_iter();
                own.map(|ip| Server::NodePort(triple(ip))).collect()
            }
        }
    }

    /// Virtual servers for a frontend; without real servers the kernel refuses connections.
    fn servers(&mut self, planned: &PlannedFrontend, pool: Option<&Pool>) {
        for server in self.virtual_servers(planned) {
            self.server(server, pool);
        }
    }

    fn server(&mut self, server: Server, pool: Option<&Pool>) {
        let balancing = self.choice.balancing(&server, pool);
        self.objects
            .push((Key::Server(server), Object::Server(balancing)));
        for endpoint in pool.into_iter().flat_map(Pool::endpoints) {
            self.objects.push((
                Key::Real(server, endpoint.addr),
                Object::Real(endpoint.weight.into()),
            ));
        }
    }

    fn protocol(&self) -> Protocol {
        self.plan.key.name.protocol
    }

    fn address_member(&mut self, planned: &PlannedFrontend, set: SetName) {
        self.each(planned, |it, triple| it.member(set, triple.into(), None));
    }

    fn member(&mut self, set: SetName, entry: Entry, mark: Option<u32>) {
        let key = Key::Member(self.family, set, entry);
        self.objects.push((key, Object::Member(mark)));
    }

    fn shared_member(&mut self, set: SetName, entry: Entry) {
        self.shared(Key::Member(self.family, set, entry), Object::Member(None));
    }

    fn shared(&mut self, key: Key, object: Object) {
        if self.seen.insert(key.clone()) {
            self.objects.push((key, object));
        }
    }
}
