//! The node's own DNS server, whose queries the programs leave alone while it wants them.

use sluice_bpf_abi::{Addr, Dns, MAX_DNS_ADDRESSES};
use sluice_model::{DNS_OWNER_PORT, DNS_PORT, IpFamily, LocalTraffic};
use sluice_plan::settings::Settings;

/// What the programs know of the server of these settings.
pub(crate) fn server(settings: &Settings) -> Dns {
    let mut server = Dns::default();
    let Some(dns) = &settings.dns else {
        return server;
    };
    server.port = DNS_PORT.into();
    server.owner_port = DNS_OWNER_PORT.into();
    // More than one of each kind and family cannot be configured.
    for (index, ip) in dns.served().take(MAX_DNS_ADDRESSES).enumerate() {
        // The Node object is not known yet.
        let pods = LocalTraffic::detected_by(&settings.local_detector, None, IpFamily::of(&ip));
        server.addresses[index] = Addr::from(ip);
        server.for_this_node[index] = u8::from(dns.cluster_ips.contains(&ip) && pods.is_some());
    }
    server
}
