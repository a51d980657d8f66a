//! What the kernel is believed to hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::{Backend, Objects, Scene};
use crate::reconcile::kept::Kept;
use crate::reconcile::stage::{Had, SharedCounts};
use crate::{PortKey, PortPlan};

/// What the kernel holds for one service port.
#[derive(Debug)]
pub(super) struct Held<B: Backend> {
    /// As of when it was written; see [`Backend::SCENE_SHAPES_PORTS`].
    pub(super) scene: Arc<Scene>,
    pub(super) plan: Arc<PortPlan>,
    pub(super) placement: B::Placement,
}

impl<B: Backend> Clone for Held<B> {
    fn clone(&self) -> Self {
        Self {
            scene: self.scene.clone(),
            plan: self.plan.clone(),
            placement: self.placement.clone(),
        }
    }
}

impl<B: Backend> Held<B> {
    pub(super) fn render(&self, backend: &B) -> Objects<B> {
        backend.render(&self.scene, &self.plan, &self.placement)
    }
}

/// What the kernel holds.
#[derive(Debug)]
pub(super) struct Belief<B: Backend> {
    pub(super) ports: BTreeMap<PortKey, Held<B>>,
    pub(super) standing: Vec<(B::Key, B::Object)>,
    /// What it was rendered for; `None` before the first sync.
    pub(super) standing_for: Option<Arc<Scene>>,
    pub(super) shared: SharedCounts<B::Key>,
    /// What refused service ports have, in place of what `ports` says.
    pub(super) kept: Kept<B>,
    /// Endpoints, once per frontend.
    pub(super) endpoints: usize,
}

impl<B: Backend> Default for Belief<B> {
    fn default() -> Self {
        Self {
            ports: BTreeMap::new(),
            standing: Vec::new(),
            standing_for: None,
            shared: SharedCounts::default(),
            kept: Kept::default(),
            endpoints: 0,
        }
    }
}

impl<B: Backend> Belief<B> {
    pub(super) fn had(&self, port: &PortKey) -> Had<B> {
        match (self.kept.of(port), self.ports.get(port)) {
            (Some(objects), _) => Had::Found(objects.clone()),
            (None, Some(held)) => Had::Planned(held.clone()),
            (None, None) => Had::Nothing,
        }
    }
}

/// Endpoints of a service port, once per frontend.
pub(super) fn weight(port: &PortPlan) -> usize {
    let pools = [&port.cluster, &port.local].into_iter().flatten();
    let endpoints: usize = pools.map(|it| it.endpoints().len()).sum();
    endpoints * port.frontends.len()
}
