//! Namespaces.

use std::sync::LazyLock;

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Interner};
use crate::kind::Kind;
use crate::manifest::Fields;

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: finalizers
status: conditions phase",
    )
});

impl Kind for api::Namespace {
    type Model = sluice_model::Namespace;
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/namespaces";
    const OBJECTS: &'static str = "Namespaces";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        convert::namespace(self, names)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}
