//! Whether anything listens at the endpoints of Services. The kernel's tables of the pods' namespaces say it, so no packet is
//! sent that servers would log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use sluice_cluster::names::{machine_of_pod, netns_name};
use sluice_lab::Netns;

/// State of a listening TCP socket (`net/tcp_states.h`).
const LISTEN: &str = "0A";

/// The TCP ports at which pods listen for others, by the addresses of pods with a network namespace of their own.
pub(super) struct Listening(BTreeMap<IpAddr, BTreeSet<u16>>);

impl Listening {
    pub(super) fn of(pods: &[&Value]) -> Self {
        let own = pods.iter().filter(|it| it["spec"]["hostNetwork"] != true);
        let of_pods = own.filter_map(|pod| {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let ports = ports(&netns_name(&machine_of_pod(text("name"), text("uid"))))?;
            let addresses = pod["status"]["podIPs"].as_array()?.iter();
            let addresses = addresses.filter_map(|it| it["ip"].as_str()?.parse().ok());
            Some(addresses.map(move |it| (it, ports.clone())))
        });
        Self(of_pods.flatten().collect())
    }

    /// Whether nothing listens there. What is no pod's address is not known, and does not refuse.
    pub(super) fn refuses(&self, endpoint: SocketAddr) -> bool {
        let ports = self.0.get(&endpoint.ip());
        ports.is_some_and(|it| !it.contains(&endpoint.port()))
    }
}

/// The ports of a namespace; `None` when it cannot be read.
fn ports(netns: &str) -> Option<BTreeSet<u16>> {
    let netns = Netns::open(netns).ok()?;
    let tables = ["tcp", "tcp6"].map(|it| format!("/proc/thread-self/net/{it}"));
    let tables = netns.try_run(|| tables.map(|it| fs::read_to_string(it).ok()));
    let tables = tables.ok()?;
    // A kernel without IPv6 has one table.
    tables[0].as_ref()?;
    let lines = tables.iter().flatten().flat_map(|it| it.lines());
    Some(lines.filter_map(port).collect())
}

/// The port of a line `sl local_address rem_address st …` (`proc_net_tcp.rst`) if others are served there.
fn port(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace().skip(1);
    let (address, port) = words.next()?.rsplit_once(':')?;
    if words.nth(1)? != LISTEN || is_loopback(address) {
        return None;
    }
    u16::from_str_radix(port, 16).ok()
}

/// Whether an address is one of the loopback; each four bytes of it are a number in the machine's byte order.
fn is_loopback(address: &str) -> bool {
    let (before, last) = address.split_at(address.len().saturating_sub(8));
    let last = u32::from_str_radix(last, 16)
        .unwrap_or_default()
        .to_ne_bytes();
    match before {
        "" => last[0] == 127,
        _ => before.bytes().all(|it| it == b'0') && last == [0, 0, 0, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_for_others_are_found() {
        let ne = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let zero = ne([0; 4]).repeat(3);
        for (address, state, found) in [
            (ne([0; 4]), LISTEN, Some(8080)),
            (ne([10, 244, 0, 2]), LISTEN, Some(8080)),
            (ne([10, 244, 0, 2]), "01", None),
            (ne([127, 0, 0, 1]), LISTEN, None),
            (format!("{zero}{}", ne([0; 4])), LISTEN, Some(8080)),
            (format!("{zero}{}", ne([0, 0, 0, 1])), LISTEN, None),
        ] {
            let line = format!("   0: {address}:1F90 00000000:0000 {state} 00000000:00000000");
            assert_eq!(port(&line), found, "{line}");
        }
        assert_eq!(port("  sl  local_address rem_address   st"), None);
    }
}
