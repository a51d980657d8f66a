//! The API objects, cut to the fields that we need. Unknown fields are ignored. A field without a comment has the
//! meaning of the API's field of the same name.
//!
//! They derive `Deserialize`, so they come from manifests as well as from JSON.
//! `null` means absent, as in Go. Numbers are `i64`: the range is the conversion's to judge, so
//! that it can name the field.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// All labels of an object, for selectors. `null` is the empty text, as in Go.
pub type AllLabels = BTreeMap<String, Option<String>>;

/// `metadata` of every object. `L` is the type of the labels and `A` that of the annotations: [`AllLabels`], or a
/// type with only the labels and annotations that we read.
#[derive(Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound = "L: Default + Deserialize<'de>, A: Default + Deserialize<'de>"
)]
pub struct ObjectMeta<L = Labels, A = Annotations> {
    pub name: Option<String>,
    /// `namespace`; `None` for cluster-scoped objects and where `default` is meant.
    pub namespace: Option<String>,
    /// `creationTimestamp`, RFC 3339.
    pub creation_timestamp: Option<String>,
    /// `deletionTimestamp`, RFC 3339: the object is being deleted.
    pub deletion_timestamp: Option<String>,
    /// `resourceVersion`, for list and watch.
    pub resource_version: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub labels: L,
    #[serde(deserialize_with = "nullable")]
    pub annotations: A,
}

/// The fields of `metadata` that identify an object and its version.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub name: Option<&'a str>,
    pub namespace: Option<&'a str>,
    /// `resourceVersion`.
    pub version: Option<&'a str>,
}

impl<L, A> ObjectMeta<L, A> {
    /// The name, namespace and version of the object.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            name: self.name.as_deref(),
            namespace: self.namespace.as_deref(),
            version: self.resource_version.as_deref(),
        }
    }
}

/// The labels a proxy looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// The Service that an EndpointSlice belongs to.
    #[serde(rename = "kubernetes.io/service-name")]
    pub(crate) service_name: Option<String>,
    /// Another proxy serves this Service.
    #[serde(rename = "service.kubernetes.io/service-proxy-name")]
    pub(crate) proxy_name: Option<String>,
    /// Present, with any value: proxies leave the object alone.
    #[serde(rename = "service.kubernetes.io/headless")]
    pub(crate) headless: Option<String>,
    /// `true`: the endpoints of an Endpoints object are not mirrored into slices.
    #[serde(rename = "endpoints.kubernetes.io/skip-mirror")]
    pub(crate) skip_mirror: Option<String>,
    /// The controller that wrote an Endpoints object.
    #[serde(rename = "endpoints.kubernetes.io/managed-by")]
    pub(crate) endpoints_managed_by: Option<String>,
    /// The zone of a Node.
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub(crate) zone: Option<String>,
}

/// The annotations a proxy looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// When the change happened that this version of an EndpointSlice reports, RFC 3339.
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub(crate) trigger_time: Option<String>,
    /// An Endpoints object that is the lock of a leader election.
    #[serde(rename = "control-plane.alpha.kubernetes.io/leader")]
    pub(crate) leader: Option<String>,
    /// How IPVS chooses among the endpoints of a Service.
    #[serde(rename = "sluice.dev/ipvs-scheduler")]
    pub(crate) ipvs_scheduler: Option<String>,
    /// How eBPF programs choose among the endpoints of a Service.
    #[serde(rename = "sluice.dev/lb-algorithm")]
    pub(crate) lb_algorithm: Option<String>,
    /// How eBPF programs send connections from outside to other nodes.
    #[serde(rename = "sluice.dev/forwarding")]
    pub(crate) forwarding: Option<String>,
    /// Shares of the endpoints of an EndpointSlice: `ADDRESS=WEIGHT,ADDRESS=WEIGHT`.
    #[serde(rename = "sluice.dev/endpoint-weights")]
    pub(crate) endpoint_weights: Option<String>,
}

/// Reads `null` as the default.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
