//! Bridges that pods of this node are on: packets between their ports may pass below the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;

/// Most addresses of pods whose way is looked up.
const LOOKED_UP: usize = 256;

/// Bridges between whose ports packets do not pass the hook forward, each as a problem with what to do; none where the kernel
/// cannot be asked. In the network namespace of the calling thread.
pub(crate) fn unfiltered(pods: &[IpAddr]) -> BTreeSet<String> {
    let links = sluice_route::links().unwrap_or_default();
    let bridges = links
        .into_iter()
        .filter(|it| it.kind.as_deref() == Some("bridge"));
    let bridges: BTreeMap<u32, String> = bridges.map(|it| (it.index, it.name)).collect();
    if bridges.is_empty() {
        return BTreeSet::new();
    }
    let used = pods.iter().take(LOOKED_UP).filter_map(|address| {
        let way = sluice_route::way(*address).ok()??;
        let bridge = bridges.get(&way.interface)?;
        Some((bridge, address.is_ipv4()))
    });
    let used: BTreeSet<(&String, bool)> = used.collect();
    let problems = used.into_iter().filter_map(|(bridge, is_ipv4)| {
        let call = if is_ipv4 {
            "bridge-nf-call-iptables"
        } else {
            "bridge-nf-call-ip6tables"
        };
        let why = match fs::read_to_string(format!("/proc/sys/net/bridge/{call}")) {
            Ok(value) if value.trim() == "1" => return None,
            Ok(value) => format!("net.bridge.{call} is {}", value.trim()),
            Err(_) => "the kernel module br_netfilter is not loaded".to_owned(),
        };
        Some(format!(
            "network policies are not enforced between pods on the bridge {bridge}: {why}: modprobe br_netfilter; \
             sysctl -w net.bridge.{call}=1"
        ))
    });
    problems.collect()
}
