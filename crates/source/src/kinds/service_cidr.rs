//! ServiceCIDRs.

use std::sync::LazyLock;

use serde::Deserialize;
use sluice_model as model;

use crate::api::{Identity, ObjectMeta, nullable};
use crate::convert::address::nets;
use crate::convert::{At, Converted, Faults, Interner, name};
use crate::kind::Kind;
use crate::manifest::Fields;

/// A ServiceCIDR.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: ServiceCidrSpec,
}

/// `spec` of a ServiceCIDR.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceCidrSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) cidrs: Vec<String>,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: cidrs
status: conditions
status.conditions[]: lastTransitionTime message observedGeneration reason status type",
    )
});

impl Kind for ServiceCidr {
    type Model = sluice_model::ServiceCidr;
    const VERSIONS: &'static [&'static str] =
        &["networking.k8s.io/v1", "networking.k8s.io/v1beta1"];
    const PLURAL: &'static str = "servicecidrs";
    const OBJECTS: &'static str = "ServiceCIDRs";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut faults = Faults::new(names);
        let name = name::cluster_scoped(&self.metadata, &mut faults);
        let at = At::top("spec.cidrs");
        if self.spec.cidrs.is_empty() {
            faults.refuse(at, "is required");
        }
        let cidrs = nets(&self.spec.cidrs, at, &mut faults);
        let object = name.map(|name| model::ServiceCidr { name, cidrs });
        faults.finish(object)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}
