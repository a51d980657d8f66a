//! Nodes.

use std::sync::LazyLock;

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Interner};
use crate::kind::Kind;
use crate::manifest::Fields;

/// A Node's status describes a whole machine, so only its outer fields are checked.
static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: configSource externalID podCIDR podCIDRs providerID taints unschedulable
spec.taints[]: effect key timeAdded value",
    )
});

impl Kind for api::Node {
    type Model = sluice_model::Node;
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/nodes";
    /// Only one Node is followed.
    const OBJECTS: &'static str = "Node";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        convert::node(self, names)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}
