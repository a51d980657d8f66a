//! Settings of the store, and options of writes.

use super::{Admission, AdmitAll, Journal};

/// Parts and limits of a [`Store`](super::Store).
pub struct Settings {
    /// Most changes that a collection keeps, for watches and
    /// [`changes_since`](super::Store::changes_since). Each costs about 10 kB for a Pod. All collections together keep
    /// changes with 32 MiB of JSON.
    pub history: usize,
    pub admission: Box<dyn Admission>,
    /// Written before a change is visible; `None`: the objects are in memory only.
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

/// Whether a write is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    #[default]
    Stored,
    /// The answer shows the result, nothing is stored (`dryRun=All`).
    DryRun,
}

/// `DeleteOptions` of `meta.k8s.io/v1`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Grace period of a Pod in seconds; `None`: that of its spec, or 30.
    pub grace: Option<u32>,
    /// Only an object with this uid is deleted.
    pub uid: Option<String>,
    /// Only an object with this version is deleted.
    pub resource_version: Option<String>,
    pub propagation: Propagation,
    pub effect: Effect,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// What the finalizers `orphan` and `foregroundDeletion` of the object say; as `Background` without them.
    #[default]
    Unspecified,
    /// Dependents are deleted after the owner.
    Background,
    /// Dependents are deleted before the owner.
    Foreground,
    /// Dependents stay, without their owner reference.
    Orphan,
}
