//! Shared texts, sets of labels and lists of ports.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use sluice_model::{ContainerPort, ContainerPorts, Labels};

/// Shares equal values between objects: node names, zones and namespaces repeat in every endpoint, labels and ports
/// in every Pod of a Deployment. 100,000 endpoints should not hold 100,000 copies.
#[derive(Debug, Default)]
pub struct Interner {
    texts: Pool<Arc<str>>,
    labels: Pool<Labels>,
    ports: Pool<ContainerPorts>,
}

impl Interner {
    /// The shared copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        self.texts
            .find(text)
            .unwrap_or_else(|| self.texts.add(text.into()))
    }

    /// The shared copy of a set of labels.
    pub fn labels<'t>(&mut self, labels: impl Iterator<Item = (&'t str, &'t str)>) -> Labels {
        let labels = labels.map(|(key, value)| (self.share(key), self.share(value)));
        let labels = labels.collect();
        self.labels.share(labels)
    }

    /// The shared copy of a list of ports.
    pub fn ports(&mut self, ports: Vec<ContainerPort>) -> ContainerPorts {
        self.ports.share(ports.into_iter().collect())
    }
}

/// A value whose clones share its memory.
trait Shared: Clone + Eq + Hash {
    /// How many clones there are, this one included. 0 where a clone takes no memory.
    fn clones(&self) -> usize;
}

impl Shared for Arc<str> {
    fn clones(&self) -> usize {
        Self::strong_count(self)
    }
}

impl Shared for Labels {
    fn clones(&self) -> usize {
        self.shares()
    }
}

impl Shared for ContainerPorts {
    fn clones(&self) -> usize {
        self.shares()
    }
}

/// One copy of each value that is in use.
#[derive(Debug)]
struct Pool<T> {
    known: HashSet<T>,
    /// Size at which unused values are thrown away.
    limit: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            limit: 0,
        }
    }
}

impl<T: Shared> Pool<T> {
    fn find<Q: Eq + Hash + ?Sized>(&self, value: &Q) -> Option<T>
    where
        T: Borrow<Q>,
    {
        self.known.get(value).cloned()
    }

    fn add(&mut self, new: T) -> T {
        if self.known.len() >= self.limit {
            // The next time is when the number of values has doubled.
            self.known.retain(|it| it.clones() > 1);
            self.limit = (self.known.len() * 2).max(1024);
        }
        self.known.insert(new.clone());
        new
    }

    fn share(&mut self, value: T) -> T {
        self.find(&value).unwrap_or_else(|| self.add(value))
    }
}
