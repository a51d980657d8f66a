//! The service proxy of a node: planner and reconciler, without sources, servers and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_model::NamespacedName;
use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plan::{Changes, Plan, Planner, PortKey, PortPlan};
use sluice_reconcile::{BackendError, Portion, Reconciler, Report};

use crate::part::{Begun, Queue};
use crate::{Scale, Scene, ServiceBackend};

/// What a part should take, planning included. It is the same in every mode, because it is the wait of other Services' changes;
/// how much fits in differs, and follows from [`ServiceBackend::PART`] and from what the last part took.
const PART_TAKES: Duration = Duration::from_millis(30);
/// The smallest part is this fraction of the largest, and not smaller than [`FEW`].
const SMALLEST: usize = 8;
/// The first part is this fraction of the largest, and not smaller than [`FEW`].
const UNTRIED: usize = 4;
/// Each write costs something, however small it is.
const FEW: usize = 512;

/// Takes in events, and makes the kernel carry out the plan with [`sync`](Self::sync).
#[derive(Debug)]
pub struct Proxy<B: ServiceBackend> {
    planner: Planner,
    reconciler: Reconciler<B>,
    scale: Scale,
    /// Service ports that differ from the plan of the last successful sync.
    waiting: Queue,
    /// Service ports of which only the beginning is written.
    begun: Begun,
    /// What a part costs at most.
    portion: Portion,
    /// What the last part cost.
    cost: usize,
    /// The last part had only small changes.
    large_is_next: bool,
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
            waiting: Queue::default(),
            begun: Begun::default(),
            portion: Portion::new(
                part(B::PART, SMALLEST),
                part(B::PART, UNTRIED),
                B::PART,
                PART_TAKES,
            ),
            cost: 0,
            large_is_next: false,
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
    /// is not planned, and else as many as are written at once.
    pub fn replan(&mut self) -> Changes {
        let changes = if self.reconciler.is_resync_due() {
            self.planner.replan()
        } else {
            self.planner.replan_part(self.portion.limit())
        };
        for (key, change) in &changes.ports {
            let (old, new) = (change.old.as_ref(), change.new.as_ref());
            self.waiting.put(key, old, new, B::cost);
        }
        changes
    }

    /// The service ports that are not written, or not to the end.
    pub fn waiting(&self) -> impl Iterator<Item = &PortKey> + Clone {
        self.waiting.keys().chain(self.begun.ports().keys())
    }

    /// Whether anything about a Service is not planned, or not written to the end.
    pub fn is_left(&self, service: &NamespacedName) -> bool {
        let mut begun = PortKey::of_service(self.begun.ports(), service);
        self.planner.is_unplanned(service) || self.waiting.has(service) || begun.next().is_some()
    }

    /// Whether anything is not planned, or not written to the end.
    pub fn is_any_left(&self) -> bool {
        self.planner.unplanned().next().is_some() || self.waiting().next().is_some()
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
        let reconciler = &mut self.reconciler;
        if reconciler.is_resync_due() || reconciler.reshapes_owners(&scene) {
            let all = self.waiting.keys().cloned().collect();
            let report = reconciler.sync(&scene, &plan.ports, &all, usize::MAX)?;
            self.cost = 0;
            return Ok(self.written(report, &all));
        }
        let limit = self.portion.limit();
        let small = (!self.large_is_next).then(|| self.waiting.small(limit, &self.begun));
        let part = match small.filter(|it| !it.is_empty()) {
            Some(part) => {
                self.large_is_next = true;
                part
            }
            None => {
                self.large_is_next = false;
                if reconciler.has_begun() {
                    let report = reconciler.go_on(limit)?;
                    self.cost = writes(&report).min(limit);
                    return Ok(self.written(report, &BTreeSet::new()));
                }
                self.waiting.large(limit)
            }
        };
        let cost = self.waiting.cost(&part);
        let is_divided = cost > limit;
        let writes_at_most = if is_divided { limit } else { usize::MAX };
        let had_begun = reconciler.has_begun();
        let report = reconciler.sync(&scene, &plan.ports, &part, writes_at_most)?;
        self.cost = if is_divided {
            writes(&report).min(limit)
        } else {
            cost
        };
        if reconciler.has_begun() && !had_begun {
            let begun = self.waiting.take(&part);
            self.begun.extend(begun);
            return Ok(self.written(report, &BTreeSet::new()));
        }
        Ok(self.written(report, &part))
    }

    /// A write succeeded, of all that these service ports need, and perhaps of what was begun.
    fn written(&mut self, report: Report, part: &BTreeSet<PortKey>) -> Synced {
        let mut written = if !self.reconciler.has_begun() {
            std::mem::take(&mut self.begun)
        } else {
            Begun::default()
        };
        written.extend(self.waiting.take(part));
        let superseded = written.into_ports();
        Synced { report, superseded }
    }

    /// Tells how long the last part took, with its planning: the next ones become smaller or larger.
    pub fn took(&mut self, time: Duration) {
        self.portion.took(self.cost, time);
    }
}

/// What was written, as [`ServiceBackend::cost`] counts: what is replaced goes and comes.
fn writes(report: &Report) -> usize {
    report.added + 2 * report.replaced + report.deleted
}

fn part(largest: usize, fraction: usize) -> usize {
    (largest / fraction).max(largest.min(FEW))
}
