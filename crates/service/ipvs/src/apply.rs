//! Writes a delta.
//!
//! The kernel has no transaction for IPVS and ipset, so the order is such that connections go on:
//!
//! 1. interface, ipsets, chains
//! 2. members of ipsets that restrict the clients of a frontend
//! 3. virtual servers, which refuse everybody while they have no real servers
//! 4. members that let packets pass to virtual servers
//! 5. real servers: how a packet is treated is known before it is sent anywhere
//! 6. members that lead to virtual servers (marks of near clients), addresses
//! 7. deletions, in the opposite order: marks, addresses, real servers, virtual servers, members
//!
//! The interface, ipsets and chains are never deleted.
//!
//! Where the external policy changes, members that exempt clients from masquerading are deleted before 5
//! and added after the real servers of 7 (`policy.rs`).
//!
//! What the kernel refuses fails the sync, and the next one reads the kernel. A refusal in 1 to 3 ends
//! it at once: without a set or rules nothing of the family may be written (`foundation.rs`), without
//! a member of 2 a virtual server admits clients that it must not, and without a virtual server the
//! members of 4 let packets pass to whatever listens on the node. From 4 on a refused object costs its
//! own clients only, and the rest is written.

mod foundation;
mod node_port;
mod policy;
mod refused;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sluice_netlink::Errno;
use sluice_netlink::ipset::Change as SetChange;
use sluice_netlink::ipvs::Change;
use sluice_reconcile::{BackendError, Delta};
use sluice_route::{AddressChange, Applied, link};
use tracing::warn;

use crate::convert;
use crate::kernel::{self, Kernel};
use crate::object::{DEVICE, Key, Object, Server};
use crate::set::SetName;
use crate::state::State;
pub(crate) use foundation::{device, foundation, probe};
use policy::PolicyChanges;
use refused::Refused;

/// Writes all of a delta but its [`device`] and [`foundation`].
///
/// # Errors
///
/// The kernel could not be reached, or it refused objects, which the error names.
pub(crate) fn write(
    kernel: &mut Kernel,
    state: &mut State,
    delta: &Delta<Key, Object>,
) -> Result<(), BackendError> {
    let mut writer = Writer {
        kernel,
        state,
        refused: Refused::default(),
    };
    let policies = PolicyChanges::of(delta);
    writer.add_members(delta, |key, set| {
        !set.leads() && !set.lets_pass() && !policies.becomes_local(key)
    })?;
    writer.stop_if_refused()?;
    let reals = writer.virtual_servers(delta)?;
    writer.stop_if_refused()?;
    writer.add_members(delta, |key, set| {
        set.lets_pass() && !policies.becomes_local(key)
    })?;
    writer.delete_members(delta, |key, _| policies.becomes_cluster(key))?;
    writer.change_servers(reals)?;
    writer.add_members(delta, |_, set| set.leads())?;
    let added = written(delta).map(|(key, _)| key);
    writer.addresses(added, AddressChange::Add)?;
    writer.delete_members(delta, |_, set| set.leads())?;
    writer.addresses(delta.delete.iter(), AddressChange::Delete)?;
    writer.delete_servers(&delta.delete)?;
    writer.show_node_ports(&delta.delete)?;
    writer.add_members(delta, |key, _| policies.becomes_local(key))?;
    writer.delete_members(delta, |key, set| {
        !set.leads() && !policies.becomes_cluster(key)
    })?;
    writer.refused.into_result()
}

/// The objects that a delta adds and replaces.
fn written(delta: &Delta<Key, Object>) -> impl Iterator<Item = (&Key, &Object)> {
    let written = delta.add.iter().chain(&delta.replace);
    written.map(|(key, object)| (key, object))
}

struct Writer<'a> {
    kernel: &'a mut Kernel,
    state: &'a mut State,
    refused: Refused,
}

impl Writer<'_> {
    /// # Errors
    ///
    /// The kernel refused an object that the next step depends on.
    fn stop_if_refused(&mut self) -> Result<(), BackendError> {
        std::mem::take(&mut self.refused).into_result()
    }

    fn add_members(
        &mut self,
        delta: &Delta<Key, Object>,
        is_meant: impl Fn(&Key, SetName) -> bool,
    ) -> Result<(), BackendError> {
        self.change_members(
            written(delta).filter_map(|(key, object)| match (key, object) {
                (Key::Member(_, set, entry), Object::Member(mark)) if is_meant(key, *set) => {
                    Some((key, SetChange::Add(convert::member(entry, *mark))))
                }
                _ => None,
            }),
        )
    }

    fn delete_members(
        &mut self,
        delta: &Delta<Key, Object>,
        is_meant: impl Fn(&Key, SetName) -> bool,
    ) -> Result<(), BackendError> {
        self.change_members(delta.delete.iter().filter_map(|key| match key {
            Key::Member(_, set, entry) if is_meant(key, *set) => {
                Some((key, SetChange::Delete(convert::member(entry, None))))
            }
            _ => None,
        }))
    }

    fn change_members<'k>(
        &mut self,
        members: impl Iterator<Item = (&'k Key, SetChange)>,
    ) -> Result<(), BackendError> {
        let mut sets: BTreeMap<String, (Vec<Key>, Vec<SetChange>)> = BTreeMap::new();
        for (key, change) in members {
            if let Key::Member(family, set, _) = key {
                let (keys, changes) = sets.entry(set.name(*family)).or_default();
                keys.push(key.clone());
                changes.push(change);
            }
        }
        for (set, (keys, changes)) in sets {
            let refused = self.kernel.sets.apply(&set, &changes);
            self.refused.add(&keys, &refused.map_err(kernel::asked)?);
        }
        Ok(())
    }

    /// Adds and replaces virtual servers. Returns the real servers to write.
    fn virtual_servers(
        &mut self,
        delta: &Delta<Key, Object>,
    ) -> Result<Vec<(Key, Change)>, BackendError> {
        let added = delta.add.iter().map(|(key, _)| key);
        let virtual_ips: BTreeSet<_> = node_port::virtual_ips(added).collect();
        let (mut servers, mut reals) = (Vec::new(), Vec::new());
        for (key, object) in written(delta) {
            match (key, object) {
                (Key::Server(server) | Key::Real(server, _), _)
                    if self.is_behind(server, &virtual_ips) =>
                {
                    self.state.hidden.insert(key.clone(), object.clone());
                }
                (Key::Server(server), Object::Server(balancing)) => {
                    let server = convert::virtual_server(server, balancing);
                    servers.push((key.clone(), Change::AddVirtual(server)));
                }
                (Key::Real(server, address), Object::Real(weight)) => {
                    let real = convert::real_server(*address, *weight);
                    reals.push((key.clone(), Change::AddReal(convert::key(server), real)));
                }
                _ => {}
            }
        }
        self.hide_node_ports(&virtual_ips, delta, &reals)?;
        self.change_servers(servers)?;
        Ok(reals)
    }

    /// Adds virtual and real servers. One that exists, because it drains or is replaced, is changed.
    fn change_servers(&mut self, changes: Vec<(Key, Change)>) -> Result<(), BackendError> {
        let (keys, changes): (Vec<Key>, Vec<Change>) = changes.into_iter().unzip();
        let failures = self.kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
        let (existing, refused): (Vec<_>, Vec<_>) = failures
            .into_iter()
            .partition(|it| it.error.errno() == Some(Errno::EEXIST));
        self.refused.add(&keys, &refused);
        let existing = existing.iter().filter_map(|it| {
            let change = match changes.get(it.index)? {
                Change::AddVirtual(it) => Change::SetVirtual(it.clone()),
                Change::AddReal(key, real) => Change::SetReal(*key, *real),
                _ => return None,
            };
            Some((keys.get(it.index)?.clone(), change))
        });
        self.apply(existing.collect())?;
        for (key, change) in keys.iter().zip(changes) {
            match (key, change) {
                _ if self.refused.contains(key) => {}
                (Key::Server(server), Change::AddVirtual(it)) => {
                    self.state.servers.insert(*server, it.scheduler);
                }
                (Key::Real(server, address), _) => {
                    self.state.draining.remove(&(*server, *address));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn apply(&mut self, changes: Vec<(Key, Change)>) -> Result<(), BackendError> {
        let (keys, changes): (Vec<Key>, Vec<Change>) = changes.into_iter().unzip();
        let refused = self.kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
        self.refused.add(&keys, &refused);
        Ok(())
    }

    fn delete_servers(&mut self, deleted: &[Key]) -> Result<(), BackendError> {
        let servers = deleted.iter().filter_map(|key| match key {
            Key::Server(server) => Some(*server),
            _ => None,
        });
        let servers: BTreeSet<Server> = servers.collect();
        let mut reals: BTreeMap<Server, Vec<SocketAddr>> = BTreeMap::new();
        for key in deleted {
            let was_hidden = self.state.hidden.remove(key).is_some();
            if let Key::Real(server, address) = key
                && !was_hidden
                && !servers.contains(server)
            {
                reals.entry(*server).or_default().push(*address);
            }
        }
        let mut changes = Vec::new();
        for (server, addresses) in reals {
            changes.extend(self.delete_reals(server, &addresses)?);
        }
        for server in servers {
            // The kernel has no virtual server of a hidden NodePort.
            if self.state.remove_server(&server) {
                let change = Change::DeleteVirtual(convert::key(&server));
                changes.push((Key::Server(server), change));
            }
        }
        self.apply(changes)
    }

    /// The changes that delete real servers, or set their weight to 0 until they have drained.
    fn delete_reals(
        &mut self,
        server: Server,
        addresses: &[SocketAddr],
    ) -> Result<Vec<(Key, Change)>, BackendError> {
        let key = convert::key(&server);
        let mut changes = Vec::new();
        for real in kernel::real_servers(&mut self.kernel.ipvs, &key)? {
            let address = real.server.address;
            if !addresses.contains(&address) {
                continue;
            }
            let change = if self.state.has_to_drain(&server, &real) {
                self.state.draining.insert((server, address));
                self.state.drain_backoff.succeed();
                Change::SetReal(key, convert::real_server(address, 0))
            } else {
                Change::DeleteReal(key, address)
            };
            changes.push((Key::Real(server, address), change));
        }
        Ok(changes)
    }

    fn addresses<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Key>,
        change: impl Fn(IpAddr) -> AddressChange,
    ) -> Result<(), BackendError> {
        let (keys, changes): (Vec<Key>, Vec<AddressChange>) = keys
            .filter_map(|key| match key {
                Key::Address(ip) => Some((key.clone(), change(*ip))),
                _ => None,
            })
            .unzip();
        if changes.is_empty() {
            return Ok(());
        }
        let Some(link) = link(DEVICE).map_err(kernel::asked)? else {
            return Err(refused::missing(&Key::Device));
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
