//! Settings of the store and of its writes.

use super::{Admission, AdmitAll, Journal};

/// Settings of a [`Store`](super::Store).
pub struct Settings {
    /// Changes kept per kind, for watches and [`changes_since`](super::Store::changes_since). Each
    /// costs about ten kilobytes for a Pod.
    pub history: usize,
    /// Completes and refuses writes.
    pub admission: Box<dyn Admission>,
    /// Where changes are written before they are visible; `None` for memory only.
    pub journal: Option<Box<dyn Journal>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            history: 5_000,
            admission: Box::new(AdmitAll),
            journal: None,
        }
    }
}

/// Whether a write takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// It does.
    #[default]
    Stored,
    /// The answer says what would come of it (`dryRun=All`).
    DryRun,
}

/// `DeleteOptions` of `meta.k8s.io/v1`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds that a Pod has; `None` for what its spec says, or 30.
    pub grace: Option<u32>,
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must have this version.
    pub resource_version: Option<String>,
    /// What becomes of dependents.
    pub propagation: Propagation,
    /// Whether it takes place.
    pub effect: Effect,
}

/// What becomes of the objects that name a deleted one as their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after the owner.
    #[default]
    Background,
    /// They are deleted before the owner.
    Foreground,
    /// They stay and forget the owner.
    Orphan,
}
