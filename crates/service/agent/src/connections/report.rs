//! The totals as `sluice status --connections` and scripts get them.

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
    /// Connections, including those of endpoints that are gone.
    pub connections: u64,
    /// The endpoints that exist, by address.
    pub endpoints: Vec<EndpointConnections>,
}

/// Connections of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointConnections {
    /// Address and port: `10.244.1.7:8080`.
    pub endpoint: String,
    /// Connections since the agent started.
    pub connections: u64,
    /// Share of new connections, 0 for none; `None` where the data plane has no weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Established connections as of now; `None` where the data plane does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
    /// Other connections as of now (opening, closing, or UDP); `None` where the data plane does not
    /// know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive: Option<u64>,
    /// The endpoint left the Service and stays until its last connection ends. Absent when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

pub(super) fn of(ledger: &Ledger) -> Vec<ServiceConnections> {
    let each = ledger.totals().iter().map(|(key, total)| {
        let endpoints = total.endpoints.iter();
        let endpoints = endpoints.map(|(endpoint, total)| EndpointConnections {
            endpoint: endpoint.to_string(),
            connections: total.connections,
            weight: total.load.map(|it| it.weight),
            active: total.load.map(|it| it.active),
            inactive: total.load.map(|it| it.inactive),
            draining: total.draining,
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
    // The sort is stable: equal counts stay in order of name.
    all.sort_by_key(|it| Reverse(it.connections));
    all
}
