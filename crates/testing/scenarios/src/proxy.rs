//! The proxy of a scenario without its data plane: manifests in, plan out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_model::{Event, LocalAddresses, Object, ObjectKey};
use sluice_plan::settings::Settings;
use sluice_plan::{Changes, Plan, Planner};

/// A planner that is told whole states of the cluster, and turns them into events.
pub(super) struct Proxy {
    planner: Planner,
    objects: BTreeMap<ObjectKey, Object>,
}

impl Proxy {
    /// `machine`: the addresses that the agent would find.
    pub(super) fn new(settings: Settings, machine: BTreeSet<IpAddr>) -> Self {
        let mut planner = Planner::new(settings);
        planner.absorb(Event::LocalAddresses(LocalAddresses {
            all: machine,
            default_route: Vec::new(),
        }));
        Self {
            planner,
            objects: BTreeMap::new(),
        }
    }

    pub(super) fn plan(&self) -> &Plan {
        self.planner.plan()
    }

    /// The cluster's objects are these from now on.
    pub(super) fn set(&mut self, manifests: &str) -> Changes {
        let new: BTreeMap<ObjectKey, Object> = parse(manifests)
            .into_iter()
            .map(|it| (it.key(), it))
            .collect();
        for key in self.objects.keys().filter(|key| !new.contains_key(key)) {
            self.planner.absorb(Event::Delete(key.clone()));
        }
        for (key, object) in &new {
            if self.objects.get(key) != Some(object) {
                self.planner.absorb(Event::Set(object.clone()));
            }
        }
        self.planner.absorb(Event::Synced);
        self.objects = new;
        self.planner.replan()
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
