//! Knows what the kernel holds and writes the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backend::{Backend, BackendError, Objects, Refusal, Upkeep};
use crate::begun::Begun;
use crate::stage::{Held, SharedCounts, Step, stage};
use crate::{Delta, Report};

/// The plans of all owners.
pub type Wanted<B> = BTreeMap<<B as Backend>::Owner, Arc<<B as Backend>::Plan>>;

/// A backend and the belief about what its kernel holds.
///
/// Law: the belief is replaced after the kernel acknowledged a write. After an error there is no
/// belief, and the next sync observes.
#[derive(Debug)]
pub struct Reconciler<B: Backend> {
    backend: B,
    believed: Option<Belief<B>>,
    /// The kernel may hold something else than believed.
    is_doubtful: bool,
    refusals: BTreeMap<B::Owner, Refusal>,
}

/// The objects that we believe the kernel holds.
#[derive(Debug)]
struct Belief<B: Backend> {
    owners: BTreeMap<B::Owner, Held<B>>,
    standing: Objects<B>,
    /// The scene that the standing objects were rendered for.
    scene: Arc<B::Scene>,
    shared: SharedCounts<B::Key>,
    /// What remains to be written of the owners that are believed to have their plans; `None` nearly always.
    begun: Option<Begun<B>>,
}

impl<B: Backend> Belief<B> {
    /// Takes the next part of what is begun.
    fn take_part(&mut self, limit: usize) -> Delta<B::Key, B::Object> {
        let Some(begun) = &mut self.begun else {
            return Delta::default();
        };
        let delta = begun.next(&mut self.shared, limit);
        self.begun.take_if(|it| it.is_done());
        delta
    }

    /// Records how many owners render these shared objects.
    fn count(&mut self, shared: SharedCounts<B::Key>) {
        for (key, count) in shared {
            match count {
                0 => self.shared.remove(&key),
                _ => self.shared.insert(key, count),
            };
        }
    }
}

impl<B: Backend> Reconciler<B> {
    /// Nothing is known about the kernel yet: the first sync observes.
    pub fn new(backend: B) -> Self {
        Self {
            backend,
            believed: None,
            is_doubtful: false,
            refusals: BTreeMap::new(),
        }
    }

    pub fn backend(&self) -> &B {
        &self.backend
    }

    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Whether the next sync reads the kernel first.
    pub fn is_resync_due(&self) -> bool {
        self.believed.is_none() || self.is_doubtful
    }

    /// Whether a periodic resync would find nothing: no other program changed anything.
    pub fn is_undisturbed(&mut self) -> bool {
        self.believed.is_some() && self.backend.is_undisturbed()
    }

    /// Drops the belief: the next sync reads the kernel and repairs what differs.
    pub fn forget(&mut self) {
        self.believed = None;
        self.is_doubtful = false;
    }

    /// The next sync reads the kernel and repairs what differs, as after [`forget`](Self::forget). What we believe tells
    /// which differences are another program's.
    pub fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Whether the next sync renders every owner again, because the scene is another one.
    pub fn reshapes_owners(&self, scene: &B::Scene) -> bool {
        let believed = self.believed.as_ref();
        B::SCENE_SHAPES_OWNERS && believed.is_some_and(|it| *it.scene != *scene)
    }

    /// Owners who do not get what they want because the machine lacks something.
    pub fn refusals(&self) -> &BTreeMap<B::Owner, Refusal> {
        &self.refusals
    }

    /// Asks again for what the machine lacks and some owner needs. If it has some of it by now, the
    /// next sync reads the kernel.
    ///
    /// # Errors
    ///
    /// As of [`Backend::probe`].
    pub fn probe(&mut self) -> Result<(), BackendError> {
        if !self.refusals.is_empty() && self.backend.probe()? {
            self.forget();
        }
        Ok(())
    }

    /// Does work that had to wait; see [`Backend::upkeep`].
    ///
    /// # Errors
    ///
    /// As of [`Backend::upkeep`]; the next sync reads the kernel.
    pub fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        if self.is_resync_due() {
            return Ok(Upkeep::Nothing);
        }
        let result = self.backend.upkeep();
        match result {
            Ok(Upkeep::Resync(_)) => self.forget(),
            Err(_) => self.doubt(),
            Ok(_) => {}
        }
        result
    }

    /// Whether only the beginning of a large difference is written: [`go_on`](Self::go_on) writes more of it.
    pub fn has_begun(&self) -> bool {
        let believed = self.believed.as_ref();
        believed.is_some_and(|it| it.begun.is_some())
    }

    /// Writes the next part of a large difference, of about `limit` objects.
    ///
    /// # Errors
    ///
    /// The kernel could not be written. The next sync reads it.
    pub fn go_on(&mut self, limit: usize) -> Result<Report, BackendError> {
        let Some(mut belief) = self.believed.take() else {
            return Ok(Report::default());
        };
        let delta = belief.take_part(limit);
        self.write(&delta)?;
        self.believed = Some(belief);
        Ok(Report::of(false, &delta))
    }

    /// Makes the kernel hold what is wanted. `changed` are the owners whose plans differ from those
    /// of the last sync, whether or not that one succeeded. Some may be left to a later sync: new
    /// owners always, others unless [`reshapes_owners`](Self::reshapes_owners) says so.
    ///
    /// Of a difference of more than `limit` objects it may write only the beginning. Until the end of it
    /// ([`has_begun`](Self::has_begun)) these owners may not be in `changed`, other owners may come between its parts, and their
    /// differences are written whole.
    ///
    /// # Errors
    ///
    /// The kernel could not be read or written. The next sync reads the kernel.
    pub fn sync(
        &mut self,
        scene: &B::Scene,
        wanted: &Wanted<B>,
        changed: &BTreeSet<B::Owner>,
        limit: usize,
    ) -> Result<Report, BackendError> {
        let is_doubtful = std::mem::take(&mut self.is_doubtful);
        match self.believed.take() {
            Some(belief) if !is_doubtful => {
                self.sync_changed(scene, wanted, changed, limit, belief)
            }
            believed => self.resync(scene, wanted, changed, believed),
        }
    }

    /// Reads the kernel and writes everything in which it differs.
    fn resync(
        &mut self,
        scene: &B::Scene,
        wanted: &Wanted<B>,
        changed: &BTreeSet<B::Owner>,
        believed: Option<Belief<B>>,
    ) -> Result<Report, BackendError> {
        let observed = self.backend.observe()?;
        self.refusals.clear();
        let scene = Arc::new(scene.clone());
        let mut steps = Vec::with_capacity(wanted.len());
        for (owner, plan) in wanted {
            let seen = (!observed.is_empty()).then(|| self.backend.recover(plan, &observed));
            let previous = seen.as_ref().map(|placement| (&**plan, placement));
            steps.push(Step {
                owner: owner.clone(),
                old: None,
                new: self.held(owner, plan, previous, &scene),
            });
        }
        let mut belief = Belief {
            owners: BTreeMap::new(),
            standing: self.backend.standing(&scene),
            scene,
            shared: SharedCounts::new(),
            begun: None,
        };
        let own = believed.map(|it| self.own_changes(it, &belief, &steps, changed));
        let standing = Some((Objects::<B>::new(), belief.standing.clone()));
        let staged = stage(&self.backend, standing, &steps, &belief.shared);
        let is_fresh = observed.is_empty();
        let mut delta = Delta::between(observed, staged.desired);
        if !is_fresh {
            let added: Vec<&B::Key> = delta.add.iter().map(|(key, _)| key).collect();
            let mut found = self.backend.look_up(&added)?;
            delta.exist(&mut found);
        }
        self.write(&delta)?;
        belief.count(staged.shared);
        self.believe(belief, steps);
        let own = own.unwrap_or_default();
        let foreign = delta.keys().filter(|it| !own.contains(*it));
        Ok(Report {
            foreign: foreign.count(),
            ..Report::of(true, &delta)
        })
    }

    /// The objects that are to change because plans or the scene did, or were not written yet. `old` is the belief before
    /// these steps.
    fn own_changes(
        &self,
        mut old: Belief<B>,
        new: &Belief<B>,
        steps: &[Step<B>],
        changed: &BTreeSet<B::Owner>,
    ) -> BTreeSet<B::Key> {
        let mut unwritten = Delta::default();
        while old.begun.is_some() {
            unwritten.extend(old.take_part(usize::MAX));
        }
        let is_same_scene = *old.scene == *new.scene;
        let is_same = |step: &Step<B>| {
            let is_served = old.owners.contains_key(&step.owner);
            let is_kept = is_same_scene || !B::SCENE_SHAPES_OWNERS;
            is_kept && is_served == step.new.is_some() && !changed.contains(&step.owner)
        };
        let own = steps.iter().filter(|it| !is_same(it));
        let mut own: Vec<Step<B>> = own
            .map(|it| Step {
                owner: it.owner.clone(),
                old: None,
                new: it.new.clone(),
            })
            .collect();
        for step in &mut own {
            step.old = old.owners.remove(&step.owner);
        }
        let gone = changed.iter().filter_map(|owner| {
            Some(Step {
                old: Some(old.owners.remove(owner)?),
                owner: owner.clone(),
                new: None,
            })
        });
        own.extend(gone);
        let standing = (!is_same_scene).then(|| (old.standing, new.standing.clone()));
        let staged = stage(&self.backend, standing, &own, &old.shared);
        let delta = Delta::between(staged.observed, staged.desired);
        delta.keys().chain(unwritten.keys()).cloned().collect()
    }

    /// Writes the difference that these owners make.
    fn sync_changed(
        &mut self,
        scene: &B::Scene,
        wanted: &Wanted<B>,
        changed: &BTreeSet<B::Owner>,
        limit: usize,
        mut belief: Belief<B>,
    ) -> Result<Report, BackendError> {
        let is_same_scene = *belief.scene == *scene;
        let mut owners = changed.clone();
        if !is_same_scene && B::SCENE_SHAPES_OWNERS {
            owners.extend(belief.owners.keys().chain(self.refusals.keys()).cloned());
        }
        let scene = if is_same_scene {
            belief.scene.clone()
        } else {
            Arc::new(scene.clone())
        };
        let mut steps = Vec::with_capacity(owners.len());
        for owner in owners {
            let old = belief.owners.remove(&owner);
            let previous = old.as_ref().map(|it| (&*it.plan, &it.placement));
            let new = wanted.get(&owner);
            if new.is_none() {
                self.refusals.remove(&owner);
            }
            let new = new.and_then(|plan| self.held(&owner, plan, previous, &scene));
            steps.push(Step { owner, old, new });
        }
        let standing = (!is_same_scene).then(|| {
            let new = self.backend.standing(&scene);
            let old = std::mem::replace(&mut belief.standing, new.clone());
            belief.scene = scene;
            (old, new)
        });
        let is_alone = belief.begun.is_none();
        let limit = if is_alone { limit } else { usize::MAX };
        let begun = (is_same_scene || !B::SCENE_SHAPES_OWNERS)
            .then(|| Begun::new(&self.backend, &belief.scene, &steps))
            .flatten();
        let staged = if begun.is_some() { &[] } else { &steps[..] };
        let staged = stage(&self.backend, standing, staged, &belief.shared);
        let mut delta = Delta::between(staged.observed, staged.desired);
        belief.count(staged.shared);
        if let Some(mut begun) = begun {
            // What belongs to no owner comes before them: one of them may lead to what it needs no more.
            self.write(&delta)?;
            let part = begun.next(&mut belief.shared, limit);
            self.write(&part)?;
            delta.extend(part);
            if is_alone {
                belief.begun = Some(begun).filter(|it| !it.is_done());
            }
        } else {
            self.write(&delta)?;
        }
        self.believe(belief, steps);
        Ok(Report::of(false, &delta))
    }

    /// The desired objects of an owner; `None` when all of them are refused.
    fn held(
        &mut self,
        owner: &B::Owner,
        plan: &Arc<B::Plan>,
        previous: Option<(&B::Plan, &B::Placement)>,
        scene: &Arc<B::Scene>,
    ) -> Option<Held<B>> {
        let placement = self.backend.place(plan, previous);
        let refusal = self.backend.lacks(scene, plan, &placement);
        let is_served = refusal.as_ref().is_none_or(|it| it.is_served);
        match refusal {
            Some(refusal) => self.refusals.insert(owner.clone(), refusal),
            None => self.refusals.remove(owner),
        };
        is_served.then(|| Held {
            scene: scene.clone(),
            plan: plan.clone(),
            placement,
        })
    }

    fn write(&mut self, delta: &Delta<B::Key, B::Object>) -> Result<(), BackendError> {
        if delta.is_empty() {
            Ok(())
        } else {
            self.backend.apply(delta)
        }
    }

    /// Records the steps as written.
    fn believe(&mut self, mut belief: Belief<B>, steps: Vec<Step<B>>) {
        let held = steps.into_iter();
        belief
            .owners
            .extend(held.filter_map(|it| Some((it.owner, it.new?))));
        self.believed = Some(belief);
    }
}
