//! The objects of a scenario's cluster, from manifests to events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_model::{LocalAddresses, Reference};
use sluice_plan::Event;
use sluice_plan::testing::deletion;
use sluice_source::{Problem, Wants, kinds};

/// All objects that a plan needs.
pub fn wants() -> Wants<Event> {
    Wants::new(Event::Notice)
        .want_all::<kinds::Service>(Event::Service)
        .want_all::<kinds::EndpointSlice>(Event::EndpointSlice)
        .want_all::<kinds::Node>(Event::Node)
        .want_all::<kinds::ServiceCidr>(Event::ServiceCidr)
}

/// A source that gets whole states of the cluster and returns the differences as events.
pub(super) struct Objects {
    known: BTreeMap<Reference, Event>,
    machine: BTreeSet<IpAddr>,
}

impl Objects {
    /// Without objects. `machine`: the node's addresses, which the agent would read from the kernel.
    pub(super) fn new(machine: BTreeSet<IpAddr>) -> Self {
        Self {
            known: BTreeMap::new(),
            machine,
        }
    }

    /// Replaces the cluster's objects; returns the events of the differences.
    pub(super) fn change(&mut self, manifests: &str) -> Vec<Event> {
        let new: BTreeMap<Reference, Event> = parse(manifests)
            .into_iter()
            .filter_map(|it| Some((it.reference()?, it)))
            .collect();
        let deleted = self.known.iter().filter(|(key, _)| !new.contains_key(key));
        let mut events: Vec<Event> = deleted.map(|(_, it)| deletion(it)).collect();
        let changed = new
            .iter()
            .filter(|(key, object)| self.known.get(key) != Some(object));
        events.extend(changed.map(|(_, object)| object.clone()));
        self.known = new;
        events
    }

    /// The events of a source that has just started: all addresses and objects, then that these are all.
    pub(super) fn all(&self) -> Vec<Event> {
        let addresses = Event::LocalAddresses(LocalAddresses {
            all: self.machine.clone(),
            default_route: Vec::new(),
        });
        let objects = self.known.values().cloned();
        [addresses]
            .into_iter()
            .chain(objects)
            .chain([Event::SYNCED])
            .collect()
    }
}

/// The objects of a manifest, read as `sluice proxy --manifests` reads them.
///
/// # Panics
/// When the reader refuses any of them: manifests of scenarios have no errors. Slices may come before
/// their Service.
pub(super) fn parse(manifests: &str) -> Vec<Event> {
    let dir = tempfile::tempdir().expect("there is room for a temporary directory");
    std::fs::write(dir.path().join("scenario.yaml"), manifests)
        .expect("a file fits into a directory that was just made");
    let loaded = sluice_source::load(dir.path(), &wants()).expect("the directory was just made");
    let is_early = |it: &&Problem| it.message.starts_with("no file has a Service");
    let problems = loaded.problems.iter().filter(|it| !is_early(it));
    let problems: Vec<String> = problems.map(|it| format!("{it:?}")).collect();
    assert!(
        problems.is_empty(),
        "scenario: {}\nin\n{manifests}",
        problems.join("\n")
    );
    loaded.events
}
