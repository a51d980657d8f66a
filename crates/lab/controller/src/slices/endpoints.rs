//! The Endpoints object of a Service with a selector (`pkg/controller/endpoint/endpoints_controller.go`), which older clients read.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_model::IpFamily;

use super::HEADLESS;
use super::desired::{PortKey, has_address, hostname, ips, ports};
use super::mirror::LEADER;
use crate::meta::{self, pod_reference};
use crate::workloads::pods;

/// Most addresses of an Endpoints object.
const MOST: usize = 1000;
/// The annotation of an object that lacks addresses for that reason.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The label of objects of this controller.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OWN: &str = "endpoint-controller";

/// IP address and uid of the pod, by which addresses are sorted.
type Key = (String, String);

/// Addresses, each with whether it is ready.
type Addresses = BTreeMap<Key, bool>;

/// Whether the controller of Endpoints wrote this object, and not a person.
pub(crate) fn is_own(endpoints: &Endpoints) -> bool {
    meta::label(&endpoints.metadata, MANAGED_BY) == OWN
}

/// Whether an object goes with its Service: all do, but for the lock of a leader election.
pub(crate) fn goes_with_service(endpoints: &Endpoints) -> bool {
    meta::annotation(&endpoints.metadata, LEADER).is_empty()
}

/// The object of a Service with these pods; `None` when `held` is right.
pub(crate) fn endpoints(
    service: &Service,
    pods: &[&Pod],
    held: Option<&Endpoints>,
) -> Option<Endpoints> {
    let mut subsets = subsets(service, pods);
    let is_over = truncate(&mut subsets);
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), OWN.to_owned());
    let ip = service
        .spec
        .as_ref()
        .and_then(|it| it.cluster_ip.as_deref());
    if matches!(ip, None | Some("" | "None")) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    let mut wanted = held.cloned().unwrap_or_else(|| Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        subsets: None,
    });
    wanted.metadata.labels = Some(labels);
    wanted.subsets = (!subsets.is_empty()).then_some(subsets);
    let annotations = wanted.metadata.annotations.get_or_insert_default();
    if is_over {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    if annotations.is_empty() {
        wanted.metadata.annotations = None;
    }
    (held != Some(&wanted)).then_some(wanted)
}

/// The addresses by the ports that they have in common (`RepackSubsets` in `pkg/api/v1/endpoints/util.go`).
fn subsets(service: &Service, pods: &[&Pod]) -> Vec<EndpointSubset> {
    let spec = service.spec.clone().unwrap_or_default();
    let publishes = spec.publish_not_ready_addresses == Some(true);
    let is_headless = spec.cluster_ip.as_deref() == Some("None");
    let has_ports = spec.ports.iter().flatten().next().is_some();
    let mut by_port: BTreeMap<Option<PortKey>, Addresses> = BTreeMap::new();
    let mut known: BTreeMap<Key, EndpointAddress> = BTreeMap::new();
    let live = |it: &&&Pod| has_address(it) && (publishes || !pods::is_terminating(it));
    for pod in pods.iter().filter(live) {
        let Some(address) = address(service, pod) else {
            continue;
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let key = (address.ip.clone(), uid);
        known.insert(key.clone(), address);
        let is_ready = publishes || pods::is_ready(pod);
        let ports: Vec<Option<PortKey>> = if has_ports {
            ports(service, pod).into_iter().map(Some).collect()
        } else {
            is_headless.then_some(None).into_iter().collect()
        };
        for port in ports {
            by_port
                .entry(port)
                .or_default()
                .insert(key.clone(), is_ready);
        }
    }
    let mut by_addresses: BTreeMap<Addresses, BTreeSet<Option<PortKey>>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().insert(port);
    }
    let subset = |(addresses, ports): (Addresses, BTreeSet<Option<PortKey>>)| {
        let of = |wanted: bool| {
            let all = addresses.iter().filter(|(_, ready)| **ready == wanted);
            let all: Vec<_> = all.filter_map(|(key, _)| known.get(key).cloned()).collect();
            (!all.is_empty()).then_some(all)
        };
        let ports: Vec<EndpointPort> = ports.iter().flatten().map(port).collect();
        EndpointSubset {
            addresses: of(true),
            not_ready_addresses: of(false),
            ports: (!ports.is_empty()).then_some(ports),
        }
    };
    by_addresses.into_iter().map(subset).collect()
}

fn port(key: &PortKey) -> EndpointPort {
    let port = key.port();
    EndpointPort {
        app_protocol: port.app_protocol,
        name: port.name.filter(|it| !it.is_empty()),
        port: port.port.unwrap_or_default(),
        protocol: port.protocol,
    }
}

/// The address of a pod in the first family of the Service (`podToEndpointAddressForService`).
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let spec = service.spec.as_ref();
    let named = spec.and_then(|it| it.ip_families.as_ref()?.first().cloned());
    let cluster_ip = spec.and_then(|it| it.cluster_ip.as_deref()?.parse().ok());
    let family = named.or(cluster_ip.map(|it| IpFamily::of(&it).to_string()));
    let ips = pod.status.as_ref().map(ips).unwrap_or_default();
    let ip = ips.iter().find(|it| {
        let family = family.as_ref();
        family.is_none_or(|family| IpFamily::of(it).to_string() == *family)
    })?;
    Some(EndpointAddress {
        hostname: hostname(service, pod),
        ip: ip.to_string(),
        node_name: pod.spec.as_ref().and_then(|it| it.node_name.clone()),
        target_ref: Some(pod_reference(pod)),
    })
}

/// Leaves at most 1,000 addresses, ready ones first, in the proportions of the subsets. Returns whether there were more.
fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let length = |it: &Option<Vec<EndpointAddress>>| it.as_ref().map_or(0, Vec::len);
    let ready: usize = subsets.iter().map(|it| length(&it.addresses)).sum();
    let unready: usize = subsets
        .iter()
        .map(|it| length(&it.not_ready_addresses))
        .sum();
    if ready + unready <= MOST {
        return false;
    }
    let cuts_ready = ready > MOST;
    let (room, total) = if cuts_ready {
        (MOST, ready)
    } else {
        (MOST - ready, unready)
    };
    let mut left = room;
    for subset in subsets {
        let list = if cuts_ready {
            subset.not_ready_addresses = None;
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        let share = (length(list) * room).div_ceil(total).min(left);
        if let Some(all) = list {
            all.truncate(share);
        }
        if share == 0 {
            *list = None;
        }
        left -= length(list);
    }
    true
}
