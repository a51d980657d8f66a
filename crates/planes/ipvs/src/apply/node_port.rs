//! NodePorts that wait behind a virtual IP of the same numbers: the kernel has one virtual server for
//! both.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sluice_netlink::ipvs::Change;
use sluice_reconcile::BackendError;
use sluice_reconcile::Delta;

use super::Writer;
use super::changes::Changes;
use super::refused;
use crate::convert;
use crate::kernel;
use crate::object::{Key, Object, Server, Triple};

/// The virtual server of a NodePort in the kernel.
pub(super) struct Found {
    triple: Triple,
    /// Without those that drain.
    objects: Vec<(Key, Object)>,
    reals: Vec<SocketAddr>,
}

/// What virtual IPs of this delta take from NodePorts of the same numbers.
pub(super) fn taken(delta: &Delta<Key, Object>) -> BTreeSet<Triple> {
    virtual_ips(delta.add.iter().map(|(key, _)| key)).collect()
}

/// What clients of virtual IPs dial, where a virtual server of one is among these objects.
fn virtual_ips<'a>(keys: impl Iterator<Item = &'a Key>) -> impl Iterator<Item = Triple> {
    keys.filter_map(|key| match key {
        Key::Server(Server::Address(triple)) => Some(*triple),
        _ => None,
    })
}

impl Writer<'_> {
    /// Those that NodePorts have in the kernel.
    pub(super) fn found(&mut self, taken: &BTreeSet<Triple>) -> Result<Vec<Found>, BackendError> {
        let has = |triple: &&Triple| self.held.node_ports.contains(*triple);
        let triples: Vec<Triple> = taken.iter().filter(has).copied().collect();
        if triples.is_empty() {
            return Ok(Vec::new());
        }
        let listed = kernel::again(|| self.kernel.ipvs.virtual_servers())?;
        let mut all = Vec::new();
        for triple in triples {
            let server = Server::NodePort(triple);
            let key = convert::key(&server);
            let Some(state) = listed.iter().find(|it| it.key == key) else {
                return Err(refused::gone(&Key::Server(server)));
            };
            let balancing = convert::balancing(state).map(Object::Server);
            let mut found = Found {
                triple,
                objects: balancing
                    .map(|it| (Key::Server(server), it))
                    .into_iter()
                    .collect(),
                reals: Vec::new(),
            };
            for real in kernel::real_servers(&mut self.kernel.ipvs, &key)? {
                let address = real.server.address;
                found.reals.push(address);
                if !self.held.is_draining(&server, &address)
                    && let Some(weight) = convert::weight(&real.server)
                {
                    let object = (Key::Real(server, address), Object::Real(weight));
                    found.objects.push(object);
                }
            }
            all.push(found);
        }
        Ok(all)
    }

    /// Puts a NodePort behind the virtual IP that its virtual server is now. `reals` are yet to be
    /// written.
    pub(super) fn hide(
        &mut self,
        node_port: Found,
        delta: &Delta<Key, Object>,
        reals: &Changes<Change>,
    ) -> Result<(), BackendError> {
        let shown = Server::Address(node_port.triple);
        let hidden = Server::NodePort(node_port.triple);
        self.held.remove_server(hidden);
        if !delta.delete.contains(&Key::Server(hidden)) {
            for (key, object) in node_port.objects {
                // What this delta says of it is newer.
                self.held.hidden.entry(key).or_insert(object);
            }
        }
        let mut changes = Changes::default();
        for address in node_port.reals {
            let key = Key::Real(shown, address);
            if !reals.keys.contains(&key) {
                let change = Change::DeleteReal(convert::key(&shown), address);
                changes.push(key, change);
            }
        }
        let Changes { keys, changes } = changes;
        let refused = self.kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
        self.refused.add(&keys, &refused);
        Ok(())
    }

    /// Whether a virtual IP comes before this NodePort.
    pub(super) fn is_behind(&self, server: &Server, taken: &BTreeSet<Triple>) -> bool {
        match server {
            Server::NodePort(triple) => {
                taken.contains(triple) || self.held.addresses.contains(triple)
            }
            Server::Address(_) | Server::Mark(..) => false,
        }
    }

    /// NodePorts whose virtual IP is among what was deleted come into the kernel.
    pub(super) fn show(&mut self, deleted: &[Key]) -> Result<(), BackendError> {
        let mut changes = Changes::default();
        for server in virtual_ips(deleted.iter()).map(Server::NodePort) {
            let of = |key: &Key| match key {
                Key::Server(it) | Key::Real(it, _) => *it == server,
                _ => false,
            };
            let shown: Vec<_> = self.held.hidden.extract_if(.., |key, _| of(key)).collect();
            for (key, object) in shown {
                let change = match (&key, object) {
                    (Key::Server(_), Object::Server(balancing)) => {
                        Change::AddVirtual(convert::virtual_server(&server, &balancing))
                    }
                    (Key::Real(_, address), Object::Real(weight)) => {
                        let real = convert::real_server(*address, weight);
                        Change::AddReal(convert::key(&server), real)
                    }
                    _ => continue,
                };
                changes.push(key, change);
            }
        }
        self.change_servers(changes)
    }
}
