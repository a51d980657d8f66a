//! What the kernel holds beyond what the plan says of it: real servers that lose their last
//! connections, NodePorts that wait behind a virtual IP, and what `iptables` rules led to us.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sluice_netlink::ipvs::RealState;
use sluice_xtables::rule::Rule;

use crate::apply::has_connections;
use crate::object::{Key, Object, Server, Triple};

/// The scheduler that hashes what clients dialled: all of them have one real server, and when that
/// has weight 0 they have none (`ip_vs_dh_schedule`, ip_vs_dh.c; no option changes it).
const DESTINATION_HASHING: &str = "dh";

/// Memory of one process; all of it can be found again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Virtual servers of virtual IPs.
    pub(crate) addresses: BTreeSet<Triple>,
    /// Virtual servers of NodePorts.
    pub(crate) node_ports: BTreeSet<Triple>,
    /// Objects of NodePorts that are not in the kernel, since a virtual IP has their numbers.
    pub(crate) hidden: BTreeMap<Key, Object>,
    /// Real servers with weight 0 that nobody wants: they go with their last connection.
    pub(crate) draining: BTreeMap<Server, BTreeSet<SocketAddr>>,
    /// Virtual servers whose scheduler has no other real server for a client of one with weight 0.
    pub(crate) rigid: BTreeSet<Server>,
    /// The kernel was looked at before, so what drains is known.
    pub(crate) is_settled: bool,
    /// The rules of built-in chains that lead to ours, as they were found.
    pub(crate) jumps: BTreeMap<Key, Vec<Rule>>,
}

impl Held {
    /// The virtual server of ours that clients dial like this; `None` when we made none.
    pub(crate) fn server(&self, triple: &Triple) -> Option<Server> {
        if self.addresses.contains(triple) {
            Some(Server::Address(*triple))
        } else if self.node_ports.contains(triple) {
            Some(Server::NodePort(*triple))
        } else {
            None
        }
    }

    /// The kernel has this virtual server, with this scheduler.
    pub(crate) fn add_server(&mut self, server: Server, scheduler: &str) {
        match scheduler == DESTINATION_HASHING {
            true => self.rigid.insert(server),
            false => self.rigid.remove(&server),
        };
        match server {
            Server::Address(triple) => {
                self.addresses.insert(triple);
            }
            Server::NodePort(triple) => {
                self.node_ports.insert(triple);
            }
            Server::Mark(..) => {}
        }
    }

    /// The kernel does not have this virtual server any more.
    pub(crate) fn remove_server(&mut self, server: Server) {
        self.draining.remove(&server);
        self.rigid.remove(&server);
        match server {
            Server::Address(triple) => {
                self.addresses.remove(&triple);
            }
            Server::NodePort(triple) => {
                self.node_ports.remove(&triple);
            }
            Server::Mark(..) => {}
        }
    }

    /// Whether a real server that nobody wants has to wait for its last connection: not where new
    /// clients would be refused until then.
    pub(crate) fn waits(&self, server: &Server, real: &RealState) -> bool {
        !self.rigid.contains(server) && has_connections(server, real)
    }

    /// Whether a real server is on its way out.
    pub(crate) fn is_draining(&self, server: &Server, real: &SocketAddr) -> bool {
        let draining = self.draining.get(server);
        draining.is_some_and(|it| it.contains(real))
    }

    /// A real server is wanted again, or gone.
    pub(crate) fn drained(&mut self, server: &Server, real: &SocketAddr) {
        if let Some(draining) = self.draining.get_mut(server) {
            draining.remove(real);
            if draining.is_empty() {
                self.draining.remove(server);
            }
        }
    }
}
