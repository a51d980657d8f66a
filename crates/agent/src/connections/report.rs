//! The totals for `sluice status --connections` and scripts.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::ledger::Ledger;

/// Connections of a service port in one family since the agent started. Scripts read it: fields
/// are added, not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceConnections {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Name of its port; empty when it has none.
    pub port: String,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// All of them, those of endpoints that are gone included.
    pub connections: u64,
    /// Those of each endpoint that there is, by address.
    pub endpoints: Vec<EndpointConnections>,
}

/// Connections of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointConnections {
    /// Address and port: `10.244.1.7:8080`.
    pub endpoint: String,
    /// How many.
    pub connections: u64,
}

pub(super) fn of(ledger: &Ledger) -> Vec<ServiceConnections> {
    let each = ledger.totals().iter().map(|(key, total)| {
        let endpoints = total.endpoints.iter();
        let endpoints = endpoints.map(|(endpoint, connections)| EndpointConnections {
            endpoint: endpoint.to_string(),
            connections: *connections,
        });
        ServiceConnections {
            namespace: key.name.service.namespace.to_string(),
            service: key.name.service.name.to_string(),
            port: key.name.port.to_string(),
            protocol: key.name.protocol.to_string(),
            family: key.family.to_string(),
            connections: total.connections,
            endpoints: endpoints.collect(),
        }
    });
    let mut all: Vec<ServiceConnections> = each.collect();
    // Of equals the first by name stays first.
    all.sort_by_key(|it| Reverse(it.connections));
    all
}
