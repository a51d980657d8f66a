//! Which interfaces packets of this node's pods come through, and which sources they may have there.
//!
//! `--detect-local-mode` names these interfaces, or the ranges of the pods' addresses. Of a range the routes tell: those to
//! the node's pods lead to a veth or a bridge, without a router. A pod's packets have a source to which a route leads through
//! the pod's interface, or through the bridge whose port that is: the pod's address, or one that is routed to the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sluice_bpf_abi::{Addr, Cidr};
use sluice_model::IpFamily;
use sluice_plan::is_beyond_link;
use sluice_route::{Address, Connection, Link, Route, RouteKind};
use tracing::debug;

/// Between two listings of routes, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Kinds of interfaces that pods of the node can be behind.
const KINDS: [&str; 4] = ["veth", "bridge", "netkit", "tun"];

/// The interface that answers to what arrives through an interface of pods leave through; 0 where that is not known: at a
/// port of a bridge without addresses, or of Open vSwitch, where somebody else routes.
pub(super) fn back(link: &Link, links: &BTreeMap<u32, Link>, addresses: &[Address]) -> u32 {
    let Some(master) = link.master.and_then(|it| links.get(&it)) else {
        return link.index;
    };
    let has_addresses = || addresses.iter().any(|it| it.interface == master.index);
    match master.kind.as_deref() {
        Some("bridge") if has_addresses() => master.index,
        Some("vrf") => link.index,
        _ => 0,
    }
}

/// Whether a route to this network tells addresses of pods of a family. The kernel adds one to the link-local network of each
/// interface with IPv6, and one to each IPv6 address of the node there (`addrconf_prefix_route`).
pub(super) fn tells_pods(to: &Cidr, family: IpFamily, is_own: impl Fn(IpAddr) -> bool) -> bool {
    let ip = IpAddr::from(to.addr);
    let is_own = to.length == 128 && is_own(ip);
    IpFamily::of(&ip) == family && is_beyond_link(&ip) && !is_own
}

/// Ranges with every address that a pod of a family can have. Those of IPv6 begin behind the mapped ones of IPv4, `1000::`.
pub(super) fn all(family: IpFamily) -> impl Iterator<Item = Cidr> {
    let ranges: &[(u16, u32)] = match family {
        IpFamily::V4 => &[],
        IpFamily::V6 => &[(0x1000, 4), (0x2000, 3), (0x4000, 2), (0x8000, 1)],
    };
    let v4 = (family == IpFamily::V4).then_some(Cidr {
        addr: Addr::ANY_V4,
        length: 96,
    });
    let v6 = ranges.iter().map(|(first, length)| Cidr {
        addr: IpAddr::from(Ipv6Addr::new(*first, 0, 0, 0, 0, 0, 0, 0)).into(),
        length: *length,
    });
    v4.into_iter().chain(v6)
}

/// A network that a route leads to, as a range, and whether a router is behind that no pod is.
type Target = (Cidr, bool);

/// The routes through interfaces that pods can be behind.
#[derive(Default)]
pub(super) struct Routes {
    by_interface: BTreeMap<u32, BTreeSet<Target>>,
    /// The interfaces that routes to ranges of pods lead to.
    of_pods: BTreeSet<u32>,
    /// The earliest time of the next listing.
    next: Option<Instant>,
    /// The last listing was left out: there was one a moment ago.
    pub(super) is_late: bool,
}

impl Routes {
    /// Whether packets of pods come through an interface, as far as routes tell.
    pub(super) fn are_of_pods(&self, interface: u32) -> bool {
        self.of_pods.contains(&interface)
    }

    /// The networks that routes through an interface lead to.
    pub(super) fn through(&self, interface: u32) -> impl Iterator<Item = &Cidr> {
        let targets = self.by_interface.get(&interface).into_iter().flatten();
        targets.map(|(it, _)| it)
    }

    /// When a listing that was left out is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next.filter(|_| self.is_late)
    }

    /// Lists the routes, unless that was done a moment ago: a machine that speaks BGP has a million, whose listing takes
    /// 1 % of a CPU at most. `ranges`: those of the node's pods, or of all pods.
    pub(super) fn look(
        &mut self,
        ranges: &[Cidr],
        links: &BTreeMap<u32, Link>,
        is_named: impl Fn(&Link) -> bool,
    ) {
        let begin = Instant::now();
        self.is_late = self.next.is_some_and(|it| begin < it);
        if self.is_late {
            return;
        }
        // The settings are zeros before the first plan.
        let ranges: Vec<_> = ranges.iter().filter(|it| it.length != 0).collect();
        let is_wanted = |interface: &u32| {
            links
                .get(interface)
                .is_some_and(|it| can_have_pods(it) || is_named(it))
        };
        let listed = Connection::open()
            .and_then(|mut it| it.select(|it: Route| targets(&ranges, &it, is_wanted)));
        let listed = listed.unwrap_or_else(|error| {
            debug!(%error, "the routes to pods are not listed");
            Vec::new()
        });
        self.by_interface.clear();
        for (interface, target) in listed.into_iter().flatten() {
            self.by_interface
                .entry(interface)
                .or_default()
                .insert(target);
        }
        self.of_pods = of_pods(&ranges, &self.by_interface, links);
        self.next = Some(begin + (begin.elapsed() * 100).max(PAUSE));
    }
}

fn can_have_pods(link: &Link) -> bool {
    link.kind.as_deref().is_some_and(|it| KINDS.contains(&it))
}

/// The interfaces of a route with what it leads to; `None` if no pods can be behind.
fn targets(
    ranges: &[&Cidr],
    route: &Route,
    is_wanted: impl Fn(&u32) -> bool,
) -> Option<Vec<(u32, Target)>> {
    if route.kind != RouteKind::UNICAST {
        return None;
    }
    let addr = Addr::from(route.to.addr());
    let mapped = if addr.is_v4() { 96 } else { 0 };
    let to = Cidr {
        addr,
        length: mapped + u32::from(route.to.prefix_len()),
    };
    let is_pod = |it: &Addr| ranges.iter().any(|range| range.contains(it));
    let hops = route.hops.iter().filter(|it| is_wanted(&it.interface));
    let targets = hops.map(|it| {
        let has_router = it.gateway.is_some_and(|it| !is_pod(&it.into()));
        (it.interface, (to, has_router))
    });
    let targets: Vec<_> = targets.collect();
    (!targets.is_empty()).then_some(targets)
}

/// The interfaces that routes to pods lead to, and no router is behind.
fn of_pods(
    ranges: &[&Cidr],
    by_interface: &BTreeMap<u32, BTreeSet<Target>>,
    links: &BTreeMap<u32, Link>,
) -> BTreeSet<u32> {
    let is_in = |to: &Cidr, range: &Cidr| range.length <= to.length && range.contains(&to.addr);
    let are_pods = |(to, _): &Target| ranges.iter().any(|it| is_in(to, it));
    let found = by_interface.iter().filter(|(interface, targets)| {
        links.get(interface).is_some_and(can_have_pods)
            && targets.iter().any(are_pods)
            && !targets.iter().any(|(_, has_router)| *has_router)
    });
    found.map(|(interface, _)| *interface).collect()
}

#[cfg(test)]
mod tests {
    use sluice_route::Hop;

    use super::*;

    fn links(kinds: &[(u32, &str, Option<u32>)]) -> BTreeMap<u32, Link> {
        let link = |(index, kind, master): &(u32, &str, Option<u32>)| Link {
            index: *index,
            kind: Some((*kind).to_owned()),
            master: *master,
            ..Link::default()
        };
        kinds.iter().map(|it| (it.0, link(it))).collect()
    }

    #[test]
    fn answers_to_a_port_leave_through_its_bridge() {
        let all = links(&[
            (1, "veth", None),
            (2, "bridge", None),
            (3, "veth", Some(2)),
            (4, "bridge", None),
            (5, "veth", Some(4)),
            (6, "openvswitch", None),
            (7, "veth", Some(6)),
            (8, "vrf", None),
            (9, "veth", Some(8)),
        ]);
        let network: ipnet::IpNet = "10.244.0.1/24".parse().expect("a network");
        let own = [2, 6].map(|it| Address::new(it, network));
        let found = [1, 2, 3, 5, 7, 9].map(|it| back(&all[&it], &all, &own));
        assert_eq!(found, [1, 2, 2, 0, 0, 9]);
    }

    /// Routes to pods by themselves, to a bridge, through tunnels, and on the node's network.
    #[test]
    fn routes_tell_the_interfaces_of_pods() {
        let ranges = [("10.244.0.0", 96 + 16), ("fd24::", 64)].map(|(addr, length)| Cidr {
            addr: Addr::from(addr.parse::<IpAddr>().expect("an address")),
            length,
        });
        let ranges: Vec<&Cidr> = ranges.iter().collect();
        let all = links(&[
            (1, "veth", None),
            (2, "bridge", None),
            (3, "vxlan", None),
            (4, "veth", None),
            (5, "wireguard", None),
        ]);
        let route = |to: &str, interface, router: Option<&str>| {
            let router = router.map(|it| it.parse().expect("an address"));
            let hop = router.map_or_else(|| Hop::on(interface), |it| Hop::via(interface, it));
            Route::new(to.parse::<ipnet::IpNet>().expect("a network"), hop)
        };
        let routes = [
            route("10.244.1.5/32", 1, None),
            route("10.244.2.0/24", 2, None),
            route("fd24::7/128", 1, None),
            // A pod is a router.
            route("192.0.2.0/24", 1, Some("10.244.1.5")),
            route("10.244.3.0/24", 3, Some("10.244.3.0")),
            route("10.244.4.0/24", 5, None),
            // The node's own network has addresses of pods.
            route("10.244.9.0/24", 4, None),
            route("0.0.0.0/0", 4, Some("172.18.0.1")),
        ];
        let mut by_interface: BTreeMap<u32, BTreeSet<Target>> = BTreeMap::new();
        for it in &routes {
            for (interface, target) in targets(&ranges, it, |_| true).into_iter().flatten() {
                by_interface.entry(interface).or_default().insert(target);
            }
        }
        let found = of_pods(&ranges, &by_interface, &all);
        assert_eq!(found, BTreeSet::from([1, 2]));
        assert_eq!(by_interface[&1].len(), 3);
        let none = targets(&ranges, &routes[0], |_| false);
        assert_eq!(none, None);
    }

    /// The kernel's own routes at a new interface, and those of a pod's addresses.
    #[test]
    fn pods_are_known_by_their_own_routes_in_each_family() {
        let gateway: IpAddr = "fd24::1".parse().expect("an address");
        for (to, expected) in [
            ("fe80::/64", [false, false]),
            ("169.254.1.1/32", [false, false]),
            ("fd24::1/128", [false, false]),
            ("fd24::7/128", [false, true]),
            ("fd24::/64", [false, true]),
            ("::/0", [false, true]),
            ("10.244.1.5/32", [true, false]),
            ("10.244.1.0/24", [true, false]),
            ("0.0.0.0/0", [true, false]),
        ] {
            let net: ipnet::IpNet = to.parse().expect("a network");
            let addr = Addr::from(net.addr());
            let mapped = if addr.is_v4() { 96 } else { 0 };
            let length = mapped + u32::from(net.prefix_len());
            let tells = |family| tells_pods(&Cidr { addr, length }, family, |it| it == gateway);
            assert_eq!(IpFamily::ALL.map(tells), expected, "{to}");
        }
    }

    #[test]
    fn all_addresses_of_a_family_are_none_of_the_other() {
        for (addr, expected) in [
            ("10.244.1.5", [true, false]),
            ("255.255.255.255", [true, false]),
            ("fd24::7", [false, true]),
            ("2001:db8::7", [false, true]),
            ("4000::", [false, true]),
        ] {
            let addr: IpAddr = addr.parse().expect("an address");
            let has = |family| all(family).any(|it| it.contains(&addr.into()));
            assert_eq!(IpFamily::ALL.map(has), expected, "{addr}");
        }
    }
}
