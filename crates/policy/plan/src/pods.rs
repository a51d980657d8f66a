//! The pods and namespaces of the cluster, by name and by address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{Change, Labels, Namespace, NamespacedName, Pod};

use crate::event::Event;

/// Every pod, and the labels of every namespace.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    namespaces: HashMap<Arc<str>, Labels>,
    pods: BTreeMap<NamespacedName, Arc<Pod>>,
    /// The pods in a network of their own that have an address: nearly always one. It can be two, since an address is
    /// free before the last word about its pod is written.
    holders: HashMap<IpAddr, BTreeSet<NamespacedName>>,
}

impl Pods {
    /// Takes in a change. Returns the addresses whose pod may be another one or have changed.
    pub(crate) fn set_pod(&mut self, change: &Change<Pod>) -> BTreeSet<IpAddr> {
        let name = change.name();
        let new = change.object();
        let old = match new {
            Some(new) => self.pods.insert(name.clone(), new.clone()),
            None => self.pods.remove(&name),
        };
        if let (Some(old), Some(new)) = (&old, new)
            && is_same(old, new)
        {
            return BTreeSet::new();
        }
        let mut touched = BTreeSet::new();
        for address in old.iter().flat_map(addresses) {
            touched.insert(*address);
            if let Some(holders) = self.holders.get_mut(address) {
                holders.remove(&name);
                if holders.is_empty() {
                    self.holders.remove(address);
                }
            }
        }
        for address in new.into_iter().flat_map(addresses) {
            touched.insert(*address);
            let holders = self.holders.entry(*address).or_default();
            holders.insert(name.clone());
        }
        touched
    }

    /// Takes in a change. Returns the addresses of the namespace's pods if its labels changed.
    pub(crate) fn set_namespace(&mut self, change: &Change<Namespace>) -> BTreeSet<IpAddr> {
        let name = change.name().name;
        let old = match change.object() {
            Some(new) => self.namespaces.insert(name.clone(), new.labels.clone()),
            None => self.namespaces.remove(&name),
        };
        let is_same = old.unwrap_or_default() == self.labels(&name);
        let touched = (!is_same).then(|| self.in_namespace(&name));
        touched.into_iter().flatten().copied().collect()
    }

    /// All of them as new ones.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Event> {
        let namespaces = self.namespaces.iter().map(|(name, labels)| Namespace {
            name: name.clone(),
            labels: labels.clone(),
        });
        let namespaces = namespaces.map(|it| Event::Namespace(Change::Set(Arc::new(it))));
        let pods = self.pods.values().cloned();
        namespaces.chain(pods.map(|it| Event::Pod(Change::Set(it))))
    }

    /// The labels of a namespace; none for one that is unknown.
    pub(crate) fn labels(&self, namespace: &str) -> Labels {
        self.namespaces.get(namespace).cloned().unwrap_or_default()
    }

    /// The pods that may have an address, by name: those that claim it, without the terminating ones if others do.
    /// Connections are forbidden that would be forbidden for one of them.
    pub(crate) fn at(&self, address: &IpAddr) -> Vec<&Arc<Pod>> {
        living(self.claims(address).collect())
    }

    /// As [`at`](Self::at), of the pods of one node.
    pub(crate) fn on(&self, node: Option<&Arc<str>>, address: &IpAddr) -> Vec<&Arc<Pod>> {
        let is_on = |it: &&Arc<Pod>| node.is_none_or(|node| it.node.as_ref() == Some(node));
        living(self.claims(address).filter(is_on).collect())
    }

    fn claims(&self, address: &IpAddr) -> impl Iterator<Item = &Arc<Pod>> {
        let names = self.holders.get(address).into_iter().flatten();
        names.filter_map(|it| self.pods.get(it))
    }

    /// The addresses of the pods of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &Arc<str>) -> impl Iterator<Item = &IpAddr> {
        let first = NamespacedName::new(namespace.clone(), "");
        let pods = self.pods.range(first..);
        let pods = pods.take_while(|(name, _)| name.namespace == *namespace);
        pods.flat_map(|(_, pod)| addresses(pod))
    }

    /// Every address that a pod has.
    pub(crate) fn all(&self) -> impl Iterator<Item = &IpAddr> {
        self.holders.keys()
    }
}

fn living(mut pods: Vec<&Arc<Pod>>) -> Vec<&Arc<Pod>> {
    if pods.iter().any(|it| !it.is_terminating) {
        pods.retain(|it| !it.is_terminating);
    }
    pods
}

/// The addresses that are a pod's own.
fn addresses(pod: &Arc<Pod>) -> &[IpAddr] {
    if pod.host_network {
        &[]
    } else {
        &pod.addresses
    }
}

/// Whether nothing differs that policies ask.
fn is_same(a: &Pod, b: &Pod) -> bool {
    let asked = |it: &Pod| (it.host_network, it.is_terminating, it.node.clone());
    asked(a) == asked(b) && a.addresses == b.addresses && a.labels == b.labels && a.ports == b.ports
}
