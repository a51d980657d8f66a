//! ServiceCIDR (networking.k8s.io/v1, v1beta1).

use serde::Deserialize;

use super::{ObjectMeta, nullable};

/// A ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceCidrSpec,
}

/// `spec` of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// `cidrs`.
    #[serde(deserialize_with = "nullable")]
    pub cidrs: Vec<String>,
}
