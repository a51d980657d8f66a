//! Frontends that change their external policy while they are served. Clients of an endpoint on another
//! node have to be masqueraded, and clients of members of some sets are not: such a member is added after
//! the last endpoint elsewhere is deleted, and deleted before the first one is added.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_model::{IpFamily, Protocol};
use sluice_reconcile::Delta;

use crate::object::{Key, Object, Server};
use crate::set::{Entry, SetName};

/// Address, protocol and port that clients dial; a NodePort has no address.
type Dialled = (IpFamily, Option<IpAddr>, Protocol, u16);

/// Frontends that a delta adds and deletes: they do not change their policy.
pub(super) struct PolicyChanges {
    added: BTreeSet<Dialled>,
    deleted: BTreeSet<Dialled>,
}

impl PolicyChanges {
    pub(super) fn of(delta: &Delta<Key, Object>) -> Self {
        let added = delta.add.iter().filter_map(|(key, _)| served(key));
        Self {
            added: added.collect(),
            deleted: delta.delete.iter().filter_map(served).collect(),
        }
    }

    /// Whether adding this member changes the policy of a frontend to Local.
    pub(super) fn becomes_local(&self, key: &Key) -> bool {
        unmasqueraded(key).is_some_and(|it| !self.added.contains(&it))
    }

    /// Whether deleting this member changes the policy of a frontend to Cluster.
    pub(super) fn becomes_cluster(&self, key: &Key) -> bool {
        unmasqueraded(key).is_some_and(|it| !self.deleted.contains(&it))
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

/// The frontend whose clients this member exempts from masquerading.
fn unmasqueraded(key: &Key) -> Option<Dialled> {
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
