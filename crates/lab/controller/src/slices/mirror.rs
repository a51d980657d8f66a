//! EndpointSlices for Endpoints objects of Services without selector (`pkg/controller/endpointslicemirroring`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_model::IpFamily;

use super::desired::{Identity, PortKey, port_keys};
use super::endpoints::is_own;
use super::template::is_same_but_name;
use super::{MANAGED_BY, MIRRORS, SERVICE_NAME, SliceChanges, TRIGGERED};
use crate::{meta, selector};

/// Most addresses of one subset (`--mirroring-max-endpoints-per-subset` of kube-controller-manager).
const MAX_ADDRESSES: usize = 1000;
/// The label with `true` on Endpoints that are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are the lock of a leader election.
pub(super) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not copied to slices.
const NOT_COPIED: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    TRIGGERED,
];

/// Whether these Endpoints are mirrored. Those that a controller wrote are not, when the selector of their Service was taken away:
/// the slices with the same endpoints are still there. (Kubernetes makes a second set of slices then.)
pub(crate) fn is_mirrored(endpoints: &Endpoints, service: &Service) -> bool {
    selector::of(service).is_none()
        && meta::label(&endpoints.metadata, SKIP) != "true"
        && !is_own(endpoints)
        && meta::annotation(&endpoints.metadata, LEADER).is_empty()
}

type Groups = BTreeMap<(String, Vec<PortKey>), BTreeMap<Identity, Endpoint>>;

/// Compares the mirrored slices of `endpoints` with the desired ones. `existing` are the slices of this controller.
pub(crate) fn mirror(
    endpoints: &Endpoints,
    existing: &[&EndpointSlice],
    is_taken: impl Fn(&str) -> bool,
) -> SliceChanges {
    let mut changes = SliceChanges::default();
    let mut old: BTreeMap<_, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in existing {
        let group = (slice.address_type.clone(), port_keys(slice));
        old.entry(group).or_default().push(slice);
    }
    for ((family, ports), wanted) in groups(endpoints) {
        let group = (family.clone(), ports.clone());
        let mut old = old.remove(&group).unwrap_or_default().into_iter();
        let first = old.next();
        changes
            .delete
            .extend(old.filter_map(|it| it.metadata.name.clone()));
        let name = first.and_then(|it| it.metadata.name.clone());
        let name = name.unwrap_or_else(|| {
            let prefix = format!("{}-", meta::name(&endpoints.metadata));
            let new = |name: &str| {
                let mut new = changes.write.iter();
                new.any(|it: &EndpointSlice| it.metadata.name.as_deref() == Some(name))
            };
            let seed = meta::key(&endpoints.metadata).to_string();
            meta::generated_name(&prefix, &seed, |it| is_taken(it) || new(it))
        });
        let slice = EndpointSlice {
            address_type: family,
            endpoints: Some(wanted.into_values().collect()),
            metadata: metadata(endpoints, name),
            ports: Some(ports.iter().map(PortKey::port).collect()),
        };
        let is_same = first.is_some_and(|it| {
            is_same_but_name(it, &slice)
                && annotations(&it.metadata) == annotations(&slice.metadata)
        });
        if !is_same {
            changes.write.push(slice);
        }
    }
    let rest = old.into_values().flatten();
    changes
        .delete
        .extend(rest.filter_map(|it| it.metadata.name.clone()));
    changes
}

fn metadata(endpoints: &Endpoints, name: String) -> ObjectMeta {
    let from = &endpoints.metadata;
    let service = from.name.clone().unwrap_or_default();
    let mut labels = from.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), service);
    labels.insert(MANAGED_BY.to_owned(), MIRRORS.to_owned());
    let annotations = annotations(from);
    ObjectMeta {
        name: Some(name),
        namespace: from.namespace.clone(),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        owner_references: Some(vec![meta::owned_by("Endpoints", from)]),
        ..ObjectMeta::default()
    }
}

/// The annotations that slices inherit from Endpoints.
fn annotations(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    annotations
}

/// The endpoints by family and ports.
fn groups(endpoints: &Endpoints) -> Groups {
    let mut groups = Groups::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports = ports(subset);
        let addresses = |list: &Option<Vec<EndpointAddress>>, ready: bool| {
            let list = list.clone().unwrap_or_default();
            list.into_iter().map(move |it| (it, ready))
        };
        let all = addresses(&subset.addresses, true);
        let all = all.chain(addresses(&subset.not_ready_addresses, false));
        let valid = all.filter_map(|(it, ready)| {
            let ip: IpAddr = it.ip.parse().ok()?;
            Some((IpFamily::of(&ip), endpoint(it, ready)))
        });
        for (family, endpoint) in valid.take(MAX_ADDRESSES) {
            let group = groups.entry((family.to_string(), ports.clone()));
            let known = group.or_default().entry(Identity::of(&endpoint));
            // An address that is ready in one subset is ready.
            known.or_insert(endpoint);
        }
    }
    groups
}

fn endpoint(address: EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname,
        node_name: address.node_name,
        target_ref: address.target_ref,
        ..Endpoint::default()
    }
}

fn ports(subset: &EndpointSubset) -> Vec<PortKey> {
    let ports = subset.ports.iter().flatten().map(|it| EndpointPort {
        app_protocol: it.app_protocol.clone(),
        name: it.name.clone(),
        port: Some(it.port),
        protocol: it.protocol.clone(),
    });
    let slice = EndpointSlice {
        ports: Some(ports.collect()),
        ..EndpointSlice::default()
    };
    port_keys(&slice)
}
