//! The engine of an address, which a changed Corefile replaces.

use std::sync::{Arc, PoisonError, RwLock};

use crate::engine::Engine;

/// Holds the present engine.
pub(crate) struct Slot(RwLock<Arc<Engine>>);

impl Slot {
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self(RwLock::new(engine)))
    }

    /// The present engine.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces the engine. Queries that wait keep the old one.
    pub(crate) fn replace(&self, engine: Arc<Engine>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = engine;
    }
}
