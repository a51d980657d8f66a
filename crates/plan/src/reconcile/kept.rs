//! What the kernel keeps for service ports whose newer form it refused.

use std::collections::BTreeMap;

use crate::PortKey;
use crate::backend::{Backend, Objects};

/// Objects of refused service ports. They are rendered from no plan that we still know, so they
/// are remembered as they are.
#[derive(Debug)]
pub(super) struct Kept<B: Backend> {
    ports: BTreeMap<PortKey, Objects<B>>,
    /// Who keeps an object that is not shared.
    holders: BTreeMap<B::Key, PortKey>,
}

impl<B: Backend> Default for Kept<B> {
    fn default() -> Self {
        Self {
            ports: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }
}

impl<B: Backend> Kept<B> {
    /// What a refused service port still has; `None` when it was not refused.
    pub(super) fn of(&self, port: &PortKey) -> Option<&Objects<B>> {
        self.ports.get(port)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// An object that is not shared and kept by someone.
    pub(super) fn object(&self, key: &B::Key) -> Option<&B::Object> {
        let objects = self.ports.get(self.holders.get(key)?)?;
        let found = objects.iter().find(|(it, _)| it == key);
        found.map(|(_, object)| object)
    }

    pub(super) fn put(&mut self, port: PortKey, objects: Objects<B>) {
        self.forget(&port);
        let own = objects.iter().filter(|(key, _)| !B::is_shared(key));
        self.holders
            .extend(own.map(|(key, _)| (key.clone(), port.clone())));
        self.ports.insert(port, objects);
    }

    /// The kernel took the newer form of a service port.
    pub(super) fn forget(&mut self, port: &PortKey) {
        for (key, _) in self.ports.remove(port).unwrap_or_default() {
            self.holders.remove(&key);
        }
    }

    /// An object belongs to another service port now.
    pub(super) fn give_up(&mut self, key: &B::Key) {
        if let Some(port) = self.holders.remove(key)
            && let Some(objects) = self.ports.get_mut(&port)
        {
            objects.retain(|(it, _)| it != key);
        }
    }
}
