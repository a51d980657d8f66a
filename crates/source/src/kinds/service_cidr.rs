//! ServiceCidrs.

use std::sync::LazyLock;

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Interner};
use crate::kind::Kind;
use crate::manifest::Fields;

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: cidrs
status: conditions
status.conditions[]: lastTransitionTime message observedGeneration reason status type",
    )
});

impl Kind for api::ServiceCidr {
    type Model = sluice_model::ServiceCidr;
    const VERSIONS: &'static [&'static str] =
        &["networking.k8s.io/v1", "networking.k8s.io/v1beta1"];
    const PATH: &'static str = "/apis/networking.k8s.io/v1/servicecidrs";
    const OBJECTS: &'static str = "ServiceCIDRs";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        convert::service_cidr(self, names)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}
