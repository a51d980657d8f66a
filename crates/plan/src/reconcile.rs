//! Makes the kernel hold what the plan says, and knows what the kernel holds.
//!
//! A sync writes the difference for the service ports that changed. After a failure, or when told
//! to [`Reconciler::forget`], the next one reads the kernel first and compares everything.

mod belief;
mod kept;
mod partial;
mod report;
mod stage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::backend::{
    self, ApplyError, Backend, BackendError, Objects, RefusedObject, Scale, Scene, Upkeep,
};
use crate::delta::Delta;
use crate::{Plan, PortKey, PortPlan};
use belief::{Belief, Held, weight};
use partial::Partial;
pub use report::{Holds, Refusal, Report};
use stage::{Had, Round, SharedCounts, Step};

/// A backend and the belief about what its kernel holds.
///
/// Law: the belief is replaced only after the kernel acknowledged a write. When a write may or
/// may not have happened there is no belief, and the next sync observes.
#[derive(Debug)]
pub struct Reconciler<B: Backend> {
    backend: B,
    believed: Option<Belief<B>>,
    /// The last belief and what may have been written since, while there is no belief: tells
    /// whose objects are in the kernel.
    remembered: Option<Belief<B>>,
    attempted: BTreeMap<PortKey, Vec<Held<B>>>,
    scale: Scale,
    refused: BTreeMap<PortKey, Refusal>,
    left: Vec<String>,
    /// The next sync tries again what was refused.
    retries: bool,
}

impl<B: Backend> Reconciler<B> {
    /// Nothing is known about the kernel yet: the first sync observes.
    pub fn new(backend: B) -> Self {
        Self {
            backend,
            believed: None,
            remembered: None,
            attempted: BTreeMap::new(),
            scale: Scale::Small,
            refused: BTreeMap::new(),
            left: Vec::new(),
            retries: false,
        }
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Whether the next sync has to read the kernel first.
    pub fn is_full_due(&self) -> bool {
        self.believed.is_none()
    }

    /// Whether the kernel is known to hold what is believed, without reading it.
    pub fn is_undisturbed(&mut self) -> bool {
        self.believed.is_some() && self.backend.is_undisturbed()
    }

    /// Does what had to wait; see [`Backend::upkeep`]. After an error, and when it asks for it, the
    /// next sync reads the kernel.
    ///
    /// # Errors
    ///
    /// As of [`Backend::upkeep`].
    pub fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        if self.believed.is_none() {
            return Ok(Upkeep::Nothing);
        }
        let result = self.backend.upkeep();
        if matches!(result, Err(_) | Ok(Upkeep::Resync(_))) {
            self.forget();
        }
        result
    }

    /// Drops the belief: the next sync reads the kernel and repairs what differs.
    pub fn forget(&mut self) {
        if let Some(belief) = self.believed.take() {
            self.remembered = Some(belief);
        }
    }

    /// Has the next sync try again what was refused or not let go, without reading the kernel where
    /// the backend can do without.
    pub fn retry(&mut self) {
        match self.backend.retries_alone() && self.left.is_empty() {
            true => self.retries = true,
            false => self.forget(),
        }
    }

    /// Service ports that the kernel holds in part, in an older form or not at all, and why.
    pub fn refused(&self) -> &BTreeMap<PortKey, Refusal> {
        &self.refused
    }

    /// Objects that nobody wants and that the kernel did not let go, and why. Each full sync tries
    /// again.
    pub fn left(&self) -> &[String] {
        &self.left
    }

    /// Makes the kernel hold `plan`. `changed` are the service ports that differ from the plan of
    /// the last sync, whether or not that one succeeded.
    ///
    /// A service port that the kernel refuses keeps what it had, or gets what was not refused of
    /// it, where there are no transactions. It is reported, and tried again when it changes, by the
    /// next full sync and after [`retry`](Self::retry); all others are programmed.
    ///
    /// # Errors
    ///
    /// The kernel could not be read or written at all, or refuses what every Service needs.
    pub fn sync(
        &mut self,
        plan: &Plan,
        changed: &BTreeSet<PortKey>,
    ) -> Result<Report, BackendError> {
        let retries = std::mem::take(&mut self.retries);
        let Some(mut belief) = self.believed.take() else {
            return self.sync_full(plan);
        };
        let with_refused: BTreeSet<PortKey>;
        let changed = match retries {
            false => changed,
            true => {
                with_refused = self.refused.keys().chain(changed).cloned().collect();
                &with_refused
            }
        };
        match self.sync_changed(plan, changed, &mut belief) {
            Ok(report) => {
                self.believed = Some(belief);
                Ok(report)
            }
            Err(error) => {
                self.remembered = Some(belief);
                Err(error)
            }
        }
    }

    fn sync_full(&mut self, plan: &Plan) -> Result<Report, BackendError> {
        let observed = self.backend.observe()?;
        // Until all is written, nothing of what was refused is known to be solved.
        let refused = std::mem::take(&mut self.refused);
        let left = std::mem::take(&mut self.left);
        let result = self.repair(plan, &observed);
        if result.is_err() {
            (self.refused, self.left) = (refused, left);
        }
        result
    }

    /// Writes everything in which the plan differs from the kernel.
    fn repair(
        &mut self,
        plan: &Plan,
        observed: &BTreeMap<B::Key, B::Object>,
    ) -> Result<Report, BackendError> {
        let endpoints = plan.ports.values().map(|it| weight(it)).sum();
        self.grow(endpoints);
        let scene = Arc::new(self.scene(plan));
        let standing = self.backend.standing(&scene);
        let mut steps = vec![Step::Standing {
            old: Vec::new(),
            new: standing,
        }];
        for (key, port) in &plan.ports {
            let seen = (!observed.is_empty()).then(|| self.backend.recover(port, observed));
            let previous = seen.as_ref().map(|placement| (&**port, placement));
            let placement = self.backend.place(port, previous);
            let new = Some(Held {
                scene: scene.clone(),
                plan: port.clone(),
                placement,
            });
            steps.push(Step::Port {
                key: key.clone(),
                old: Had::Nothing,
                new,
            });
        }
        let mut round = Round {
            steps,
            refused: Vec::new(),
            partial: Vec::new(),
        };
        let mut belief = Belief {
            standing_for: Some(scene),
            ..Belief::default()
        };
        let mut report = Report {
            full: true,
            ..Report::default()
        };
        loop {
            let mut staged = stage::stage(&self.backend, &round, &belief.shared, &belief.kept);
            let refused = round.refused.iter();
            let kept = refused.flat_map(|step| step.before(&self.backend));
            let kept: Vec<_> = kept.map(|(key, _)| key).collect();
            let mut spared: BTreeSet<_> = kept.iter().cloned().collect();
            if !spared.is_empty() {
                for (key, _) in &staged.desired {
                    spared.remove(key);
                }
            }
            let desired = std::mem::take(&mut staged.desired);
            let mut delta = Delta::between(observed, desired);
            delta.spare(&spared);
            let write = Write {
                delta,
                observed,
                shared: &mut staged.shared,
            };
            if self.apply(write, &mut round, &mut report)? {
                let shared = kept.into_iter().filter(B::is_shared);
                shared.for_each(|key| belief.shared.count(key));
                self.believe(&mut belief, round, staged.shared);
                self.believed = Some(belief);
                self.remembered = None;
                self.attempted.clear();
                return Ok(report);
            }
            let shared = observed.iter().filter(|(key, _)| B::is_shared(key));
            let shared: Vec<_> = shared.map(|(key, it)| (key.clone(), it.clone())).collect();
            let mut found = self.found(&round.refused, observed);
            for step in &mut round.refused {
                if let Step::Port { key, old, .. } = step {
                    let mut objects = found.remove(key).unwrap_or_default();
                    // What it needs of these cannot be known if others wrote what is kept.
                    objects.extend(shared.iter().cloned());
                    *old = Had::Found(objects);
                }
            }
        }
    }

    /// What the kernel holds of each refused service port alone, as far as anyone can know. An object
    /// belongs to the one that had it, else to one that may have written it, else to the one that
    /// wants it: after a restart no more is known.
    fn found(
        &self,
        refused: &[Step<B>],
        observed: &BTreeMap<B::Key, B::Object>,
    ) -> BTreeMap<PortKey, Objects<B>> {
        let had = |owner: &PortKey| {
            let belief = self.remembered.iter();
            let had = belief.flat_map(|belief| {
                let step = Step::Port {
                    key: owner.clone(),
                    old: belief.had(owner),
                    new: None,
                };
                step.before(&self.backend)
            });
            had.collect::<Objects<B>>()
        };
        let attempted = |owner: &PortKey| {
            let attempted = self.attempted.get(owner).into_iter().flatten();
            attempted
                .flat_map(|held| held.render(&self.backend))
                .collect::<Objects<B>>()
        };
        let owners = || {
            refused
                .iter()
                .filter_map(|step| Some((step, step.owner()?)))
        };
        let all = owners().map(|(_, owner)| (owner, had(owner)));
        let all = all.chain(owners().map(|(_, owner)| (owner, attempted(owner))));
        let all = all.chain(owners().map(|(step, owner)| (owner, step.after(&self.backend))));
        let mut given = BTreeSet::new();
        let mut found: BTreeMap<PortKey, Objects<B>> = BTreeMap::new();
        for (owner, objects) in all {
            for (key, _) in objects {
                if !B::is_shared(&key)
                    && let Some(object) = observed.get(&key)
                    && given.insert(key.clone())
                {
                    let objects = found.entry(owner.clone()).or_default();
                    objects.push((key, object.clone()));
                }
            }
        }
        found
    }

    fn sync_changed(
        &mut self,
        plan: &Plan,
        changed: &BTreeSet<PortKey>,
        belief: &mut Belief<B>,
    ) -> Result<Report, BackendError> {
        let held = |key| belief.ports.get(key).map_or(0, |it| weight(&it.plan));
        let planned = |key| plan.ports.get(key).map_or(0, |it| weight(it));
        let more = changed.iter().map(planned).sum::<usize>();
        let less = changed.iter().map(held).sum::<usize>();
        self.grow(belief.endpoints + more - less);
        let before = belief.standing_for.clone();
        let scene = match &before {
            Some(scene) if scene.node == plan.node && scene.scale == self.scale => scene.clone(),
            _ => Arc::new(self.scene(plan)),
        };
        let is_other = before.is_none_or(|it| !Arc::ptr_eq(&it, &scene));
        let all: BTreeSet<PortKey>;
        let changed = match is_other && B::SCENE_SHAPES_PORTS {
            false => changed,
            true => {
                let known = belief.ports.keys().chain(plan.ports.keys());
                all = known.chain(changed).cloned().collect();
                &all
            }
        };
        let mut steps = Vec::with_capacity(changed.len() + 1);
        for key in changed {
            steps.push(self.port_step(key, belief, &scene, plan.ports.get(key)));
        }
        if is_other {
            let standing = self.backend.standing(&scene);
            steps.push(Step::Standing {
                old: belief.standing.clone(),
                new: standing,
            });
        }
        let mut round = Round {
            steps,
            refused: Vec::new(),
            partial: Vec::new(),
        };
        let mut report = Report::default();
        loop {
            let mut staged = stage::stage(&self.backend, &round, &belief.shared, &belief.kept);
            let desired = std::mem::take(&mut staged.desired);
            let write = Write {
                delta: Delta::between(&staged.observed, desired),
                observed: &staged.observed,
                shared: &mut staged.shared,
            };
            if self.apply(write, &mut round, &mut report)? {
                belief.standing_for = Some(scene);
                self.believe(belief, round, staged.shared);
                return Ok(report);
            }
        }
    }

    fn port_step(
        &mut self,
        key: &PortKey,
        belief: &Belief<B>,
        scene: &Arc<Scene>,
        new: Option<&Arc<PortPlan>>,
    ) -> Step<B> {
        let new = new.map(|port| {
            let previous = belief.ports.get(key).map(|it| (&*it.plan, &it.placement));
            Held {
                scene: scene.clone(),
                plan: port.clone(),
                placement: self.backend.place(port, previous),
            }
        });
        Step::Port {
            key: key.clone(),
            old: belief.had(key),
            new,
        }
    }

    /// Applies a delta. `false`: the kernel refused some steps, which are among `round.refused`
    /// now, and the others have to be staged again.
    fn apply(
        &mut self,
        write: Write<'_, B>,
        round: &mut Round<B>,
        report: &mut Report,
    ) -> Result<bool, BackendError> {
        let result = match write.delta.is_empty() {
            true => Ok(()),
            false => self.backend.apply(&write.delta),
        };
        match result {
            Ok(()) => {
                report.count(&write.delta);
                Ok(true)
            }
            Err(ApplyError::Failed(error)) => {
                self.attempt(&round.steps);
                Err(error)
            }
            Err(ApplyError::Refused(refused)) => {
                self.hold_back(&refused, round, report)?;
                Ok(false)
            }
            Err(ApplyError::Partly(refused)) => {
                self.take_rest(&refused, write, round, report)?;
                Ok(true)
            }
        }
    }

    /// Nothing was written: the steps to blame keep what they had.
    fn hold_back(
        &mut self,
        refused: &[RefusedObject<B::Key>],
        round: &mut Round<B>,
        report: &mut Report,
    ) -> Result<(), BackendError> {
        let guilty = stage::guilty(&self.backend, &round.steps, refused);
        if is_for_all(&round.steps, &guilty) || guilty.iter().all(Option::is_none) {
            return Err(refusal(refused));
        }
        let steps = std::mem::take(&mut round.steps);
        for (step, reason) in steps.into_iter().zip(guilty) {
            if let (Some(key), Some(reason)) = (step.owner(), reason) {
                let holds = Holds::Older;
                let refusal = Refusal {
                    reason: reason.clone(),
                    holds,
                };
                self.refused.insert(key.clone(), refusal);
                report.refused.push((key.clone(), reason));
                round.refused.push(step);
            } else {
                round.steps.push(step);
            }
        }
        Ok(())
    }

    /// All was written but these objects: the steps to blame have the rest.
    fn take_rest(
        &mut self,
        refused: &[RefusedObject<B::Key>],
        mut write: Write<'_, B>,
        round: &mut Round<B>,
        report: &mut Report,
    ) -> Result<(), BackendError> {
        let guilty = stage::guilty(&self.backend, &round.steps, refused);
        if is_for_all(&round.steps, &guilty) {
            self.attempt(&round.steps);
            return Err(refusal(refused));
        }
        let keys = refused.iter().map(|it| it.key.clone()).collect();
        write.delta.spare(&keys);
        report.count(&write.delta);
        let all = partial::of(&self.backend, &round.steps, guilty, &keys, write.observed);
        for partial in &all.ports {
            let of_port = (partial.owner.clone(), partial.reason.clone());
            report.refused.push(of_port);
        }
        round.partial = all.ports;
        all.uncounted.iter().for_each(|it| write.shared.forget(it));
        let left = refused.iter().filter(|it| all.left.contains(&it.key));
        self.left.extend(left.map(ToString::to_string));
        Ok(())
    }

    /// The kernel may hold what the steps say.
    fn attempt(&mut self, steps: &[Step<B>]) {
        for step in steps {
            if let Step::Port {
                key,
                new: Some(new),
                ..
            } = step
            {
                let attempts = self.attempted.entry(key.clone()).or_default();
                let last = attempts.last();
                if last.is_none_or(|it| !Arc::ptr_eq(&it.plan, &new.plan)) {
                    attempts.push(new.clone());
                }
            }
        }
    }

    /// The kernel holds what the steps say, but for what it refused, and what the refused ones had.
    fn believe(&mut self, belief: &mut Belief<B>, round: Round<B>, shared: SharedCounts<B::Key>) {
        belief.shared.add(shared);
        for step in &round.refused {
            if let Some(key) = step.owner() {
                belief.kept.put(key.clone(), step.before(&self.backend));
            }
        }
        if !belief.kept.is_empty() {
            for step in &round.steps {
                if let Some(key) = step.owner() {
                    belief.kept.forget(key);
                }
            }
            let written = round.steps.iter();
            for (key, _) in written.flat_map(|step| step.after(&self.backend)) {
                belief.kept.give_up(&key);
            }
        }
        for step in round.steps {
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
        for partial in round.partial {
            let Partial {
                owner,
                reason,
                objects,
            } = partial;
            let holds = Holds::Rest;
            self.refused
                .insert(owner.clone(), Refusal { reason, holds });
            belief.kept.put(owner, objects);
        }
    }

    fn scene(&self, plan: &Plan) -> Scene {
        Scene {
            node: plan.node.clone(),
            scale: self.scale,
        }
    }

    /// Never shrinks: a plan that swings around the limit must not be prepared for again and
    /// again.
    fn grow(&mut self, endpoints: usize) {
        if endpoints >= B::LARGE {
            self.scale = Scale::Large;
        }
    }
}

/// A delta, and what it was made from.
struct Write<'a, B: Backend> {
    delta: Delta<B::Key, B::Object>,
    /// What the kernel holds of it now.
    observed: &'a BTreeMap<B::Key, B::Object>,
    shared: &'a mut SharedCounts<B::Key>,
}

/// Whether what every Service needs is to blame.
fn is_for_all<B: Backend>(steps: &[Step<B>], guilty: &[Option<String>]) -> bool {
    let mut steps = steps.iter().zip(guilty);
    steps.any(|(step, reason)| reason.is_some() && step.owner().is_none())
}

fn refusal<K: fmt::Display>(refused: &[RefusedObject<K>]) -> BackendError {
    BackendError {
        operation: "apply".into(),
        reason: backend::describe(refused),
        source: None,
    }
}
