//! What the kernel has against one object, as against what is wrong with everything.

use std::collections::BTreeMap;

use sluice_netlink::{Errno, Failure};
use sluice_reconcile::BackendError;

use crate::object::{Key, Object, Server, Triple};
use crate::set::SetName;

/// Objects that the kernel refused, while the others were written.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    objects: BTreeMap<Key, String>,
    /// What makes the sync fail, while the rest is written.
    lost: Vec<String>,
}

impl Refusals {
    /// Why an object was refused; `None` when it was not.
    pub(super) fn of(&self, key: &Key) -> Option<&str> {
        self.objects.get(key).map(String::as_str)
    }

    pub(super) fn add(&mut self, key: Key, reason: impl Into<String>) {
        self.objects.entry(key).or_insert_with(|| reason.into());
    }

    /// The sync fails for this reason in the end.
    pub(super) fn lose(&mut self, reason: String) {
        self.lost.push(reason);
    }

    /// A virtual server without a member that keeps somebody out would let everybody in: nothing
    /// new of it shall be written.
    pub(super) fn refuse_unguarded(&mut self, added: &[(Key, Object)]) {
        let open: BTreeMap<Server, String> = self
            .objects
            .iter()
            .filter_map(|(key, reason)| {
                let (server, what) = guards(key)?;
                Some((server, format!("{what} could not be written: {reason}")))
            })
            .collect();
        for (key, _) in added {
            if let Some(reason) = serves(key).and_then(|server| open.get(&server)) {
                self.add(key.clone(), reason.as_str());
            }
        }
    }

    /// Refuses the members that let packets pass to virtual servers that were refused. Returns
    /// those virtual servers whose members are in the kernel: the sync will have failed.
    pub(super) fn refuse_members(&mut self, added: &[(Key, Object)]) -> Vec<Triple> {
        let keys = added.iter().map(|(key, _)| key);
        let without: BTreeMap<Triple, String> = keys
            .filter_map(|key| match key {
                Key::Server(Server::Address(triple)) => Some((*triple, self.of(key)?.to_owned())),
                _ => None,
            })
            .collect();
        let mut there = without.clone();
        for (key, _) in added {
            if let Key::Member(_, set, entry) = key
                && set.lets_pass()
                && let Some(triple) = entry.triple()
                && let Some(reason) = without.get(&triple)
            {
                there.remove(&triple);
                let reason = format!("there is no virtual server for it: {reason}");
                self.add(key.clone(), reason);
            }
        }
        for (triple, reason) in &there {
            self.lose(format!("virtual server {triple} is gone: {reason}"));
        }
        there.into_keys().collect()
    }

    /// Takes note of the failures of changes that were made for `keys`, in their order.
    ///
    /// # Errors
    ///
    /// One is not about its object.
    pub(super) fn take(
        &mut self,
        keys: &[Key],
        failures: Vec<Failure>,
    ) -> Result<(), BackendError> {
        for Failure { index, error } in failures {
            let Some(key) = keys.get(index) else { continue };
            let reason = error.reason();
            let is_alone = error.errno().is_some_and(|it| self.is_about(key, it));
            if !is_alone {
                return Err(gone(key, reason));
            }
            self.add(key.clone(), reason);
        }
        Ok(())
    }

    /// Whether the kernel refuses this object and not its whole kind.
    fn is_about(&self, key: &Key, errno: Errno) -> bool {
        match (key, errno) {
            // As on an interface whose MTU is too small for IPv6 (`addrconf_add_dev`, addrconf.c).
            (Key::Address(_), Errno::ENOBUFS) => true,
            // Trouble of the kernel or of this process.
            (_, Errno::EINTR | Errno::EAGAIN | Errno::ENOBUFS | Errno::EPERM) => false,
            // Somebody took away what it belongs to, or itself.
            (Key::Member(..), Errno::ENOENT) | (Key::Address(_), Errno::ENODEV) => false,
            (Key::Server(_), Errno::ESRCH) | (Key::Real(..), Errno::ENOENT) => false,
            (Key::Real(server, _), Errno::ESRCH) => self.of(&Key::Server(*server)).is_some(),
            _ => true,
        }
    }

    /// All that was refused, as one error. The rest is written.
    ///
    /// # Errors
    ///
    /// An object was refused, or a virtual server that was served is gone.
    pub(super) fn into_result(self) -> Result<(), BackendError> {
        const SHOWN: usize = 3;
        let objects = self.objects.iter();
        let refused = objects.map(|(key, reason)| format!("{key}: kernel said: {reason}"));
        let all: Vec<String> = self.lost.into_iter().chain(refused).collect();
        let more = match all.len() {
            0 => return Ok(()),
            count if count > SHOWN => format!("; and {} more", count - SHOWN),
            _ => String::new(),
        };
        Err(BackendError {
            operation: "write virtual servers, ipsets and rules".into(),
            reason: all[..all.len().min(SHOWN)].join("; ") + &more,
            source: None,
        })
    }
}

/// The virtual server that lets too many in without this member, and what the member is of it.
fn guards(key: &Key) -> Option<(Server, &'static str)> {
    let Key::Member(_, set, entry) = key else {
        return None;
    };
    let triple = entry.triple()?;
    match set {
        SetName::LoadBalancerFw => Some((Server::Address(triple), "its source ranges")),
        SetName::NoLocalEndpointFar => Some((Server::Address(triple), "its Local policy")),
        SetName::NoLocalNodePortFar => Some((Server::NodePort(triple), "its Local policy")),
        _ => None,
    }
}

/// The virtual server that clients dial when they get what this object is there for.
fn serves(key: &Key) -> Option<Server> {
    match key {
        Key::Server(server) | Key::Real(server, _) => Some(*server),
        Key::Member(_, SetName::NearClients, entry) => entry.triple().map(Server::Address),
        Key::Member(_, SetName::NearNodePorts, entry) => entry.triple().map(Server::NodePort),
        _ => None,
    }
}

/// What the kernel holds is not what was believed.
pub(super) fn gone(key: &Key, reason: impl Into<String>) -> BackendError {
    BackendError {
        operation: format!("write {key}"),
        reason: reason.into(),
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sluice_model::{IpFamily, Protocol};
    use sluice_netlink::RequestError;

    use super::*;
    use crate::set::Entry;

    fn failure(index: usize, errno: Errno) -> Failure {
        let error = RequestError::Refused {
            operation: "add",
            object: "it".into(),
            errno,
            message: None,
        };
        Failure { index, error }
    }

    #[test]
    fn what_is_wrong_with_everything_is_blamed_on_nobody() {
        let real: SocketAddr = "10.0.0.255:80".parse().unwrap();
        let server = Server::Address(Triple {
            ip: "10.96.0.1".parse().unwrap(),
            port: 80,
            protocol: Protocol::Tcp,
        });
        let (server, real) = (Key::Server(server), Key::Real(server, real));
        let address = Key::Address("10.96.0.1".parse().unwrap());
        let member = Key::Member(IpFamily::V4, SetName::NodePortTcp, Entry::Port(80));
        let full = Errno::from_raw(4352);
        for (key, errno, is_blamed) in [
            (&real, Errno::EINVAL, true),
            (&real, Errno::ERANGE, true),
            (&real, Errno::ESRCH, false),
            (&real, Errno::ENOENT, false),
            (&server, Errno::ENOENT, true),
            (&server, Errno::ENOMEM, true),
            (&server, Errno::ESRCH, false),
            (&address, Errno::EACCES, true),
            (&address, Errno::ENODEV, false),
            (&address, Errno::ENOBUFS, true),
            (&real, Errno::ENOBUFS, false),
            (&member, full, true),
            (&member, Errno::ENOENT, false),
            (&member, Errno::EPERM, false),
            (&member, Errno::EINTR, false),
        ] {
            let mut refusals = Refusals::default();
            let keys = [server.clone(), key.clone()];
            let taken = refusals.take(&keys, vec![failure(1, errno)]);
            assert_eq!(taken.is_ok(), is_blamed, "{key} {errno}");
            assert_eq!(refusals.of(key).is_some(), is_blamed, "{key} {errno}");
        }
        // Without its virtual server there can be no real one.
        let mut refusals = Refusals::default();
        let keys = [server, real];
        let both = vec![failure(0, Errno::ENOENT), failure(1, Errno::ESRCH)];
        refusals.take(&keys, both).unwrap();
        assert!(keys.iter().all(|it| refusals.of(it).is_some()));
        let error = refusals.into_result().unwrap_err().to_string();
        assert!(error.contains("; "), "{error}");
    }

    fn triple(ip: &str) -> Triple {
        Triple {
            ip: ip.parse().unwrap(),
            port: 80,
            protocol: Protocol::Tcp,
        }
    }

    fn member(set: SetName, ip: &str) -> Key {
        let triple = triple(ip);
        Key::Member(IpFamily::of(&triple.ip), set, triple.into())
    }

    fn added(keys: &[Key]) -> Vec<(Key, Object)> {
        let object = |key: &Key| match key {
            Key::Real(..) => Object::Real(1),
            _ => Object::Member(None),
        };
        keys.iter().map(|key| (key.clone(), object(key))).collect()
    }

    #[test]
    fn nobody_is_served_whom_a_refused_member_would_have_kept_out() {
        let ip = "198.51.100.1";
        let (by_ip, by_port) = (Server::Address(triple(ip)), Server::NodePort(triple(ip)));
        let other = Server::Address(triple("198.51.100.2"));
        for (set, closed, open, near) in [
            (
                SetName::LoadBalancerFw,
                by_ip,
                by_port,
                SetName::NearClients,
            ),
            (
                SetName::NoLocalEndpointFar,
                by_ip,
                by_port,
                SetName::NearClients,
            ),
            (
                SetName::NoLocalNodePortFar,
                by_port,
                by_ip,
                SetName::NearNodePorts,
            ),
        ] {
            let real = |server| Key::Real(server, "10.0.0.1:80".parse().unwrap());
            let refused = [Key::Server(closed), real(closed), member(near, ip)];
            let written = [
                Key::Server(open),
                real(open),
                Key::Server(other),
                real(other),
                member(near, "198.51.100.2"),
                member(SetName::LoadBalancerLocal, ip),
            ];
            let added = added(&[&refused[..], &written].concat());
            let mut refusals = Refusals::default();
            refusals.refuse_unguarded(&added);
            assert!(refusals.objects.is_empty());
            refusals.add(member(set, ip), "full");
            refusals.refuse_unguarded(&added);
            for key in &refused {
                let reason = refusals.of(key).unwrap();
                assert!(reason.ends_with(" could not be written: full"), "{reason}");
            }
            for key in &written {
                assert_eq!(refusals.of(key), None, "{set:?} {key}");
            }
        }
    }

    #[test]
    fn without_a_virtual_server_no_set_lets_packets_pass() {
        let server = Key::Server(Server::Address(triple("10.96.0.1")));
        let lets_pass = member(SetName::ClusterIp, "10.96.0.1");
        let others = [
            member(SetName::ClusterIp, "10.96.0.2"),
            member(SetName::LoadBalancerFw, "10.96.0.1"),
        ];
        let all = [&[server.clone(), lets_pass.clone()], &others[..]].concat();
        let mut refusals = Refusals::default();
        assert!(refusals.refuse_members(&added(&all)).is_empty());
        assert!(refusals.objects.is_empty());
        refusals.add(server.clone(), "no scheduler");
        assert!(refusals.refuse_members(&added(&all)).is_empty());
        assert!(refusals.of(&lets_pass).unwrap().ends_with(": no scheduler"));
        assert!(others.iter().all(|key| refusals.of(key).is_none()));

        // The kernel has the member from before.
        let mut refusals = Refusals::default();
        refusals.add(server.clone(), "no scheduler");
        assert_eq!(
            refusals.refuse_members(&added(&[server])),
            [triple("10.96.0.1")]
        );
    }
}
