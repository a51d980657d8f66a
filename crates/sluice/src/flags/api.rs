//! How to reach the API server.

use super::value::{self, text, to};
use super::{Flag, Heading};

const BASE: Flag = Flag {
    heading: Heading::Api,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "kubeconfig",
        value: Some("PATH"),
        help: "How to reach the API server [default: as a pod does]",
        fields: &["clientConnection.kubeconfig"],
        set: |c, v| text(&mut c.client_connection.kubeconfig, v),
        ..BASE
    },
    Flag {
        name: "kube-api-qps",
        value: Some("N"),
        help: "Requests per second to the API server [default: 5]",
        fields: &["clientConnection.qps"],
        set: |c, v| to(&mut c.client_connection.qps, value::number(v)),
        ..BASE
    },
    Flag {
        name: "kube-api-burst",
        value: Some("N"),
        help: "Requests at once before --kube-api-qps counts [default: 10]",
        fields: &["clientConnection.burst"],
        set: |c, v| to(&mut c.client_connection.burst, value::integer(v)),
        ..BASE
    },
    Flag {
        name: "config-sync-period",
        value: Some("TIME"),
        help: "How often the API server is asked for everything again [default: 15m]",
        fields: &["configSyncPeriod"],
        set: |c, v| to(&mut c.config_sync_period, value::duration(v)),
        ..BASE
    },
];
