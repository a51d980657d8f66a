//! Namespaces.

use std::sync::LazyLock;

use serde::Deserialize;
use sluice_model as model;

use crate::api::{AllLabels, Identity, ObjectMeta, nullable};
use crate::convert::{At, Converted, Faults, Interner, name};
use crate::kind::Kind;
use crate::manifest::Fields;

/// A Namespace. It exists until it is gone, also while it is being deleted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta<AllLabels>,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: finalizers
status: conditions phase",
    )
});

impl Kind for Namespace {
    type Model = sluice_model::Namespace;
    const PLURAL: &'static str = "namespaces";
    const OBJECTS: &'static str = "Namespaces";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut faults = Faults::new(names);
        let name = name::label(self.metadata.name.as_deref().unwrap_or_default());
        let name = faults.text(At::top("metadata.name"), name);
        let labels = name::labels(&self.metadata, &mut faults);
        faults.finish(name.map(|name| model::Namespace { name, labels }))
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}
