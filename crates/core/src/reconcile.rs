//! Makes the kernel hold what the plan says, and knows what the kernel holds.
//!
//! A sync writes the difference for the service ports that changed. After a failure, or when told
//! to [`Reconciler::forget`], the next one reads the kernel first and compares everything.

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::backend::{ApplyError, Backend, BackendError, Scale};
use crate::delta::Delta;
use crate::plan::{NodePlan, Plan, PortKey, PortPlan};
use stage::{SharedCounts, Step};

/// A backend and the belief about what its kernel holds.
///
/// Law: the belief is replaced only after the kernel acknowledged a write. When a write may or
/// may not have happened there is no belief, and the next sync observes.
#[derive(Debug)]
pub struct Reconciler<B: Backend> {
    backend: B,
    believed: Option<Belief<B>>,
    scale: Scale,
    refused: BTreeMap<PortKey, String>,
}

/// What the kernel holds for one service port.
#[derive(Debug)]
struct Held<B: Backend> {
    plan: Arc<PortPlan>,
    placement: B::Placement,
}

impl<B: Backend> Clone for Held<B> {
    fn clone(&self) -> Self {
        Self {
            plan: self.plan.clone(),
            placement: self.placement.clone(),
        }
    }
}

/// What the kernel holds.
#[derive(Debug)]
struct Belief<B: Backend> {
    ports: BTreeMap<PortKey, Held<B>>,
    standing: Vec<(B::Key, B::Object)>,
    /// What `standing` was rendered for; `None` before the first sync.
    standing_for: Option<(NodePlan, Scale)>,
    shared: SharedCounts<B::Key>,
    /// Endpoints, once per frontend.
    endpoints: usize,
}

impl<B: Backend> Default for Belief<B> {
    fn default() -> Self {
        Self {
            ports: BTreeMap::new(),
            standing: Vec::new(),
            standing_for: None,
            shared: SharedCounts::default(),
            endpoints: 0,
        }
    }
}

/// What a sync did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The kernel was read first.
    pub full: bool,
    /// Objects added.
    pub added: usize,
    /// Objects replaced.
    pub replaced: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Service ports that the kernel refused in this sync, with its explanation.
    pub refused: Vec<(PortKey, String)>,
}

impl Report {
    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.added + self.replaced + self.deleted == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "added {}, replaced {}, deleted {}",
            self.added, self.replaced, self.deleted
        )
    }
}

impl<B: Backend> Reconciler<B> {
    /// Nothing is known about the kernel yet: the first sync observes.
    pub fn new(backend: B) -> Self {
        Self {
            backend,
            believed: None,
            scale: Scale::Small,
            refused: BTreeMap::new(),
        }
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Drops the belief: the next sync reads the kernel and repairs what differs.
    pub fn forget(&mut self) {
        self.believed = None;
    }

    /// Service ports that the kernel holds in an older form or not at all, and why.
    pub fn refused(&self) -> &BTreeMap<PortKey, String> {
        &self.refused
    }

    /// Makes the kernel hold `plan`. `changed` are the service ports that differ from the plan of
    /// the last sync, whether or not that one succeeded.
    ///
    /// A service port that the kernel refuses keeps what it had, is reported, and is tried again
    /// by the next full sync; all others are programmed.
    ///
    /// # Errors
    ///
    /// The kernel could not be read or written at all, or refuses what every Service needs.
    pub fn sync(
        &mut self,
        plan: &Plan,
        changed: &BTreeSet<PortKey>,
    ) -> Result<Report, BackendError> {
        match self.believed.take() {
            None => self.sync_full(plan),
            Some(belief) => self.sync_changed(plan, changed, belief),
        }
    }

    fn sync_full(&mut self, plan: &Plan) -> Result<Report, BackendError> {
        let observed = self.backend.observe()?;
        self.refused.clear();
        let endpoints = plan.ports.values().map(|it| weight(it)).sum();
        self.grow(endpoints);
        let standing = self.backend.standing(&plan.node, self.scale);
        let mut steps = vec![Step::Standing {
            old: Vec::new(),
            new: standing,
        }];
        for (key, port) in &plan.ports {
            let seen = (!observed.is_empty()).then(|| self.backend.recover(port, &observed));
            let previous = seen.as_ref().map(|placement| (&**port, placement));
            let placement = self.backend.place(port, previous);
            let new = Some(Held {
                plan: port.clone(),
                placement,
            });
            steps.push(Step::Port {
                key: key.clone(),
                old: None,
                new,
            });
        }
        let mut spared = BTreeSet::new();
        let mut report = Report {
            full: true,
            ..Report::default()
        };
        loop {
            let belief = Belief {
                standing_for: Some((plan.node.clone(), self.scale)),
                ..Belief::default()
            };
            let staged = stage::stage(&self.backend, &steps, &belief.shared);
            let mut delta = Delta::between(&observed, staged.desired);
            delta.spare(&spared);
            match self.apply(&delta, &mut steps, &mut report)? {
                Applied::Done => {
                    self.believe(belief, steps, staged.shared);
                    return Ok(report);
                }
                Applied::Without(left_out) => {
                    let left_out = left_out.iter();
                    let objects = left_out.flat_map(|step| step.after(&self.backend));
                    spared.extend(objects.map(|(key, _)| key));
                }
            }
        }
    }

    fn sync_changed(
        &mut self,
        plan: &Plan,
        changed: &BTreeSet<PortKey>,
        mut belief: Belief<B>,
    ) -> Result<Report, BackendError> {
        let mut steps = Vec::with_capacity(changed.len() + 1);
        let mut endpoints = belief.endpoints;
        for key in changed {
            let held = belief.ports.get(key);
            let new = plan.ports.get(key);
            endpoints =
                endpoints + new.map_or(0, |it| weight(it)) - held.map_or(0, |it| weight(&it.plan));
            steps.push(self.port_step(key, held, new));
        }
        self.grow(endpoints);
        let standing_for = (plan.node.clone(), self.scale);
        if belief.standing_for.as_ref() != Some(&standing_for) {
            let standing = self.backend.standing(&plan.node, self.scale);
            steps.push(Step::Standing {
                old: belief.standing.clone(),
                new: standing,
            });
        }
        belief.standing_for = Some(standing_for);
        let mut report = Report::default();
        loop {
            let staged = stage::stage(&self.backend, &steps, &belief.shared);
            let delta = Delta::between(&staged.observed, staged.desired);
            match self.apply(&delta, &mut steps, &mut report)? {
                Applied::Done => {
                    self.believe(belief, steps, staged.shared);
                    return Ok(report);
                }
                Applied::Without(_) => {}
            }
        }
    }

    fn port_step(
        &self,
        key: &PortKey,
        held: Option<&Held<B>>,
        new: Option<&Arc<PortPlan>>,
    ) -> Step<B> {
        let new = new.map(|port| {
            let previous = held.map(|it| (&*it.plan, &it.placement));
            Held {
                plan: port.clone(),
                placement: self.backend.place(port, previous),
            }
        });
        Step::Port {
            key: key.clone(),
            old: held.cloned(),
            new,
        }
    }

    /// Applies a delta; takes the steps that the kernel refused out of `steps`.
    fn apply(
        &mut self,
        delta: &Delta<B::Key, B::Object>,
        steps: &mut Vec<Step<B>>,
        report: &mut Report,
    ) -> Result<Applied<B>, BackendError> {
        let refused = match delta.is_empty() {
            true => Ok(()),
            false => self.backend.apply(delta),
        };
        let refused = match refused {
            Ok(()) => {
                report.added = delta.add.len();
                report.replaced = delta.replace.len();
                report.deleted = delta.delete.len();
                return Ok(Applied::Done);
            }
            Err(ApplyError::Failed(error)) => return Err(error),
            Err(ApplyError::Refused(refused)) => refused,
        };
        let reasons: BTreeMap<_, _> = refused.iter().map(|it| (&it.key, &it.reason)).collect();
        let (left_out, kept): (Vec<_>, Vec<_>) = std::mem::take(steps)
            .into_iter()
            .partition(|step| step.guilty(&self.backend, &reasons).is_some());
        let is_standing = |it: &Step<B>| matches!(it, Step::Standing { .. });
        if left_out.is_empty() || left_out.iter().any(is_standing) {
            return Err(BackendError {
                operation: "apply".into(),
                reason: ApplyError::Refused(refused).to_string(),
                source: None,
            });
        }
        for step in &left_out {
            if let Step::Port { key, .. } = step
                && let Some(reason) = step.guilty(&self.backend, &reasons)
            {
                self.refused.insert(key.clone(), reason.clone());
                report.refused.push((key.clone(), reason));
            }
        }
        *steps = kept;
        Ok(Applied::Without(left_out))
    }

    /// The kernel holds what the steps say.
    fn believe(
        &mut self,
        mut belief: Belief<B>,
        steps: Vec<Step<B>>,
        shared: SharedCounts<B::Key>,
    ) {
        belief.shared.add(shared);
        for step in steps {
            match step {
                Step::Standing { new, .. } => belief.standing = new,
                Step::Port { key, new, .. } => {
                    self.refused.remove(&key);
                    let after = new.as_ref().map_or(0, |it| weight(&it.plan));
                    let old = match new {
                        Some(held) => belief.ports.insert(key, held),
                        None => belief.ports.remove(&key),
                    };
                    let before = old.map_or(0, |it| weight(&it.plan));
                    belief.endpoints = belief.endpoints + after - before;
                }
            }
        }
        self.believed = Some(belief);
    }

    /// Never shrinks: a plan that swings around the limit must not be prepared for again and
    /// again.
    fn grow(&mut self, endpoints: usize) {
        if endpoints >= B::LARGE {
            self.scale = Scale::Large;
        }
    }
}

enum Applied<B: Backend> {
    Done,
    /// Refused: to be staged again without these.
    Without(Vec<Step<B>>),
}

/// Endpoints of a service port, once per frontend.
fn weight(port: &PortPlan) -> usize {
    let pools = [&port.cluster, &port.local].into_iter().flatten();
    let endpoints: usize = pools.map(|it| it.endpoints().len()).sum();
    endpoints * port.frontends.len()
}
