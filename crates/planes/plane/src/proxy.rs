//! The service proxy of a node: planner and reconciler, without sources, servers and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::Event;
use sluice_plan::settings::Settings;
use sluice_plan::{Changes, Plan, Planner, PortKey, PortPlan};
use sluice_reconcile::{BackendError, Reconciler, Report};

use crate::{Scale, Scene, ServiceBackend};

/// Takes in events, and makes the kernel carry out the plan with each [`sync`](Self::sync).
#[derive(Debug)]
pub struct Proxy<B: ServiceBackend> {
    planner: Planner,
    reconciler: Reconciler<B>,
    scale: Scale,
    /// Service ports that differ from the plan of the last successful sync, with that plan.
    pending: Superseded,
}

/// Service ports whose plan was replaced, with the former plan; `None` for a new port.
pub type Superseded = BTreeMap<PortKey, Option<Arc<PortPlan>>>;

/// A sync that succeeded.
#[derive(Debug)]
pub struct Synced {
    /// The number of objects written.
    pub report: Report,
    /// The plans that were replaced.
    pub superseded: Superseded,
}

impl<B: ServiceBackend> Proxy<B> {
    /// A proxy without Services.
    pub fn new(settings: Settings, backend: B) -> Self {
        Self {
            planner: Planner::new(settings),
            reconciler: Reconciler::new(backend),
            scale: Scale::Small,
            pending: BTreeMap::new(),
        }
    }

    /// The planner.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The plan as of the last [`replan`](Self::replan).
    pub fn plan(&self) -> &Plan {
        self.planner.plan()
    }

    /// The reconciler.
    pub fn reconciler(&self) -> &Reconciler<B> {
        &self.reconciler
    }

    /// The reconciler, to be changed.
    pub fn reconciler_mut(&mut self) -> &mut Reconciler<B> {
        &mut self.reconciler
    }

    /// Replaces the settings.
    pub fn configure(&mut self, settings: Settings) {
        self.planner.configure(settings);
    }

    /// Takes in an event. Cheap: [`replan`](Self::replan) does the work.
    pub fn absorb(&mut self, event: Event) {
        self.planner.absorb(event);
    }

    /// Plans the service ports that events changed.
    pub fn replan(&mut self) -> Changes {
        let changes = self.planner.replan();
        for (key, change) in &changes.ports {
            let old = || change.old.clone();
            self.pending.entry(key.clone()).or_insert_with(old);
        }
        changes
    }

    /// The service ports that the next [`sync`](Self::sync) writes.
    pub fn pending(&self) -> impl Iterator<Item = &PortKey> {
        self.pending.keys()
    }

    /// Makes the kernel hold the plan.
    ///
    /// # Errors
    ///
    /// The kernel could not be read or written. The next sync reads the kernel.
    pub fn sync(&mut self) -> Result<Synced, BackendError> {
        let plan = self.planner.plan();
        // Never back to small: a plan around the limit must not rewrite every rule again and again.
        if plan.endpoints >= B::LARGE {
            self.scale = Scale::Large;
        }
        let scene = Scene {
            node: plan.node.clone(),
            scale: self.scale,
        };
        let changed: BTreeSet<PortKey> = self.pending.keys().cloned().collect();
        let report = self.reconciler.sync(&scene, &plan.ports, &changed)?;
        let superseded = std::mem::take(&mut self.pending);
        Ok(Synced { report, superseded })
    }
}
