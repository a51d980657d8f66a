//! The way from this node to the endpoints: routes, interfaces, tunnels, bridges.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_route::{Link, Way};

use super::report::Finding;
use super::{listed, read};
use crate::sysctl;

/// Most endpoints whose route is looked up.
const LOOKED_UP: usize = 64;

/// Bytes that a tunnel adds to each packet, by the kind of its interface: headers of the outer IPv4
/// packet, the tunnel and, for VXLAN and Geneve, the inner Ethernet frame.
const OVERHEAD: [(&str, u32); 6] = [
    ("vxlan", 50),
    ("geneve", 50),
    ("ipip", 20),
    ("gre", 24),
    ("wireguard", 60),
    ("sit", 20),
];

/// An endpoint to which packets go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) address: IpAddr,
    /// It runs on this node.
    pub(super) local: bool,
    /// Its pod, or else its address, and its node.
    pub(super) name: String,
}

/// Checks the ways to these endpoints, and from these clients, in the network namespace of the calling thread.
pub(super) fn path(hops: &[Hop], clients: &[IpAddr]) -> Vec<Finding> {
    let links = match sluice_route::links() {
        Ok(links) => links,
        Err(error) => return vec![Finding::skip("routes", error.to_string())],
    };
    let links: BTreeMap<u32, Link> = links.into_iter().map(|it| (it.index, it)).collect();
    let mut ways = Vec::new();
    let mut findings = Vec::new();
    for hop in hops.iter().take(LOOKED_UP) {
        match sluice_route::way(hop.address) {
            Ok(Some(route)) => ways.push((hop, route)),
            Ok(None) => findings.push(
                Finding::fail("routes", format!("no route to {}", hop.name))
                    .mend(without_route(hop)),
            ),
            Err(error) => findings.push(Finding::skip("routes", error.to_string())),
        }
    }
    findings.extend(routes(&ways, &links));
    let used = ways.iter().filter(|(_, it)| !it.is_local);
    let used: BTreeSet<u32> = used.map(|(_, it)| it.interface).collect();
    let used: Vec<&Link> = used.iter().filter_map(|it| links.get(it)).collect();
    findings.extend(reverse_path(&links, clients));
    findings.extend(tunnels(&used, &links));
    findings.extend(bridges(&ways, &links));
    findings
}

fn without_route(hop: &Hop) -> String {
    if hop.local {
        format!(
            "the pod runs here: does {} still exist, and did the CNI plugin make its interface?",
            hop.address
        )
    } else {
        format!(
            "ip route get {}: does the CNI plugin's agent run on this node, and know that node?",
            hop.address
        )
    }
}

fn routes(ways: &[(&Hop, Way)], links: &BTreeMap<u32, Link>) -> Vec<Finding> {
    let interface = |route: &Way| links.get(&route.interface).map_or("?", |it| &*it.name);
    let is_default = |(_, route): &&(&Hop, Way)| route.prefix == 0 && !route.is_local;
    let far_by_route = ways
        .iter()
        .any(|(hop, route)| !hop.local && route.prefix > 0);
    let mut findings = Vec::new();
    for (hop, route) in ways.iter().filter(is_default) {
        let gateway = route.gateway.map(|it| format!(" {it}")).unwrap_or_default();
        let way = format!("the default gateway{gateway} through {}", interface(route));
        let name = &hop.name;
        // Where the network itself routes pods, this is right: then it is so for all of them.
        let finding = if hop.local {
            let evidence = format!("{name} is on this node, but packets go to {way}");
            Finding::fail("routes", evidence)
        } else if far_by_route {
            let evidence =
                format!("packets to {name} go to {way}, those to other nodes have a route");
            Finding::fail("routes", evidence)
        } else {
            let evidence =
                format!("packets to {name} go to {way}: right only where the network routes pods");
            Finding::warn("routes", evidence)
        };
        findings.push(finding.mend(without_route(hop)));
    }
    let mut good: BTreeMap<(&str, Option<IpAddr>), usize> = BTreeMap::new();
    for (_, route) in ways.iter().filter(|it| !is_default(it)) {
        *good.entry((interface(route), route.gateway)).or_default() += 1;
    }
    let good = good.into_iter().map(|((interface, gateway), count)| {
        let plural = if count == 1 { "" } else { "s" };
        match gateway {
            Some(gateway) => format!("{count} endpoint{plural} by {gateway} through {interface}"),
            None => format!("{count} endpoint{plural} through {interface}"),
        }
    });
    let good: Vec<String> = good.collect();
    if !good.is_empty() {
        findings.push(Finding::ok("routes", listed(good)));
    }
    findings
}

/// Strict reverse path filtering (RFC 3704) drops packets that come in through another interface than the
/// one that packets to their sender leave through. `clients` are those that somebody asked about.
fn reverse_path(links: &BTreeMap<u32, Link>, clients: &[IpAddr]) -> Option<Finding> {
    let value = |name: &str| sysctl(&format!("net/ipv4/conf/{name}/rp_filter"));
    let all = value("all")?;
    let strict = links.values().filter(|it| it.name != "lo");
    let strict = strict.filter(|it| value(&it.name).is_some_and(|own| own.max(all) == 1));
    let strict: Vec<&str> = strict.map(|it| &*it.name).collect();
    if strict.is_empty() {
        return Some(Finding::ok("rp_filter", "strict on no interface"));
    }
    let dropped = reverse_path_drops().unwrap_or_default();
    let counted = format!("{dropped} packets dropped so far (IPReversePathFilter)");
    for client in clients.iter().filter(|it| it.is_ipv4()) {
        let route = sluice_route::way(*client).ok().flatten();
        let way = route.and_then(|it| links.get(&it.interface));
        let way = way.map_or("no interface", |it| &*it.name);
        let others: Vec<&&str> = strict.iter().filter(|it| **it != way).collect();
        if let Some(first) = others.first()
            && dropped > 0
        {
            let evidence = format!(
                "packets to {client} leave through {way}: those that come from it through {} are \
                 dropped (strict there); {counted}",
                listed(&others)
            );
            return Some(Finding::fail("rp_filter", evidence).mend(loosen(first)));
        }
    }
    let evidence = format!("strict on {}; {counted}", listed(&strict));
    Some(match dropped {
        0 => Finding::ok("rp_filter", evidence),
        _ => Finding::warn("rp_filter", evidence).mend(loosen(strict[0])),
    })
}

/// The command that makes reverse path filtering loose.
pub(super) fn loosen(interface: &str) -> String {
    format!("sysctl -w net.ipv4.conf.{interface}.rp_filter=2 (and net.ipv4.conf.all.rp_filter)")
}

/// Packets that reverse path filtering has dropped in this network namespace.
pub(super) fn reverse_path_drops() -> Option<u64> {
    let text = read("/proc/thread-self/net/netstat")?;
    let mut lines = text.lines().filter(|it| it.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs
        .find(|it| it.0 == "IPReversePathFilter")?
        .1
        .parse()
        .ok()
}

/// Tunnels whose packets do not fit into those of the interface below them. The one below is that of the
/// default route, as with every CNI plugin that was looked at.
fn tunnels(used: &[&Link], links: &BTreeMap<u32, Link>) -> Vec<Finding> {
    let below = ["192.0.2.1", "2001:db8::1"].iter().find_map(|far| {
        let route = sluice_route::way(far.parse().ok()?).ok()??;
        links.get(&route.interface)
    });
    let Some(below) = below else {
        return Vec::new();
    };
    let tunnels = used.iter().filter_map(|link| {
        let kind = link.kind.as_deref()?;
        let (_, overhead) = OVERHEAD.iter().find(|it| it.0 == kind)?;
        Some((link, kind, overhead))
    });
    let check = |(link, kind, overhead): (&&Link, &str, &u32)| {
        let (mtu, room) = (link.mtu, below.mtu.saturating_sub(*overhead));
        let evidence = format!(
            "{} ({kind}) has {mtu} bytes, {} below it has room for {room}",
            link.name, below.name
        );
        if mtu <= room {
            Finding::ok("mtu", evidence)
        } else {
            Finding::fail("mtu", format!("{evidence}: large packets are lost")).mend(format!(
                "ip link set {} mtu {room}, and the same in the CNI plugin's configuration",
                link.name
            ))
        }
    };
    tunnels.map(check).collect()
}

/// Pods on one bridge reach each other without passing IP: unless the bridge hands packets to netfilter,
/// answers of an endpoint keep the endpoint's address, and the client refuses them.
fn bridges(ways: &[(&Hop, Way)], links: &BTreeMap<u32, Link>) -> Vec<Finding> {
    let local = ways
        .iter()
        .filter(|(hop, route)| hop.local && !route.is_local);
    let on_bridge = local.filter_map(|(hop, route)| {
        let link = links.get(&route.interface)?;
        (link.kind.as_deref() == Some("bridge")).then_some((hop.address.is_ipv4(), &*link.name))
    });
    let on_bridge: BTreeSet<(bool, &str)> = on_bridge.collect();
    let check = |(is_ipv4, bridge): (bool, &str)| {
        let name = if is_ipv4 {
            "bridge-nf-call-iptables"
        } else {
            "bridge-nf-call-ip6tables"
        };
        let evidence = match sysctl(&format!("net/bridge/{name}")) {
            Some(1) => return Finding::ok("bridge", format!("{bridge}: {name} is 1")),
            Some(value) => format!("{bridge}: {name} is {value}"),
            None => format!("{bridge}: the kernel module br_netfilter is not loaded"),
        };
        Finding::fail("bridge", evidence).mend(format!(
            "modprobe br_netfilter; sysctl -w net.bridge.{name}=1: pods on {bridge} cannot reach \
             each other through a Service without it"
        ))
    };
    on_bridge.into_iter().map(check).collect()
}
