//! A planner and the tables that follow it.

use sluice_nft::Kernel;
use sluice_policy_nftables::PolicyTables;
use sluice_policy_plan::testing::{NODE, World, events};
use sluice_policy_plan::{Event, Planner, UnknownPods};
use sluice_reconcile::{Reconciler, Report};

/// A group of nflog that nobody listens to.
pub(crate) const GROUP: u16 = 7;

/// The policies of the node [`NODE`] in a ruleset.
pub(crate) struct Enforced<K: Kernel> {
    pub(crate) planner: Planner,
    pub(crate) tables: Reconciler<PolicyTables<K>>,
}

impl<K: Kernel> Enforced<K> {
    pub(crate) fn on(kernel: K) -> Self {
        let mut tables = PolicyTables::on(kernel);
        tables.log_to(GROUP).unwrap();
        Self {
            planner: Planner::new(NODE.into()).with_unknown_pods(UnknownPods::Drop),
            tables: Reconciler::new(tables),
        }
    }

    /// Takes in these changes and writes what follows.
    pub(crate) fn change(&mut self, events: &[Event]) -> Report {
        self.planner.absorb_all(events);
        let changed = self.planner.take_changed();
        let plan = self.planner.plan();
        self.tables.sync(&(), plan, &changed, usize::MAX).unwrap()
    }

    /// The same in parts of about this many objects; returns how many there were.
    pub(crate) fn change_in_parts(&mut self, events: &[Event], limit: usize) -> usize {
        self.planner.absorb_all(events);
        let changed = self.planner.take_changed();
        let plan = self.planner.plan();
        self.tables.sync(&(), plan, &changed, limit).unwrap();
        let mut parts = 1;
        while self.tables.has_begun() {
            self.tables.go_on(limit).unwrap();
            parts += 1;
        }
        parts
    }

    pub(crate) fn set(&mut self, world: &World) -> Report {
        self.change(&events(world))
    }

    /// Reads the kernel and writes what differs.
    pub(crate) fn resync(&mut self) -> Report {
        self.tables.forget();
        self.change(&[])
    }
}
