//! Reads our objects from the kernel, and replaces sets that take too few members.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};
use sluice_reconcile::BackendError;
use sluice_route::link;
use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::{ChainName, Rule};

use crate::chain::{CHAINS, JUMPS};
use crate::convert::{self, Dialled};
use crate::grow::{SPARE, destroy_spare, grow};
use crate::kernel::{self, Kernel, again};
use crate::mark::MarkLayout;
use crate::object::{DEVICE, Key, Object, Server, Triple};
use crate::set::{Entry, SetName};
use crate::state::{State, has_to_drain};

type Objects = BTreeMap<Key, Object>;

/// Tells which objects of the kernel are ours.
pub(crate) struct Scope<'a> {
    pub(crate) families: &'a [IpFamily],
    pub(crate) exclude: &'a [IpNet],
    pub(crate) marks: MarkLayout,
}

/// All our objects. Draining real servers are left out; hidden NodePorts are included, as if the kernel
/// had them.
pub(crate) fn everything(
    kernel: &mut Kernel,
    state: &mut State,
    scope: &Scope<'_>,
    rulesets: Vec<(IpFamily, Ruleset)>,
) -> Result<Objects, BackendError> {
    let mut objects = Objects::new();
    let own = addresses(scope, &mut objects)?;
    sets(kernel, scope, &mut objects)?;
    for (family, ruleset) in rulesets {
        rules(state, family, ruleset, &mut objects);
    }
    servers(kernel, state, scope, &own, &mut objects)?;
    // A NodePort is hidden as long as the kernel has the virtual IP.
    let State {
        hidden, servers, ..
    } = state;
    hidden.retain(|key, _| match key {
        Key::Server(server) | Key::Real(server, _) => server
            .triple()
            .is_some_and(|it| servers.contains_key(&Server::Address(it))),
        _ => false,
    });
    for (key, object) in &*hidden {
        objects.insert(key.clone(), object.clone());
    }
    Ok(objects)
}

/// Reads the interface and its addresses. Returns the addresses of the other interfaces.
fn addresses(scope: &Scope<'_>, objects: &mut Objects) -> Result<BTreeSet<IpAddr>, BackendError> {
    let device = link(DEVICE).map_err(kernel::asked)?;
    if let Some(link) = &device {
        if link.kind.as_deref() != Some("dummy") {
            return Err(BackendError {
                operation: format!("use interface {DEVICE}"),
                reason: format!(
                    "it is of kind {}, not dummy: remove it with `ip link delete {DEVICE}`",
                    link.kind.as_deref().unwrap_or("hardware")
                ),
                source: None,
            });
        }
        objects.insert(Key::Device, Object::Device);
    }
    let index = device.map(|it| it.index);
    let mut own = BTreeSet::new();
    for address in sluice_route::addresses().map_err(kernel::asked)? {
        if Some(address.interface) != index {
            own.insert(address.ip);
            continue;
        }
        // The kernel adds one to each interface that is up.
        let is_link_local = matches!(address.ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if scope.families.contains(&IpFamily::of(&address.ip)) && !is_link_local {
            let object = if address.ip.is_ipv4() || address.is_deprecated {
                Object::Address
            } else {
                Object::Foreign
            };
            objects.insert(Key::Address(address.ip), object);
        }
    }
    Ok(own)
}

fn sets(kernel: &mut Kernel, scope: &Scope<'_>, objects: &mut Objects) -> Result<(), BackendError> {
    let names = again(|| kernel.sets.names())?;
    if names.contains(SPARE) {
        destroy_spare(&mut kernel.sets);
    }
    for family in scope.families {
        for set in SetName::ALL {
            let name = set.name(*family);
            if !names.contains(&name) {
                continue;
            }
            let wanted = convert::set(*family, set);
            let header = again(|| kernel.sets.header(&name))?;
            let found = header.and_then(|it| it.set);
            let Some(found) = found.filter(|it| it.is_like(&wanted)) else {
                objects.insert(Key::Set(*family, set), Object::Foreign);
                continue;
            };
            // Nobody else changed the set, so this counts as no repair.
            if found.max_elements() < wanted.max_elements() {
                grow(&mut kernel.sets, &name, &wanted);
            }
            objects.insert(Key::Set(*family, set), Object::Set);
            for member in again(|| kernel.sets.members(&name))? {
                let (entry, mark) = convert::entry(set.kind(), &member);
                objects.insert(Key::Member(*family, set, entry), Object::Member(mark));
            }
        }
    }
    Ok(())
}

fn rules(state: &mut State, family: IpFamily, mut saved: Ruleset, objects: &mut Objects) {
    for (table, from, to) in JUMPS {
        let (from, to) = (ChainName::new(from), ChainName::new(to));
        let rules = saved.get(&(*table, from));
        let rules = rules.into_iter().flatten();
        let leading: Vec<Rule> = rules.filter(|it| it.jump() == Some(&to)).cloned().collect();
        let key = Key::Jump(family, *table, from, to);
        state.jumps.remove(&key);
        let object = match &leading[..] {
            [] => continue,
            [rule] => Object::Jump(rule.clone()),
            _ => Object::Foreign,
        };
        state.jumps.insert(key.clone(), leading);
        objects.insert(key, object);
    }
    for (table, chain) in CHAINS {
        let chain = ChainName::new(chain);
        if let Some(rules) = saved.remove(&(*table, chain)) {
            let rules: Arc<[Rule]> = rules.into();
            objects.insert(Key::Chain(family, *table, chain), Object::Chain(rules));
        }
    }
}

fn servers(
    kernel: &mut Kernel,
    state: &mut State,
    scope: &Scope<'_>,
    own: &BTreeSet<IpAddr>,
    objects: &mut Objects,
) -> Result<(), BackendError> {
    let mut servers = BTreeMap::new();
    let mut draining = BTreeSet::new();
    for found in again(|| kernel.ipvs.virtual_servers())? {
        let Some(server) = classify(&found.key, state, scope, own, objects) else {
            continue;
        };
        servers.insert(server, found.scheduler.clone());
        let object = convert::balancing(&found).map_or(Object::Foreign, Object::Server);
        objects.insert(Key::Server(server), object);
        for real in kernel::real_servers(&mut kernel.ipvs, &found.key)? {
            let address = real.server.address;
            let weight = convert::weight(&real.server);
            // Real servers that drained in an earlier process go on draining.
            let drains = if state.is_read {
                state.draining.contains(&(server, address))
            } else {
                has_to_drain(&found.scheduler, &server, &real)
            };
            if weight == Some(0) && drains {
                draining.insert((server, address));
            } else {
                let object = weight.map_or(Object::Foreign, Object::Real);
                objects.insert(Key::Real(server, address), object);
            }
        }
    }
    state.servers = servers;
    state.draining = draining;
    state.is_read = true;
    Ok(())
}

/// Our virtual server with this key; `None` for one of others.
fn classify(
    key: &sluice_netlink::ipvs::Key,
    state: &State,
    scope: &Scope<'_>,
    own: &BTreeSet<IpAddr>,
    objects: &Objects,
) -> Option<Server> {
    match convert::dialled(key)? {
        Dialled::Mark(family, mark) => {
            let protocol = scope.marks.protocol(mark)?;
            let is_ours = scope.families.contains(&family);
            is_ours.then_some(Server::Mark(family, protocol, mark))
        }
        Dialled::Address(triple) => {
            if !scope.families.contains(&IpFamily::of(&triple.ip)) {
                return None;
            }
            let known = state.server(&triple);
            if known.is_some() {
                return known;
            }
            let is_excluded = scope.exclude.iter().any(|net| net.contains(&triple.ip));
            if is_excluded && !is_listed(&triple, own, objects) {
                return None;
            }
            Some(if is_virtual_ip(&triple, objects) {
                Server::Address(triple)
            } else {
                Server::NodePort(triple)
            })
        }
    }
}

/// Whether this is a virtual IP, according to the sets and the interface.
fn is_virtual_ip(triple: &Triple, objects: &Objects) -> bool {
    let listed = SetName::VIRTUAL_IPS.into_iter();
    let mut listed = listed.map(|set| has_frontend(triple, set, objects));
    objects.contains_key(&Key::Address(triple.ip)) || listed.any(|it| it)
}

/// Whether a set has this frontend, so that it is of a Service: members are added before virtual servers
/// and deleted after them. Sets of NodePorts have no addresses: a NodePort is on one of `own`.
fn is_listed(triple: &Triple, own: &BTreeSet<IpAddr>, objects: &Objects) -> bool {
    let has_port = |set| {
        let entry = Entry::Port(triple.port);
        let key = Key::Member(IpFamily::of(&triple.ip), set, entry);
        own.contains(&triple.ip) && objects.contains_key(&key)
    };
    let is_node_port = match triple.protocol {
        Protocol::Tcp => has_port(SetName::NodePortTcp),
        Protocol::Udp => has_port(SetName::NodePortUdp),
        Protocol::Sctp => has_frontend(triple, SetName::NodePortSctp, objects),
    };
    let mut sets = SetName::VIRTUAL_IPS.into_iter();
    is_node_port || sets.any(|set| has_frontend(triple, set, objects))
}

fn has_frontend(triple: &Triple, set: SetName, objects: &Objects) -> bool {
    let family = IpFamily::of(&triple.ip);
    objects.contains_key(&Key::Member(family, set, (*triple).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn triple(address: &str, protocol: Protocol) -> Triple {
        let address: SocketAddr = address.parse().unwrap();
        Triple {
            ip: address.ip(),
            port: address.port(),
            protocol,
        }
    }

    /// What a process that knows nothing makes of a virtual server, with `192.0.2.0/24` excluded, on
    /// the node `192.0.2.1`.
    #[track_caller]
    fn check(address: &str, protocol: Protocol, expected: Option<fn(Triple) -> Server>) {
        let member = |set, entry| (Key::Member(IpFamily::V4, set, entry), Object::Member(None));
        let frontend = |set, address| member(set, triple(address, Protocol::Tcp).into());
        let objects = [
            (Key::Address("192.0.2.20".parse().unwrap()), Object::Address),
            frontend(SetName::ClusterIp, "192.0.2.10:80"),
            frontend(SetName::ExternalIp, "192.0.2.20:80"),
            frontend(SetName::LoadBalancer, "192.0.2.30:80"),
            member(SetName::NodePortTcp, Entry::Port(30080)),
        ];
        let own = ["192.0.2.1".parse().unwrap()].into();
        let triple = triple(address, protocol);
        let key = convert::key(&Server::Address(triple));
        let scope = Scope {
            families: &IpFamily::ALL,
            exclude: &["192.0.2.0/24".parse().unwrap()],
            marks: MarkLayout::beside(0x4000),
        };
        let found = classify(&key, &State::default(), &scope, &own, &objects.into());
        assert_eq!(found, expected.map(|it| it(triple)), "{triple}");
    }

    #[test]
    fn in_excluded_networks_ours_is_what_the_sets_list() {
        use Protocol::{Tcp, Udp};
        for virtual_ip in ["192.0.2.10:80", "192.0.2.20:80", "192.0.2.30:80"] {
            check(virtual_ip, Tcp, Some(Server::Address));
            check(virtual_ip, Udp, None);
        }
        check("192.0.2.9:80", Tcp, None);
        check("192.0.2.20:81", Tcp, None);
        check("192.0.2.1:30080", Tcp, Some(Server::NodePort));
        check("192.0.2.1:30080", Udp, None);
        check("192.0.2.1:30081", Tcp, None);
        check("192.0.2.50:30080", Tcp, None);
    }

    #[test]
    fn elsewhere_every_virtual_server_is_ours() {
        check("198.51.100.1:80", Protocol::Tcp, Some(Server::NodePort));
        check("198.51.100.1:30080", Protocol::Udp, Some(Server::NodePort));
    }
}
