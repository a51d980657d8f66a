//! The service proxy of a node without anything around it: no sources, no servers, no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::Event;
use sluice_plan::settings::Settings;
use sluice_plan::{Changes, Plan, Planner, PortKey, PortPlan};
use sluice_reconcile::{BackendError, Reconciler, Report};

use crate::{Scale, Scene, ServiceBackend};

/// What sources say goes in, and the kernel is in line with it after each [`sync`](Self::sync).
#[derive(Debug)]
pub struct Proxy<B: ServiceBackend> {
    planner: Planner,
    reconciler: Reconciler<B>,
    scale: Scale,
    /// Service ports that differ from the plan of the last successful sync, with that plan.
    pending: Superseded,
}

/// Service ports whose plan was replaced, with the plan that was; `None` for one that had none.
pub type Superseded = BTreeMap<PortKey, Option<Arc<PortPlan>>>;

/// A sync that succeeded.
#[derive(Debug)]
pub struct Synced {
    /// What it wrote.
    pub report: Report,
    /// The plans that the kernel no longer carries out.
    pub superseded: Superseded,
}

impl<B: ServiceBackend> Proxy<B> {
    /// A proxy that knows nothing yet.
    pub fn new(settings: Settings, backend: B) -> Self {
        Self {
            planner: Planner::new(settings),
            reconciler: Reconciler::new(backend),
            scale: Scale::Small,
            pending: BTreeMap::new(),
        }
    }

    /// What is planned.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The plan as of the last [`replan`](Self::replan).
    pub fn plan(&self) -> &Plan {
        self.planner.plan()
    }

    /// What the kernel is believed to hold.
    pub fn reconciler(&self) -> &Reconciler<B> {
        &self.reconciler
    }

    /// The same, to be told what to do next.
    pub fn reconciler_mut(&mut self) -> &mut Reconciler<B> {
        &mut self.reconciler
    }

    /// Other choices of the operator from now on.
    pub fn configure(&mut self, settings: Settings) {
        self.planner.configure(settings);
    }

    /// Takes in what a source says. Cheap: the work waits for [`replan`](Self::replan).
    pub fn absorb(&mut self, event: Event) {
        self.planner.absorb(event);
    }

    /// Plans what is dirty, and only that.
    pub fn replan(&mut self) -> Changes {
        let changes = self.planner.replan();
        for (key, change) in &changes.ports {
            let old = || change.old.clone();
            self.pending.entry(key.clone()).or_insert_with(old);
        }
        changes
    }

    /// The service ports that the next [`sync`](Self::sync) writes anew.
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
        // Never shrinks: a plan that swings around the limit must not be prepared for again and
        // again.
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
