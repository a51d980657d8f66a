//! State of the kernel that the plan does not contain: real servers that drain, NodePorts behind a virtual IP, and the
//! rules that jump to our chains.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_model::Protocol;
use sluice_netlink::ipvs::RealState;
use sluice_reconcile::Backoff;
use sluice_xtables::rule::Rule;

use crate::object::{Key, Object, Server, Triple};

/// The scheduler that hashes the address that clients dial: all of them have one real server, and while
/// that has weight 0 they are refused (`ip_vs_dh_schedule`, ip_vs_dh.c; no option changes it).
const DESTINATION_HASHING: &str = "dh";

/// State of one process. A full sync reads it from the kernel, all but [`hidden`](Self::hidden).
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Virtual servers in the kernel, with the names of their schedulers.
    pub(crate) servers: BTreeMap<Server, Arc<str>>,
    /// Objects of NodePorts that the kernel does not have, because a virtual IP has the same address,
    /// port and protocol.
    pub(crate) hidden: BTreeMap<Key, Object>,
    /// Real servers with weight 0 that are deleted after their last connection.
    pub(crate) draining: BTreeSet<(Server, SocketAddr)>,
    /// When draining real servers are read next.
    pub(crate) drain_backoff: Backoff,
    /// A full sync has read the kernel, so `draining` is complete.
    pub(crate) is_read: bool,
    /// The rules of built-in chains that jump to ours, as the kernel has them.
    pub(crate) jumps: BTreeMap<Key, Vec<Rule>>,
}

impl State {
    /// Our virtual server with this address, port and protocol; `None` when we have none.
    pub(crate) fn server(&self, triple: &Triple) -> Option<Server> {
        let mut servers = [Server::Address(*triple), Server::NodePort(*triple)].into_iter();
        servers.find(|it| self.servers.contains_key(it))
    }

    /// The kernel does not have this virtual server any more. Returns whether it had.
    pub(crate) fn remove_server(&mut self, server: &Server) -> bool {
        self.draining.retain(|(it, _)| it != server);
        self.servers.remove(server).is_some()
    }

    /// Whether a real server that is to be deleted has to drain first.
    pub(crate) fn has_to_drain(&self, server: &Server, real: &RealState) -> bool {
        let scheduler = self.servers.get(server).map_or("", |it| it);
        has_to_drain(scheduler, server, real)
    }
}

/// Whether a real server that is to be deleted has to drain first: TCP with connections, unless new
/// clients would be refused meanwhile. Datagrams have no end to wait for, and SCTP clients find another
/// path (as in kube-proxy).
pub(crate) fn has_to_drain(scheduler: &str, server: &Server, real: &RealState) -> bool {
    let has_connections = real.active + real.inactive > 0;
    server.protocol() == Protocol::Tcp && has_connections && scheduler != DESTINATION_HASHING
}
