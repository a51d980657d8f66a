//! Frontends that change their external policy while they are served. Who is sent to another node has
//! to be masqueraded, and members of some sets are not: so they come when no endpoint elsewhere is
//! left, and go before there is one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_model::{IpFamily, Protocol};
use sluice_reconcile::Delta;

use crate::object::{Key, Object, Server};
use crate::set::{Entry, SetName};

/// What clients dial; without an address it is a NodePort.
type Dialled = (IpFamily, Option<IpAddr>, Protocol, u16);

/// Frontends that are served before a delta or after it, and not both times.
pub(super) struct Passing {
    begin: BTreeSet<Dialled>,
    end: BTreeSet<Dialled>,
}

impl Passing {
    pub(super) fn of(delta: &Delta<Key, Object>) -> Self {
        Self {
            begin: delta
                .add
                .iter()
                .filter_map(|(key, _)| served(key))
                .collect(),
            end: delta.delete.iter().filter_map(served).collect(),
        }
    }

    /// Whether the member to be written means that a frontend that was served gets policy Local.
    pub(super) fn becomes_local(&self, key: &Key) -> bool {
        kept_source(key).is_some_and(|it| !self.begin.contains(&it))
    }

    /// Whether the member to be deleted means that a frontend that goes on gets policy Cluster.
    pub(super) fn becomes_cluster(&self, key: &Key) -> bool {
        kept_source(key).is_some_and(|it| !self.end.contains(&it))
    }
}

/// The frontend of a virtual server.
fn served(key: &Key) -> Option<Dialled> {
    let Key::Server(server) = key else {
        return None;
    };
    let triple = server.triple()?;
    let ip = match server {
        Server::NodePort(_) => None,
        Server::Address(_) | Server::Mark(..) => Some(triple.ip),
    };
    Some((server.family(), ip, triple.protocol, triple.port))
}

/// The frontend whose clients are not masqueraded, as this member says.
fn kept_source(key: &Key) -> Option<Dialled> {
    let Key::Member(family, set, entry) = key else {
        return None;
    };
    let (ip, protocol, port) = match (set, entry) {
        (
            SetName::ExternalIpLocal | SetName::LoadBalancerLocal,
            Entry::AddressPort(ip, protocol, port),
        ) => (Some(*ip), *protocol, *port),
        (SetName::NodePortLocalTcp, Entry::Port(port)) => (None, Protocol::Tcp, *port),
        (SetName::NodePortLocalUdp, Entry::Port(port)) => (None, Protocol::Udp, *port),
        (SetName::NodePortLocalSctp, Entry::AddressPort(_, protocol, port)) => {
            (None, *protocol, *port)
        }
        _ => return None,
    };
    Some((*family, ip, protocol, port))
}
