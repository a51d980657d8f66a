//! Nodes and ServiceCIDRs.

use std::collections::HashSet;

use ipnet::IpNet;
use sluice_model::{IpFamily, Node, ServiceCidr};

use super::address::{parse_ip, parse_net, routable};
use super::fault::{At, Converted, Faults};
use super::{Interner, name};
use crate::api;

/// Converts a Node. A bad address is left out; a bad pod range refuses the Node.
pub(crate) fn node(api: &api::Node, names: &mut Interner) -> Converted<Node> {
    let mut faults = Faults::new(names);
    let name = name::cluster_scoped(&api.metadata, &mut faults);
    let zone = api.metadata.labels.zone.as_deref();
    let zone = zone.filter(|it| !it.is_empty()).and_then(|text| {
        let at = At::top("metadata.labels");
        faults.text(
            at.field("topology.kubernetes.io/zone"),
            name::label_value(text),
        )
    });
    let addresses = addresses(&api.status.addresses, &mut faults);
    let pod_cidrs = match (&*api.spec.pod_cidrs, api.spec.pod_cidr.as_deref()) {
        ([], None | Some("")) => Vec::new(),
        ([], Some(one)) => {
            let net = faults.take(At::top("spec.podCIDR"), parse_net(one));
            net.into_iter().collect()
        }
        (list, _) => nets(list, At::top("spec.podCIDRs"), &mut faults),
    };
    let object = name.map(|name| Node {
        name,
        addresses,
        zone,
        pod_cidrs,
        leaving: is_leaving(api),
    });
    faults.finish(object)
}

/// The taint of the cluster autoscaler's last step (KEP-3836).
const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

fn is_leaving(api: &api::Node) -> bool {
    let mut taints = api.spec.taints.iter();
    api.metadata.deletion_timestamp.is_some()
        || taints.any(|it| it.key.as_deref() == Some(AUTOSCALER_TAINT))
}

/// Every InternalIP, then every ExternalIP: the first of a family is primary.
fn addresses(list: &[api::NodeAddress], faults: &mut Faults<'_>) -> Vec<std::net::IpAddr> {
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

/// Converts a ServiceCIDR: one range, or one of each family.
pub(crate) fn service_cidr(api: &api::ServiceCidr, names: &mut Interner) -> Converted<ServiceCidr> {
    let mut faults = Faults::new(names);
    let name = name::cluster_scoped(&api.metadata, &mut faults);
    let at = At::top("spec.cidrs");
    if api.spec.cidrs.is_empty() {
        faults.refuse(at, "is required");
    }
    let cidrs = nets(&api.spec.cidrs, at, &mut faults);
    let object = name.map(|name| ServiceCidr { name, cidrs });
    faults.finish(object)
}

fn nets(list: &[String], at: At<'_>, faults: &mut Faults<'_>) -> Vec<IpNet> {
    let nets: Vec<IpNet> = (list.iter().enumerate())
        .filter_map(|(i, text)| faults.take(at.index(i), parse_net(text)))
        .collect();
    let v6 = (nets.iter()).filter(|it| IpFamily::of_net(it) == IpFamily::V6);
    let v6 = v6.count();
    if v6 > 1 || nets.len() - v6 > 1 {
        faults.refuse(at, "more than one range of a family");
    }
    nets
}
