//! The service proxy of a node: planner and reconciler, without sources, servers and clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::{Changes, Plan, Planner, PortKey, PortPlan};
use sluice_reconcile::{BackendError, Reconciler, Report};

use crate::part::{Choice, Waiting};
use crate::{Scale, Scene, ServiceBackend};

/// Work of one part of the planning, in endpoints and objects to write: a fraction of a second.
const PLANNED: usize = 65_536;

/// Takes in events, and makes the kernel carry out the plan with [`sync`](Self::sync).
#[derive(Debug)]
pub struct Proxy<B: ServiceBackend> {
    planner: Planner,
    reconciler: Reconciler<B>,
    scale: Scale,
    /// Service ports that differ from the plan of the last successful sync.
    waiting: BTreeMap<PortKey, Waiting>,
    /// How many service ports ever began to wait.
    waited: u64,
    /// The last part was without the service port that waits longest.
    oldest_is_next: bool,
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
            waiting: BTreeMap::new(),
            waited: 0,
            oldest_is_next: false,
        }
    }

    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The plan as of the last [`replan`](Self::replan).
    pub fn plan(&self) -> &Plan {
        self.planner.plan()
    }

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

    /// Plans the service ports that events changed: all of them before a full sync, which deletes what
    /// is not planned, and else a part. [`Planner::is_dirty`] says whether there is more.
    pub fn replan(&mut self) -> Changes {
        let changes = if self.reconciler.is_resync_due() {
            self.planner.replan()
        } else {
            self.planner.replan_part(PLANNED)
        };
        for (key, change) in &changes.ports {
            self.waiting.entry(key.clone()).or_insert_with(|| {
                self.waited += 1;
                Waiting {
                    old: change.old.clone(),
                    since: self.waited,
                }
            });
        }
        changes
    }

    /// The service ports that wait to be written.
    pub fn waiting(&self) -> impl Iterator<Item = &PortKey> {
        self.waiting.keys()
    }

    /// Makes the kernel hold the plan: all of it when the kernel is read first, else a part, and
    /// [`waiting`](Self::waiting) tells what is left. Whoever calls this takes in events between two
    /// parts, so that a small change does not wait for a large one.
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
        let choice = Choice {
            waiting: &self.waiting,
            plan,
            cost: B::cost,
            limit: if self.reconciler.is_resync_due() {
                usize::MAX
            } else {
                B::PART
            },
            with_oldest: self.oldest_is_next,
            with_held: self.reconciler.reshapes_owners(&scene),
        };
        let part = choice.choose();
        let report = self.reconciler.sync(&scene, &plan.ports, &part)?;
        let written = part.into_iter();
        let superseded = written.filter_map(|key| Some((self.waiting.remove(&key)?.old, key)));
        let superseded = superseded.map(|(old, key)| (key, old)).collect();
        self.oldest_is_next = !self.oldest_is_next && !self.waiting.is_empty();
        Ok(Synced { report, superseded })
    }
}
