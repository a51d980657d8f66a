//! The objects of a scenario's cluster: manifests in, events out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_model::{Event, LocalAddresses, Object, ObjectKey};

/// What a source knows that is told whole states of the cluster.
pub(super) struct Objects {
    known: BTreeMap<ObjectKey, Object>,
    machine: BTreeSet<IpAddr>,
}

impl Objects {
    /// None. `machine`: the addresses that the agent would find.
    pub(super) fn new(machine: BTreeSet<IpAddr>) -> Self {
        Self {
            known: BTreeMap::new(),
            machine,
        }
    }

    /// The cluster's objects are these from now on: what a source says of it.
    pub(super) fn change(&mut self, manifests: &str) -> Vec<Event> {
        let new: BTreeMap<ObjectKey, Object> = parse(manifests)
            .into_iter()
            .map(|it| (it.key(), it))
            .collect();
        let gone = self.known.keys().filter(|key| !new.contains_key(key));
        let mut events: Vec<Event> = gone.cloned().map(Event::Delete).collect();
        let changed = new
            .iter()
            .filter(|(key, object)| self.known.get(key) != Some(object));
        events.extend(changed.map(|(_, object)| Event::Set(object.clone())));
        self.known = new;
        events
    }

    /// Everything, as a source says it that has just started.
    pub(super) fn all(&self) -> Vec<Event> {
        let addresses = Event::LocalAddresses(LocalAddresses {
            all: self.machine.clone(),
            default_route: Vec::new(),
        });
        let objects = self.known.values().cloned().map(Event::Set);
        [addresses]
            .into_iter()
            .chain(objects)
            .chain([Event::Synced])
            .collect()
    }
}

/// The objects of a manifest, read the way `sluice proxy --manifests` reads them.
///
/// # Panics
/// When something is wrong with any of them: a scenario means what it says.
pub(super) fn parse(manifests: &str) -> Vec<Object> {
    let dir = tempfile::tempdir().expect("there is room for a temporary directory");
    std::fs::write(dir.path().join("scenario.yaml"), manifests)
        .expect("a file fits into a directory that was just made");
    let loaded = sluice_source::load(dir.path()).expect("the directory was just made");
    let problems: Vec<String> = loaded.problems.iter().map(|it| format!("{it:?}")).collect();
    assert!(
        problems.is_empty(),
        "scenario: {}\nin\n{manifests}",
        problems.join("\n")
    );
    loaded.objects
}
