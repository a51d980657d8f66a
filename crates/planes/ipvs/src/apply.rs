//! Writes a delta.
//!
//! The kernel has no transaction for this, so the order is such that nothing that works breaks:
//!
//! 1. interface, ipsets, chains
//! 2. members of ipsets that say who may dial a frontend
//! 3. virtual servers, that refuse everybody while they have no real servers
//! 4. members that let packets pass to virtual servers
//! 5. real servers: how a packet is treated is known before it is sent anywhere
//! 6. members that lead to virtual servers (marks of near clients), addresses
//! 7. what goes, the other way: marks, addresses, real servers, virtual servers, members
//!
//! The interface, ipsets and chains are always wanted, so none of them goes.
//!
//! Where the external policy changes, members that say who is not masqueraded go before 5 and come
//! after the real servers of 7 (`policy.rs`).
//!
//! What the kernel refuses fails the sync, and the next one reads the kernel. A refusal in 1 to 3 ends
//! it at once: without a set or rules nothing of the family may be written (`foundation.rs`), without
//! a member of 2 a virtual server lets in whom it must not, and without a virtual server the members
//! of 4 let packets pass to whatever listens on the node. From 4 on a refused object leaves only its
//! own clients without an answer, and the rest is written.

mod changes;
mod foundation;
mod node_port;
mod policy;
mod refused;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sluice_model::{IpFamily, Protocol};
use sluice_netlink::Errno;
use sluice_netlink::ipset::Change as SetChange;
use sluice_netlink::ipvs::{Change, RealState};
use sluice_netlink::rtnetlink::{AddressChange, Applied, link};
use sluice_reconcile::{BackendError, Delta};
use tracing::warn;

use crate::convert;
use crate::held::Held;
use crate::kernel::{self, Kernel};
use crate::object::{DEVICE, Key, Object, Server};
use crate::set::SetName;
use changes::Changes;
pub(crate) use foundation::{device, foundation, probe};
use policy::Passing;
use refused::Refused;

/// Each set's changes.
type Members = BTreeMap<(IpFamily, SetName), Changes<SetChange>>;

/// Writes all of a delta but its [`device`] and [`foundation`].
///
/// # Errors
///
/// The kernel could not be reached, or it refused objects, which the error names.
pub(crate) fn write(
    kernel: &mut Kernel,
    held: &mut Held,
    delta: &Delta<Key, Object>,
) -> Result<(), BackendError> {
    let mut writer = Writer {
        kernel,
        held,
        refused: Refused::default(),
    };
    let written = written(delta);
    let passing = Passing::of(delta);
    writer.add_members(&written, |key, set| {
        !set.leads() && !set.lets_pass() && !passing.becomes_local(key)
    })?;
    writer.stop_if_refused()?;
    let reals = writer.virtual_servers(delta)?;
    writer.stop_if_refused()?;
    writer.add_members(&written, |key, set| {
        set.lets_pass() && !passing.becomes_local(key)
    })?;
    writer.delete_members(&delta.delete, |key, _| passing.becomes_cluster(key))?;
    writer.change_servers(reals)?;
    writer.add_members(&written, |_, set| set.leads())?;
    writer.addresses(&written, AddressChange::Add)?;
    writer.delete_members(&delta.delete, |_, set| set.leads())?;
    let gone: Vec<(&Key, &Object)> = delta.delete.iter().map(|key| (key, &GONE)).collect();
    writer.addresses(&gone, AddressChange::Delete)?;
    writer.delete_servers(&delta.delete)?;
    writer.show(&delta.delete)?;
    writer.add_members(&written, |key, _| passing.becomes_local(key))?;
    writer.delete_members(&delta.delete, |key, set| {
        !set.leads() && !passing.becomes_cluster(key)
    })?;
    writer.refused.into_result()
}

/// In place of what is not there any more.
const GONE: Object = Object::Foreign;

fn written(delta: &Delta<Key, Object>) -> Vec<(&Key, &Object)> {
    pairs(&delta.add).chain(pairs(&delta.replace)).collect()
}

fn pairs(objects: &[(Key, Object)]) -> impl Iterator<Item = (&Key, &Object)> {
    objects.iter().map(|(key, object)| (key, object))
}

struct Writer<'a> {
    kernel: &'a mut Kernel,
    held: &'a mut Held,
    refused: Refused,
}

impl Writer<'_> {
    /// # Errors
    ///
    /// Something was refused that what comes next depends on.
    fn stop_if_refused(&mut self) -> Result<(), BackendError> {
        std::mem::take(&mut self.refused).into_result()
    }

    fn add_members(
        &mut self,
        written: &[(&Key, &Object)],
        is_meant: impl Fn(&Key, SetName) -> bool,
    ) -> Result<(), BackendError> {
        let mut members = Members::new();
        for (key, object) in written {
            if let (Key::Member(family, set, entry), Object::Member(mark)) = (key, object)
                && is_meant(key, *set)
            {
                let change = SetChange::Add(convert::member(entry, *mark));
                let changes = members.entry((*family, *set)).or_default();
                changes.push((*key).clone(), change);
            }
        }
        self.change_members(members)
    }

    fn delete_members(
        &mut self,
        deleted: &[Key],
        is_meant: impl Fn(&Key, SetName) -> bool,
    ) -> Result<(), BackendError> {
        let mut members = Members::new();
        for key in deleted {
            if let Key::Member(family, set, entry) = key
                && is_meant(key, *set)
            {
                let change = SetChange::Delete(convert::member(entry, None));
                let changes = members.entry((*family, *set)).or_default();
                changes.push(key.clone(), change);
            }
        }
        self.change_members(members)
    }

    fn change_members(&mut self, members: Members) -> Result<(), BackendError> {
        for ((family, set), changes) in members {
            let Changes { keys, changes } = changes;
            let applied = self.kernel.sets.apply(&set.name(family), &changes);
            self.refused.add(&keys, &applied.map_err(kernel::asked)?);
        }
        Ok(())
    }

    /// Adds and replaces virtual servers. Returns the real servers to write.
    fn virtual_servers(
        &mut self,
        delta: &Delta<Key, Object>,
    ) -> Result<Changes<Change>, BackendError> {
        let taken = node_port::taken(delta);
        let mut changes = Changes::default();
        let mut reals = Changes::default();
        for (key, object) in pairs(&delta.add).chain(pairs(&delta.replace)) {
            match (key, object) {
                (Key::Server(server), _) | (Key::Real(server, _), _)
                    if self.is_behind(server, &taken) =>
                {
                    self.held.hidden.insert(key.clone(), object.clone());
                }
                (Key::Server(server), Object::Server(balancing)) => {
                    let server = convert::virtual_server(server, balancing);
                    changes.push(key.clone(), Change::AddVirtual(server));
                }
                (Key::Real(server, address), Object::Real(weight)) => {
                    let real = convert::real_server(*address, *weight);
                    let change = Change::AddReal(convert::key(server), real);
                    reals.push(key.clone(), change);
                }
                _ => {}
            }
        }
        let found = self.found(&taken)?;
        self.change_servers(changes)?;
        self.stop_if_refused()?;
        for node_port in found {
            self.hide(node_port, delta, &reals)?;
        }
        Ok(reals)
    }

    /// What is to be added and is there already is changed instead: it was draining, or it is
    /// replaced.
    fn change_servers(&mut self, changes: Changes<Change>) -> Result<(), BackendError> {
        let Changes { keys, changes } = changes;
        let failures = self.kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
        let (there, refused): (Vec<_>, Vec<_>) = failures
            .into_iter()
            .partition(|it| it.error.errno() == Some(Errno::EEXIST));
        self.refused.add(&keys, &refused);
        let (again, repeated): (Vec<Key>, Vec<Change>) = there
            .iter()
            .filter_map(|it| {
                let change = match changes.get(it.index)? {
                    Change::AddVirtual(it) => Change::SetVirtual(it.clone()),
                    Change::AddReal(key, real) => Change::SetReal(*key, *real),
                    _ => return None,
                };
                Some((keys.get(it.index)?.clone(), change))
            })
            .unzip();
        if !again.is_empty() {
            let refused = self.kernel.ipvs.apply(&repeated).map_err(kernel::asked)?;
            self.refused.add(&again, &refused);
        }
        for (key, change) in keys.iter().zip(&changes) {
            match (key, change) {
                _ if self.refused.contains(key) => {}
                (Key::Server(server), Change::AddVirtual(it)) => {
                    self.held.add_server(*server, &it.scheduler);
                }
                (Key::Real(server, address), _) => self.held.drained(server, address),
                _ => {}
            }
        }
        Ok(())
    }

    fn delete_servers(&mut self, deleted: &[Key]) -> Result<(), BackendError> {
        let gone: BTreeSet<Server> = deleted
            .iter()
            .filter_map(|key| match key {
                Key::Server(server) => Some(*server),
                _ => None,
            })
            .collect();
        let mut leaving: BTreeMap<Server, Vec<SocketAddr>> = BTreeMap::new();
        for key in deleted {
            let was_hidden = self.held.hidden.remove(key).is_some();
            if let Key::Real(server, address) = key
                && !was_hidden
                && !gone.contains(server)
            {
                leaving.entry(*server).or_default().push(*address);
            }
        }
        let mut changes = Changes::default();
        for (server, addresses) in leaving {
            changes.append(self.leave(server, &addresses)?);
        }
        for server in gone {
            let is_hidden = match server {
                Server::NodePort(triple) => !self.held.node_ports.contains(&triple),
                Server::Address(_) | Server::Mark(..) => false,
            };
            if !is_hidden {
                let change = Change::DeleteVirtual(convert::key(&server));
                changes.push(Key::Server(server), change);
                self.held.remove_server(server);
            }
        }
        let Changes { keys, changes } = changes;
        let refused = self.kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
        self.refused.add(&keys, &refused);
        Ok(())
    }

    /// Real servers go at once, or get no more connections until they have none left.
    fn leave(
        &mut self,
        server: Server,
        addresses: &[SocketAddr],
    ) -> Result<Changes<Change>, BackendError> {
        let key = convert::key(&server);
        let mut changes = Changes::default();
        for real in kernel::real_servers(&mut self.kernel.ipvs, &key)? {
            let address = real.server.address;
            if !addresses.contains(&address) {
                continue;
            }
            let change = if self.held.waits(&server, &real) {
                let draining = self.held.draining.entry(server).or_default();
                draining.insert(address);
                Change::SetReal(key, convert::real_server(address, 0))
            } else {
                Change::DeleteReal(key, address)
            };
            changes.push(Key::Real(server, address), change);
        }
        Ok(changes)
    }

    fn addresses(
        &mut self,
        objects: &[(&Key, &Object)],
        change: impl Fn(IpAddr) -> AddressChange,
    ) -> Result<(), BackendError> {
        let (keys, changes): (Vec<Key>, Vec<AddressChange>) = objects
            .iter()
            .filter_map(|(key, _)| match key {
                Key::Address(ip) => Some(((*key).clone(), change(*ip))),
                _ => None,
            })
            .unzip();
        if changes.is_empty() {
            return Ok(());
        }
        let Some(link) = link(DEVICE).map_err(kernel::asked)? else {
            return Err(refused::gone(&Key::Device));
        };
        let applied = self.kernel.addresses.apply(link.index, &changes);
        let Applied { refused, late } = applied.map_err(kernel::asked)?;
        if let Some(late) = late {
            let reason = late.to_string();
            warn!(
                reason,
                "packets to new IPv6 addresses may not be taken in yet"
            );
        }
        self.refused.add(&keys, &refused);
        Ok(())
    }
}

/// Whether a real server is still needed. Datagrams have no end to wait for, and SCTP clients find
/// another path (as kube-proxy has it).
pub(crate) fn has_connections(server: &Server, real: &RealState) -> bool {
    match server.protocol() {
        Protocol::Tcp => real.active + real.inactive > 0,
        Protocol::Udp | Protocol::Sctp => false,
    }
}
