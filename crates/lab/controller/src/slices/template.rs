//! The common metadata of a Service's slices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_model::{IpFamily, is_subdomain};

use super::desired::PortKey;
use super::{HEADLESS, MANAGED_BY, SERVICE_NAME, SLICES};
use crate::meta;

/// Labels that slices do not inherit from the Service.
const RESERVED: [&str; 3] = [SERVICE_NAME, MANAGED_BY, HEADLESS];

/// The metadata of a Service's slices.
pub(crate) struct Template {
    metadata: ObjectMeta,
    prefix: String,
    seed: String,
}

impl Template {
    pub(crate) fn new(service: &Service) -> Self {
        let name = service.metadata.name.clone().unwrap_or_default();
        let with_dash = format!("{name}-");
        // The check ignores the characters to come: a letter stands for them.
        let prefix = if is_subdomain(&format!("{with_dash}a")) {
            with_dash
        } else {
            name
        };
        Self {
            metadata: ObjectMeta {
                namespace: service.metadata.namespace.clone(),
                generate_name: Some(prefix.clone()),
                labels: Some(labels(service)),
                owner_references: Some(vec![meta::owned_by("Service", &service.metadata)]),
                ..ObjectMeta::default()
            },
            prefix,
            seed: meta::key(&service.metadata).to_string(),
        }
    }

    /// A name that is not taken.
    pub(crate) fn name(&self, is_taken: impl Fn(&str) -> bool) -> String {
        meta::generated_name(&self.prefix, &self.seed, is_taken)
    }

    /// A slice without endpoints and name.
    pub(crate) fn slice(&self, family: IpFamily, ports: &[PortKey]) -> EndpointSlice {
        EndpointSlice {
            address_type: family.to_string(),
            endpoints: Some(Vec::new()),
            metadata: self.metadata.clone(),
            ports: Some(ports.iter().map(PortKey::port).collect()),
        }
    }
}

/// The labels of the Service, and ours (`setEndpointSliceLabels`).
pub(crate) fn labels(service: &Service) -> BTreeMap<String, String> {
    let own = service.metadata.labels.clone().unwrap_or_default();
    let own = own
        .into_iter()
        .filter(|(key, _)| !RESERVED.contains(&key.as_str()));
    let mut labels: BTreeMap<String, String> = own.collect();
    labels.insert(
        SERVICE_NAME.to_owned(),
        service.metadata.name.clone().unwrap_or_default(),
    );
    labels.insert(MANAGED_BY.to_owned(), SLICES.to_owned());
    let spec = service.spec.as_ref();
    let ip = spec
        .and_then(|it| it.cluster_ip.as_deref())
        .unwrap_or_default();
    if matches!(ip, "" | "None") {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// Whether two slices differ in name and age only.
pub(crate) fn is_same_but_name(one: &EndpointSlice, other: &EndpointSlice) -> bool {
    let content = |it: &EndpointSlice| {
        let endpoints = it.endpoints.clone().unwrap_or_default();
        let ports = it.ports.clone().unwrap_or_default();
        let (labels, owners) = (
            it.metadata.labels.clone(),
            it.metadata.owner_references.clone(),
        );
        (it.address_type.clone(), endpoints, ports, labels, owners)
    };
    content(one) == content(other)
}
