//! The objects that kube-apiserver writes for itself: the default ServiceCIDR, and the Service `kubernetes` with its
//! endpoints (`pkg/controlplane/controller/{defaultservicecidr,kubernetesservice}`, `pkg/controlplane/reconcilers`).

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use sluice_api::{Status, Store};
use sluice_lab::Cluster;
use sluice_model::IpFamily;

/// The field manager of these objects.
const APISERVER: &str = "kube-apiserver";

/// The port of the API on the LAN, for nodes and pods.
pub(crate) const PORT: u16 = 6443;

/// The name of the Service, and of the ServiceCIDR.
pub(crate) const NAME: &str = "kubernetes";

/// The number of the address that kube-apiserver takes for itself in each range.
const OWN: u8 = 1;

/// The addresses of the API, for certificates: those on the LAN, and the first one of each range.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let ranges = [
        sluice_lab::SERVICE_CIDR_V4.into(),
        sluice_lab::SERVICE_CIDR_V6.into(),
    ];
    let first = ranges.iter().map(|it| nth_of(it, OWN));
    Cluster::lan_addresses().into_iter().chain(first).collect()
}

/// Creates the default ServiceCIDR, unless it exists.
pub(crate) fn make_range(store: &Store, cidrs: &[IpNet]) -> Result<(), Status> {
    if store.get("ServiceCIDR", "", NAME).is_some() {
        return Ok(());
    }
    let cidrs: Vec<String> = cidrs.iter().map(IpNet::to_string).collect();
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": NAME}, "spec": {"cidrs": cidrs},
    });
    store.by(APISERVER).create(range).map(drop)
}

/// Creates the Service `kubernetes`, its Endpoints and its EndpointSlice where they are missing, and corrects their
/// addresses.
pub(crate) fn keep(store: &Store) -> Result<(), Status> {
    let service = match store.get("Service", "default", NAME) {
        Some(service) => service,
        None => store.by(APISERVER).create(service(store))?,
    };
    let ip = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let family = ip.parse().map_or(IpFamily::V4, |it| IpFamily::of(&it));
    for wanted in [endpoints(family), slice(family)] {
        let kind = wanted["kind"].as_str().unwrap_or_default();
        let Some(held) = store.get(kind, "default", NAME) else {
            store.by(APISERVER).create(wanted)?;
            continue;
        };
        let fields = ["subsets", "addressType", "endpoints", "ports"];
        if fields.iter().any(|it| held[*it] != wanted[*it]) {
            store.by(APISERVER).update(wanted)?;
        }
    }
    Ok(())
}

/// The Service, in the family of the first range.
fn service(store: &Store) -> Value {
    let range = store.get("ServiceCIDR", "", NAME);
    let range = range.and_then(|it| it["spec"]["cidrs"][0].as_str()?.parse().ok());
    let range = range.unwrap_or_else(|| sluice_lab::SERVICE_CIDR_V4.into());
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": NAME, "namespace": "default",
            "labels": {"component": "apiserver", "provider": NAME},
        },
        "spec": {
            "clusterIP": nth_of(&range, OWN).to_string(),
            "ipFamilies": [IpFamily::of_net(&range).to_string()],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": PORT}],
        },
    })
}

/// The address with this number in a range.
pub(crate) fn nth_of(range: &IpNet, number: u8) -> IpAddr {
    match range.network() {
        IpAddr::V4(it) => IpAddr::V4((u32::from(it) + u32::from(number)).into()),
        IpAddr::V6(it) => IpAddr::V6((u128::from(it) + u128::from(number)).into()),
    }
}

fn endpoints(family: IpFamily) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": NAME, "namespace": "default",
            // The slice below is not a mirror.
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": lan_address(family).to_string()}],
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
        }],
    })
}

fn slice(family: IpFamily) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": NAME, "namespace": "default",
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": family.to_string(),
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
        "endpoints": [{
            "addresses": [lan_address(family).to_string()],
            "conditions": {"ready": true},
        }],
    })
}

fn lan_address(family: IpFamily) -> IpAddr {
    let [v4, v6] = Cluster::lan_addresses();
    if family == IpFamily::V4 { v4 } else { v6 }
}
