//! EndpointSlices of one Service (`staging/src/k8s.io/endpointslice/reconciler.go`).

mod desired;
mod endpoints;
mod hints;
mod mirror;
mod pack;
mod template;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sluice_model::IpFamily;

use crate::meta;
use desired::PortKey;
use pack::Packing;
use template::Template;

pub(crate) use endpoints::{endpoints, goes_with_service, is_own};
pub(crate) use mirror::{is_mirrored, mirror};

/// Most endpoints of a slice (`--max-endpoints-per-slice` of kube-controller-manager).
pub(crate) const MAX_ENDPOINTS: usize = 100;
/// The writer of slices for Services with a selector.
pub(crate) const SLICES: &str = "endpointslice-controller.k8s.io";
/// The writer of slices for Endpoints objects.
pub(crate) const MIRRORS: &str = "endpointslicemirroring-controller.k8s.io";
/// The label with the Service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label with the writer of a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of the slices of a headless Service.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// The annotation with the time of the change that led to a slice, RFC 3339. Latency until the rules are written is
/// measured from it.
pub(crate) const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The writes to the slices of a Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SliceChanges {
    /// New slices, and slices with new content.
    pub(crate) write: Vec<EndpointSlice>,
    /// Names of slices to delete.
    pub(crate) delete: Vec<String>,
}

/// The zone of every node; `None` for a node without zone.
pub(crate) type Zones = BTreeMap<String, Option<String>>;

/// Compares the slices of `service` with the desired ones. `existing` are the slices of this controller; `is_taken`
/// tells which names in the namespace other slices have.
pub(crate) fn reconcile(
    service: &Service,
    pods: &[&Pod],
    zones: &Zones,
    existing: &[&EndpointSlice],
    is_taken: impl Fn(&str) -> bool,
) -> SliceChanges {
    let mut changes = SliceChanges::default();
    let families = families(service);
    for slice in existing {
        if !families
            .iter()
            .any(|it| slice.address_type == it.to_string())
        {
            changes.delete.extend(slice.metadata.name.clone());
        }
    }
    let template = Template::new(service);
    for family in families {
        let same = |it: &&&EndpointSlice| it.address_type == family.to_string();
        let existing: Vec<_> = existing.iter().filter(same).copied().collect();
        let packing = family_packing(service, pods, zones, family, &existing, &template);
        settle(
            packing,
            &existing,
            service,
            &template,
            &is_taken,
            &mut changes,
        );
    }
    changes
}

/// The desired slices of one family.
fn family_packing(
    service: &Service,
    pods: &[&Pod],
    zones: &Zones,
    family: IpFamily,
    existing: &[&EndpointSlice],
    template: &Template,
) -> Packing {
    let mut packing = Packing::default();
    let mut groups: BTreeMap<Vec<PortKey>, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in existing {
        if meta::is_owned_by(&slice.metadata, service) {
            groups
                .entry(desired::port_keys(slice))
                .or_default()
                .push(slice)
        } else {
            packing.delete.push((*slice).clone())
        }
    }
    for (ports, endpoints) in desired::groups(service, pods, zones, family) {
        let existing = groups.remove(&ports).unwrap_or_default();
        let empty = template.slice(family, &ports);
        packing.add(pack::pack(&existing, endpoints, &empty));
    }
    packing
        .delete
        .extend(groups.into_values().flatten().cloned());
    if packing.create.is_empty() && packing.delete.len() == existing.len() {
        // A Service without endpoints has one empty slice, which tells clients so.
        let empty = template.slice(family, &[]);
        match packing.delete.as_slice() {
            [only] if template::is_same_but_name(only, &empty) => packing.delete.clear(),
            _ => packing.create.push(empty),
        }
    }
    packing
}

/// Names new slices, reusing those of slices that would be deleted, and sets hints.
fn settle(
    mut packing: Packing,
    existing: &[&EndpointSlice],
    service: &Service,
    template: &Template,
    is_taken: &impl Fn(&str) -> bool,
    changes: &mut SliceChanges,
) {
    packing.recycle(service);
    let is_changed = |slice: &EndpointSlice| {
        let changed = packing.update.iter().chain(&packing.delete);
        changed
            .clone()
            .any(|it| it.metadata.name == slice.metadata.name)
    };
    let others = existing
        .iter()
        .filter(|it| !is_changed(it) && !hints::are_set(it, service));
    let others: Vec<EndpointSlice> = others.map(|it| (*it).clone()).collect();
    for mut slice in others.into_iter().chain(packing.update) {
        hints::set(&mut slice, service);
        changes.write.push(slice);
    }
    // A Service that is being deleted gets no new slices: they would outlive it.
    if service.metadata.deletion_timestamp.is_none() {
        for mut slice in packing.create {
            hints::set(&mut slice, service);
            let is_free = |name: &str| {
                let mut new = changes.write.iter();
                !is_taken(name) && !new.any(|it| it.metadata.name.as_deref() == Some(name))
            };
            slice.metadata.name = Some(template.name(|it| !is_free(it)));
            changes.write.push(slice);
        }
    }
    changes
        .delete
        .extend(packing.delete.into_iter().filter_map(|it| it.metadata.name));
}

/// The families of a Service's slices (`getAddressTypesForService`).
fn families(service: &Service) -> Vec<IpFamily> {
    let spec = service.spec.as_ref();
    let wanted = spec
        .and_then(|it| it.ip_families.as_deref())
        .unwrap_or_default();
    let named = IpFamily::ALL
        .into_iter()
        .filter(|it| wanted.contains(&it.to_string()));
    let named: Vec<IpFamily> = named.collect();
    if !named.is_empty() {
        return named;
    }
    let ip = spec.and_then(|it| it.cluster_ip.as_deref());
    match ip.unwrap_or_default().parse() {
        Ok(ip) => vec![IpFamily::of(&ip)],
        // A headless Service without families.
        Err(_) => IpFamily::ALL.to_vec(),
    }
}

#[cfg(test)]
mod tests;
