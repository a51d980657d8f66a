//! A kernel technology as a map of keyed objects.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Delta;

/// Keyed objects in the order in which they were rendered, no key twice.
pub type Objects<B> = Vec<(<B as Backend>::Key, <B as Backend>::Object)>;

/// A kernel technology: renders plans into objects, reads objects from the kernel, writes
/// differences.
///
/// Rendering is pure, total and per owner, so that the cost of an update is proportional to the
/// change. Objects of different owners have different keys, except *shared* objects: those are equal
/// wherever they are rendered, and stay as long as any owner renders them.
pub trait Backend {
    /// The unit of planning that objects belong to. A change is written for whole owners.
    type Owner: Ord + Clone + fmt::Debug;
    /// The plan of one owner.
    type Plan: fmt::Debug;
    /// Facts that the objects of all owners may depend on, beside their plans.
    type Scene: Clone + Eq + fmt::Debug;
    /// Identity of an object in the kernel. Displays as a person would name it.
    type Key: Ord + Clone + fmt::Display + fmt::Debug + Send + 'static;
    /// Everything that has to be true of an object.
    type Object: Clone + Eq + fmt::Debug + Send + 'static;
    /// What rendering has to remember of an owner so that its next change is small: slot numbers,
    /// ids.
    type Placement: Clone + fmt::Debug;

    /// Whether the objects of owners depend on the [`Scene`](Self::Scene): when it changes, all
    /// owners are rendered again.
    const SCENE_SHAPES_OWNERS: bool;

    /// Whether several owners may render an object of this key.
    fn is_shared(key: &Self::Key) -> bool;

    /// The objects that do not depend on any owner.
    fn standing(&self, scene: &Self::Scene) -> Objects<Self>;

    /// Chooses the places of an owner's objects, near to where they were before.
    fn place(
        &mut self,
        plan: &Self::Plan,
        previous: Option<(&Self::Plan, &Self::Placement)>,
    ) -> Self::Placement;

    /// The places that the kernel's objects show, so that a restart moves nothing. Need not be exact:
    /// [`place`](Self::place) goes on from here, and the delta repairs the rest.
    fn recover(
        &self,
        plan: &Self::Plan,
        observed: &BTreeMap<Self::Key, Self::Object>,
    ) -> Self::Placement;

    /// What this machine lacks of what an owner needs, as the last probe found; `None` when it lacks
    /// nothing. The machine is probed when the backend is opened, by [`observe`](Self::observe) and by
    /// [`probe`](Self::probe).
    fn lacks(
        &self,
        scene: &Self::Scene,
        plan: &Self::Plan,
        placement: &Self::Placement,
    ) -> Option<Refusal> {
        let _ = (scene, plan, placement);
        None
    }

    /// Asks again for what the machine lacked, without reading all objects; whether it has something
    /// of it by now. Then the next sync has to observe.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    fn probe(&mut self) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// The objects that carry out the plan of one owner.
    fn render(
        &self,
        scene: &Self::Scene,
        plan: &Self::Plan,
        placement: &Self::Placement,
    ) -> Objects<Self>;

    /// Whether it is certain that nobody else changed anything since the last
    /// [`observe`](Self::observe), so that a periodic resync is not needed.
    fn is_undisturbed(&mut self) -> bool {
        false
    }

    /// Every object of ours that the kernel holds. Probes what the machine lacks.
    ///
    /// A backend whose kernel lists large sets slowly may leave out objects that have no effect
    /// because no other object leads to them. [`look_up`](Self::look_up) finds those whose keys are
    /// wanted. Of the others [`upkeep`](Self::upkeep) tells later, by asking for a resync, and the
    /// next `observe` shows them.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked, or an object that is not ours is in the way.
    fn observe(&mut self) -> Result<BTreeMap<Self::Key, Self::Object>, BackendError>;

    /// The objects of these keys that the last [`observe`](Self::observe) left out. Called before
    /// the first write after it, with every key that is to be added.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    fn look_up(
        &mut self,
        keys: &[&Self::Key],
    ) -> Result<BTreeMap<Self::Key, Self::Object>, BackendError> {
        let _ = keys;
        Ok(BTreeMap::new())
    }

    /// Does work that had to wait: a draining real server, a question to a kernel that does not tell
    /// of changes, another probe of a family, a listing of what [`observe`](Self::observe) left out.
    /// Called after each sync and when the returned time has passed.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked or told, or holds something else than was written: the next
    /// sync observes.
    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        Ok(Upkeep::Nothing)
    }

    /// The difference that these owners make in objects that are not shared, in parts, each computed when it is its turn.
    /// After each of them every packet is treated as before or as it is to be, while changes of other owners come between.
    /// Shared objects that these owners need are there before the first part and until the last one. The scene is the one that
    /// both times are of.
    ///
    /// A backend without it compares everything at once: one whose owners are small, or who cannot say what depends on what.
    fn parts(
        &self,
        scene: &Self::Scene,
        changes: &[Change<Self::Plan, Self::Placement>],
    ) -> Option<Box<dyn Parts<Self::Key, Self::Object>>> {
        let _ = (scene, changes);
        None
    }

    /// The shared objects of an owner, each once, as [`render`](Self::render) has them.
    fn render_shared(
        &self,
        scene: &Self::Scene,
        plan: &Self::Plan,
        placement: &Self::Placement,
    ) -> Objects<Self> {
        let mut objects = self.render(scene, plan, placement);
        objects.retain(|(key, _)| Self::is_shared(key));
        objects
    }

    /// The time that it takes to write an object, in that of a small one.
    fn weight(object: &Self::Object) -> usize {
        let _ = object;
        1
    }

    /// Writes a delta: in one transaction where the kernel has transactions, else in an order that
    /// never breaks what works.
    ///
    /// # Errors
    ///
    /// The kernel refused something, or could not be told. What it holds now is unknown.
    fn apply(&mut self, delta: &Delta<Self::Key, Self::Object>) -> Result<(), BackendError>;
}

/// The plan and the placement of an owner before and after a change; `None` without objects.
#[derive(Clone, Debug)]
pub struct Change<Plan, Placement> {
    pub old: Option<(Arc<Plan>, Placement)>,
    pub new: Option<(Arc<Plan>, Placement)>,
}

/// A difference that is written in parts.
pub trait Parts<K, O>: fmt::Debug + Send {
    /// The next part, of about `limit` objects, perhaps without any; `None` after the last.
    fn next(&mut self, limit: usize) -> Option<Delta<K, O>>;
}

/// Why an owner does not get what it wants: the machine lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the machine lacks, and the consequence for the owner, for a person.
    pub reason: String,
    /// A stand-in is written in place of what is lacking. If `false`, nothing of the owner is.
    pub is_served: bool,
}

/// The work that is left after [`Backend::upkeep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// No work is left.
    Nothing,
    /// Call again after this time.
    After(Duration),
    /// The next sync has to observe, for this reason, although no other program changed anything.
    Resync(String),
}

impl Upkeep {
    /// Both: a resync comes before every wait, a short wait before a long one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Resync(reason), _) | (_, Self::Resync(reason)) => Self::Resync(reason),
            (Self::After(one), Self::After(another)) => Self::After(one.min(another)),
            (Self::Nothing, it) | (it, Self::Nothing) => it,
        }
    }
}

impl From<Option<Duration>> for Upkeep {
    fn from(wait: Option<Duration>) -> Self {
        wait.map_or(Self::Nothing, Self::After)
    }
}

/// Reading or writing the kernel failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct BackendError {
    /// The operation with its object: `list table ip sluice`.
    pub operation: String,
    /// Why it failed, in the kernel's words where it has any.
    pub reason: String,
    /// The error beneath.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl BackendError {
    /// Says what `error` means: this operation failed.
    pub fn new(operation: impl Into<String>, error: impl Error + Send + Sync + 'static) -> Self {
        Self {
            operation: operation.into(),
            reason: error.to_string(),
            source: Some(Box::new(error)),
        }
    }
}
