//! Flags about access to the API server.

use super::value::{duration, integer, number, text};
use super::{Flag, Heading};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::Api, name, value)
}

pub(super) const FLAGS: &[Flag] = &[
    flag("kubeconfig", "PATH")
        .help("File with address and credentials of the API server [default: the service account of the pod]")
        .fields(&["clientConnection.kubeconfig"])
        .set(|c, v| text(&mut c.client_connection.kubeconfig, v)),
    flag("kube-api-qps", "N")
        .help("Requests per second to the API server [default: 5]")
        .fields(&["clientConnection.qps"])
        .set(|c, v| number(&mut c.client_connection.qps, v)),
    flag("kube-api-burst", "N")
        .help("Requests that may go out at once before --kube-api-qps limits them [default: 10]")
        .fields(&["clientConnection.burst"])
        .set(|c, v| integer(&mut c.client_connection.burst, v)),
    flag("config-sync-period", "TIME")
        .help("How often the API server is asked for everything again [default: 15m]")
        .fields(&["configSyncPeriod"])
        .set(|c, v| duration(&mut c.config_sync_period, v)),
];
