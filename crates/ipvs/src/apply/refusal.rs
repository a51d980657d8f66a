//! What the kernel has against one object, as against what is wrong with everything.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::backend::{BackendError, RefusedObject};
use sluice_core::delta::Delta;
use sluice_netlink::{Errno, Failure};

use crate::object::{Key, Object};

/// Objects that the kernel refused, while the others were written.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    objects: BTreeMap<Key, String>,
    /// What kept whole families from being written.
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

    /// A family was not written.
    pub(super) fn lose(&mut self, reason: String) {
        self.lost.push(reason);
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

    /// The refused objects of this delta.
    ///
    /// # Errors
    ///
    /// A family was not written, or there is another object: a NodePort that was to come out from
    /// behind a virtual IP, or to go behind one.
    pub(super) fn into_objects(
        self,
        delta: &Delta<Key, Object>,
    ) -> Result<Vec<RefusedObject<Key>>, BackendError> {
        if !self.lost.is_empty() {
            return Err(BackendError {
                operation: "write virtual servers, ipsets and rules".into(),
                reason: self.lost.join("; "),
                source: None,
            });
        }
        if self.objects.is_empty() {
            return Ok(Vec::new());
        }
        let written = delta.add.iter().chain(&delta.replace).map(|(key, _)| key);
        let asked: BTreeSet<&Key> = written.chain(&delta.delete).collect();
        if let Some((key, reason)) = self.objects.iter().find(|(key, _)| !asked.contains(key)) {
            return Err(gone(key, reason.clone()));
        }
        let objects = self.objects.into_iter();
        Ok(objects
            .map(|(key, reason)| RefusedObject { key, reason })
            .collect())
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

    use sluice_core::model::{IpFamily, Protocol};
    use sluice_netlink::RequestError;

    use super::*;
    use crate::object::{Server, Triple};
    use crate::set::{Entry, SetName};

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

        let delta = Delta {
            delete: keys.to_vec(),
            ..Delta::default()
        };
        assert_eq!(refusals.into_objects(&delta).unwrap().len(), 2);
        let mut refusals = Refusals::default();
        refusals.add(member, "full");
        assert!(
            refusals.into_objects(&delta).is_err(),
            "nobody asked for it"
        );
    }
}
