//! NodePorts behind a virtual IP with the same address, port and protocol: the kernel has one virtual
//! server for both, which is that of the virtual IP.

use std::collections::BTreeSet;

use sluice_netlink::ipvs::Change;
use sluice_reconcile::BackendError;
use sluice_reconcile::Delta;

use super::{Writer, refused};
use crate::convert;
use crate::kernel;
use crate::object::{Key, Object, Server, Triple};

/// The addresses and ports of virtual IPs among these objects.
pub(super) fn virtual_ips<'a>(keys: impl Iterator<Item = &'a Key>) -> impl Iterator<Item = Triple> {
    keys.filter_map(|key| match key {
        Key::Server(Server::Address(triple)) => Some(*triple),
        _ => None,
    })
}

impl Writer<'_> {
    /// Whether a server is a NodePort behind a virtual IP of the kernel or one of `virtual_ips`.
    pub(super) fn is_behind(&self, server: &Server, virtual_ips: &BTreeSet<Triple>) -> bool {
        let Server::NodePort(triple) = server else {
            return false;
        };
        let servers = &self.state.servers;
        virtual_ips.contains(triple) || servers.contains_key(&Server::Address(*triple))
    }

    /// Reads the NodePorts whose virtual server becomes that of a virtual IP from the kernel, and deletes
    /// their real servers but those of the virtual IP, `reals`.
    pub(super) fn hide_node_ports(
        &mut self,
        virtual_ips: &BTreeSet<Triple>,
        delta: &Delta<Key, Object>,
        reals: &[(Key, Change)],
    ) -> Result<(), BackendError> {
        let is_there = |it: &&Triple| self.state.servers.contains_key(&Server::NodePort(**it));
        let hidden: Vec<Triple> = virtual_ips.iter().filter(is_there).copied().collect();
        if hidden.is_empty() {
            return Ok(());
        }
        let listed = kernel::again(|| self.kernel.ipvs.virtual_servers())?;
        let mut changes = Vec::new();
        for triple in hidden {
            let node_port = Server::NodePort(triple);
            let key = convert::key(&node_port);
            let Some(server) = listed.iter().find(|it| it.key == key) else {
                return Err(refused::missing(&Key::Server(node_port)));
            };
            let balancing = convert::balancing(server);
            let object = balancing.map(|it| (Key::Server(node_port), Object::Server(it)));
            let mut objects: Vec<(Key, Object)> = object.into_iter().collect();
            for real in kernel::real_servers(&mut self.kernel.ipvs, &key)? {
                let address = real.server.address;
                let drains = self.state.draining.contains(&(node_port, address));
                if let Some(weight) = convert::weight(&real.server)
                    && !drains
                {
                    objects.push((Key::Real(node_port, address), Object::Real(weight)));
                }
                let wanted = Key::Real(Server::Address(triple), address);
                if !reals.iter().any(|(key, _)| *key == wanted) {
                    changes.push((wanted, Change::DeleteReal(key, address)));
                }
            }
            self.state.remove_server(&node_port);
            if !delta.delete.contains(&Key::Server(node_port)) {
                for (key, object) in objects {
                    // The delta is newer than the kernel.
                    self.state.hidden.entry(key).or_insert(object);
                }
            }
        }
        self.apply(changes)
    }

    /// Adds the hidden NodePorts whose virtual IP is among the deleted objects.
    pub(super) fn show_node_ports(&mut self, deleted: &[Key]) -> Result<(), BackendError> {
        let shown: BTreeSet<Server> = virtual_ips(deleted.iter()).map(Server::NodePort).collect();
        let objects = self.state.hidden.extract_if(.., |key, _| match key {
            Key::Server(server) | Key::Real(server, _) => shown.contains(server),
            _ => false,
        });
        let changes = objects.filter_map(|(key, object)| {
            let change = match (&key, object) {
                (Key::Server(server), Object::Server(balancing)) => {
                    Change::AddVirtual(convert::virtual_server(server, &balancing))
                }
                (Key::Real(server, address), Object::Real(weight)) => {
                    let real = convert::real_server(*address, weight);
                    Change::AddReal(convert::key(server), real)
                }
                _ => return None,
            };
            Some((key, change))
        });
        let changes = changes.collect();
        self.change_servers(changes)
    }
}
