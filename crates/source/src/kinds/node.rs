//! Nodes.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::Deserialize;
use sluice_model as model;

use crate::api::{Identity, ObjectMeta, nullable};
use crate::convert::address::{nets, parse_ip, parse_net, routable};
use crate::convert::{At, Converted, Faults, Interner, name};
use crate::kind::Kind;
use crate::manifest::Fields;

/// A Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    /// `podCIDR`: the first of `podCIDRs`.
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", deserialize_with = "nullable")]
    pub(crate) pod_cidrs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) taints: Vec<Taint>,
}

/// One of `spec.taints`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub(crate) key: Option<String>,
}

/// `status` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) addresses: Vec<NodeAddress>,
}

/// One of `status.addresses`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAddress {
    /// `type`: InternalIP, ExternalIP, Hostname, ...
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) address: Option<String>,
}

/// A Node's status describes a whole machine, so only its outer fields are checked.
static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: configSource externalID podCIDR podCIDRs providerID taints unschedulable
spec.taints[]: effect key timeAdded value",
    )
});

impl Kind for Node {
    type Model = sluice_model::Node;
    const PLURAL: &'static str = "nodes";
    /// Only one Node is followed.
    const OBJECTS: &'static str = "Node";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    /// A bad address is left out; a bad pod range refuses the Node.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut faults = Faults::new(names);
        let name = name::cluster_scoped(&self.metadata, &mut faults);
        let zone = self.metadata.labels.zone.as_deref();
        let zone = zone.filter(|it| !it.is_empty()).and_then(|text| {
            let at = At::top("metadata.labels");
            faults.text(
                at.field("topology.kubernetes.io/zone"),
                name::label_value(text),
            )
        });
        let addresses = addresses(&self.status.addresses, &mut faults);
        let pod_cidrs = match (&*self.spec.pod_cidrs, self.spec.pod_cidr.as_deref()) {
            ([], None | Some("")) => Vec::new(),
            ([], Some(one)) => {
                let net = faults.take(At::top("spec.podCIDR"), parse_net(one));
                net.into_iter().collect()
            }
            (list, _) => nets(list, At::top("spec.podCIDRs"), &mut faults),
        };
        let object = name.map(|name| model::Node {
            name,
            addresses,
            zone,
            pod_cidrs,
            leaving: is_leaving(self),
        });
        faults.finish(object)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}

/// The taint of the cluster autoscaler's last step (KEP-3836).
const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

fn is_leaving(api: &Node) -> bool {
    let mut taints = api.spec.taints.iter();
    api.metadata.deletion_timestamp.is_some()
        || taints.any(|it| it.key.as_deref() == Some(AUTOSCALER_TAINT))
}

/// Every InternalIP, then every ExternalIP: the first of a family is primary.
fn addresses(list: &[NodeAddress], faults: &mut Faults<'_>) -> Vec<std::net::IpAddr> {
    let at = At::top("status.addresses");
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for kind in ["InternalIP", "ExternalIP"] {
        for (i, entry) in list.iter().enumerate() {
            if entry.kind.as_deref() != Some(kind) {
                continue;
            }
            let text = entry.address.as_deref().unwrap_or_default();
            match parse_ip(text).and_then(routable) {
                Ok(ip) if seen.insert(ip) => found.push(ip),
                Ok(_) => {}
                Err(why) => {
                    let at = at.index(i);
                    faults.note(at.field("address"), format!("{why}: ignored"));
                }
            }
        }
    }
    found
}
