//! The objects mean what the plan says: what becomes of any packet between the hooks, with the
//! rendered rules, sets and virtual servers, is the verdict that `Plan::lookup` gives it, on random
//! clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use proptest::prelude::*;
use sluice_ipvs::{Entry, Ipvs, Key, Object, Server, SetKind, SetName, Triple, render_plan};
use sluice_model::{Change, IpFamily, LocalAddresses, Protocol};
use sluice_plan::Event;
use sluice_plan::lookup::Packet;
use sluice_plan::settings::{LocalDetector, Settings};
use sluice_plan::state::HostAddresses;
use sluice_plan::testing::{
    NODE, arbitrary_events, arbitrary_packet, arbitrary_settings, endpoints, host, packet, planner,
    service,
};
use sluice_plan::{Plan, Planner, Pool, Verdict};
use sluice_reconcile::Backend;
use sluice_tracers::xtables::{Chance, Flow, Outcome, Tracer, World, every};
use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::Side;

type Objects = BTreeMap<Key, Object>;

/// A kernel with these objects.
struct Model {
    objects: Objects,
    rules: [Ruleset; 2],
    /// The node's addresses with those of kube-ipvs0.
    local: HostAddresses,
    sets: BTreeMap<String, (IpFamily, SetName)>,
}

impl Model {
    fn new(plan: &Plan) -> Self {
        let objects = render_plan(plan, "rr");
        let mut local = host();
        let mut rules = [Ruleset::new(), Ruleset::new()];
        let mut sets = BTreeMap::new();
        for (key, object) in &objects {
            match (key, object) {
                (Key::Address(ip), _) => {
                    local.insert(*ip);
                }
                (Key::Chain(family, table, chain), Object::Chain(body)) => {
                    rules[index(*family)].insert((*table, *chain), body.to_vec());
                }
                (Key::Set(family, set), _) => {
                    sets.insert(set.name(*family), (*family, *set));
                }
                _ => {}
            }
        }
        // The text has the order in which packets meet the jumps.
        let text = sluice_ipvs::text::data_plane(&objects);
        for (family, heading) in [
            (IpFamily::V4, "# iptables-"),
            (IpFamily::V6, "# ip6tables-"),
        ] {
            let section = text.split(heading).nth(1).unwrap_or_default();
            let section = section.split("\n# ").next().unwrap_or_default();
            rules[index(family)] = sluice_xtables::parse::parse(section);
        }
        Self {
            objects,
            rules,
            local,
            sets,
        }
    }

    /// Whether the address is one of kube-ipvs0's.
    fn is_virtual(&self, ip: IpAddr) -> bool {
        self.objects.contains_key(&Key::Address(ip))
    }

    /// What becomes of a packet that comes with this mark.
    fn outcomes(&self, packet: &Packet, mark: u32) -> BTreeSet<Outcome> {
        every(|chance| match self.pass(packet, mark, chance) {
            Ok(outcome) | Err(outcome) => outcome,
        })
    }

    /// A mark of near clients.
    fn mark(&self) -> Option<u32> {
        self.objects.keys().find_map(|key| match key {
            Key::Server(Server::Mark(_, _, mark)) => Some(*mark),
            _ => None,
        })
    }

    fn pass(&self, packet: &Packet, mark: u32, chance: &mut Chance) -> Result<Outcome, Outcome> {
        let family = IpFamily::of(&packet.destination);
        let members = |name: &str, fields: &[Side], flow: &Flow| self.member(name, fields, flow);
        let world = World {
            rules: &self.rules[index(family)],
            host: &self.local,
            members: &members,
        };
        let mut tracer = Tracer { world, chance };
        let mut flow = Flow::new(packet);
        flow.mark = mark;
        let arrives = flow.interface.is_some();
        if arrives {
            tracer.prerouting(&mut flow)?;
            if !tracer.is_ours(flow.destination.ip()) {
                tracer.filter_forward(&mut flow)?;
                return Ok(Outcome::Untouched);
            }
            tracer.filter_input(&mut flow)?;
        } else {
            tracer.output(&mut flow)?;
        }
        let scheduled = self.schedule(&mut flow, tracer.chance)?;
        let delivered = tracer.is_ours(flow.destination.ip());
        match (scheduled, arrives) {
            (false, true) => return Ok(Outcome::Untouched),
            // Delivered here, and never leaves.
            (true, true) if delivered => return Ok(flow.outcome()),
            _ => {}
        }
        flow.interface = None;
        if scheduled {
            // `ip_vs_nat_send_or_cont` sends it through LOCAL_OUT (again).
            tracer.mangle_output(&mut flow)?;
        }
        tracer.filter_output(&mut flow)?;
        tracer.postrouting(&mut flow)?;
        // A tunnel's packet has the mark of what it carries. Hairpin stays on the node.
        if flow.source != flow.destination.ip() {
            assert_eq!(flow.mark, 0, "{packet:?} leaves with a mark");
        }
        if delivered {
            flow.interface = Some("lo".into());
            tracer.filter_input(&mut flow)?;
        }
        Ok(match flow.outcome() {
            // Not left as it is.
            Outcome::Untouched if flow.masqueraded => Outcome::Translated {
                to: flow.destination,
                masqueraded: true,
            },
            outcome => outcome,
        })
    }

    /// `ip_vs_in`: a virtual server by mark, then by address. False when there is none.
    fn schedule(&self, flow: &mut Flow, chance: &mut Chance) -> Result<bool, Outcome> {
        let triple = Triple {
            ip: flow.destination.ip(),
            port: flow.destination.port(),
            protocol: flow.protocol,
        };
        // The kernel looks at the mark alone.
        let marked = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let marked = marked.map(|it| Server::Mark(IpFamily::of(&triple.ip), it, flow.mark));
        let addressed = [Server::Address(triple), Server::NodePort(triple)];
        let mut candidates = marked.into_iter().chain(addressed);
        let Some(server) =
            candidates.find(|server| self.objects.contains_key(&Key::Server(*server)))
        else {
            return Ok(false);
        };
        let reals: Vec<_> = self
            .objects
            .iter()
            .filter_map(|(key, object)| match (key, object) {
                (Key::Real(of, address), Object::Real(weight)) if *of == server && *weight > 0 => {
                    Some(*address)
                }
                _ => None,
            })
            .collect();
        if reals.is_empty() {
            return Err(Outcome::Rejected);
        }
        let count = u32::try_from(reals.len()).unwrap_or(u32::MAX);
        flow.destination = reals[chance.choose(count) as usize];
        flow.translated = true;
        flow.ipvs = true;
        Ok(true)
    }

    fn member(&self, name: &str, fields: &[Side], flow: &Flow) -> Option<u32> {
        let (family, set) = *self.sets.get(name)?;
        let end = |at: usize| match fields.get(at) {
            Some(Side::Src) => flow.source,
            _ => flow.destination.ip(),
        };
        let (protocol, port) = (flow.protocol, flow.destination.port());
        let entry = match set.kind() {
            SetKind::Address => Entry::Address(end(0)),
            SetKind::Port => Entry::Port(port),
            SetKind::AddressPort | SetKind::MarkedAddressPort => {
                Entry::AddressPort(end(0), protocol, port)
            }
            SetKind::AddressPortAddress => {
                Entry::AddressPortAddress(end(0), protocol, port, end(2))
            }
            SetKind::AddressPortNet => {
                let is_in = |entry: &Entry| match entry {
                    Entry::AddressPortNet(ip, of, number, net) => {
                        (*ip, *of, *number) == (end(0), protocol, port) && net.contains(&end(2))
                    }
                    _ => false,
                };
                let mut keys = self.objects.keys();
                let found = keys.any(|key| match key {
                    Key::Member(of, in_set, entry) => {
                        (*of, *in_set) == (family, set) && is_in(entry)
                    }
                    _ => false,
                });
                return found.then_some(0);
            }
        };
        match self.objects.get(&Key::Member(family, set, entry))? {
            Object::Member(mark) => Some(mark.unwrap_or(0)),
            _ => None,
        }
    }
}

fn index(family: IpFamily) -> usize {
    match family {
        IpFamily::V4 => 0,
        IpFamily::V6 => 1,
    }
}

fn expected(plan: &Plan, packet: &Packet, model: &Model) -> BTreeSet<Outcome> {
    let mut outcomes = sluice_tracers::chance::planned(plan, packet, &host());
    let lookup = plan.lookup(packet, &host());
    match (lookup.verdict, lookup.pool) {
        (_, Some(pool)) => {
            let usable: BTreeSet<_> = usable(pool).collect();
            outcomes
                .retain(|it| matches!(it, Outcome::Translated { to, .. } if usable.contains(to)));
            if outcomes.is_empty() {
                return [Outcome::Rejected].into();
            }
        }
        // The node has the address now, and must not answer with its own sockets. It may be an external one inside a
        // ServiceCIDR, which no Service has as its ClusterIP.
        (None | Some(Verdict::Drop), _)
            if lookup.found.is_none() && model.is_virtual(packet.destination) =>
        {
            return [Outcome::Rejected].into();
        }
        _ => {}
    }
    outcomes
}

fn usable(pool: &Pool) -> impl Iterator<Item = SocketAddr> {
    let endpoints = pool.endpoints().iter();
    endpoints.filter(|it| it.weight > 0).map(|it| it.addr)
}

/// Events with Services of a port that is also a NodePort: where they have an address of the node as
/// external IP, it and the NodePort are two frontends of the same numbers.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let renumber = |event| match event {
        Event::Service(Change::Set(mut service)) => {
            for port in &mut Arc::make_mut(&mut service).ports {
                if port.port.get() == 81 {
                    port.port = 30080.try_into().expect("it is not 0");
                }
            }
            Event::Service(Change::Set(service))
        }
        event => event,
    };
    arbitrary_events().prop_map(move |events| events.into_iter().map(renumber).collect())
}

fn planned(mut settings: Settings, events: Vec<Event>) -> Planner {
    settings.localhost_node_ports = false;
    let addresses = Event::LocalAddresses(LocalAddresses {
        all: host(),
        default_route: Vec::new(),
    });
    planner(settings, events.into_iter().chain([addresses]))
}

/// Whether a node with these addresses can meet the packet: it sends from its own addresses and
/// nobody else does (`fib_validate_source`), and what is for other machines does not come here as
/// for this one.
fn is_possible(plan: &Plan, packet: &Packet, model: &Model) -> bool {
    let is_here = model.local.contains(&packet.destination);
    let is_balanced = plan.lookup(packet, &host()).pool.is_some();
    let arrives = packet.interface.is_some();
    let is_honest = arrives != model.local.contains(&packet.source);
    is_honest && !model.is_virtual(packet.source) && (is_here || !is_balanced)
}

/// Endpoints of a Local policy come back: its external IP is in the sets of both policies until it
/// leaves that of the other one.
#[test]
fn an_external_ip_on_its_way_to_policy_local_is_local() {
    let mut events = vec![service("web 10.96.0.1 :80 ext=192.0.2.1 etp=local")];
    events.extend(endpoints("web", "10.0.1.5:80@ 10.0.1.6:80"));
    let planner = planned(Settings::for_node(NODE), events);
    let mut model = Model::new(planner.plan());
    let external = |set| {
        let frontend = Entry::AddressPort("192.0.2.1".parse().unwrap(), Protocol::Tcp, 80);
        Key::Member(IpFamily::V4, set, frontend)
    };
    let local = external(SetName::ExternalIpLocal);
    assert!(model.objects.contains_key(&local));
    let both = external(SetName::ExternalIp);
    model.objects.insert(both, Object::Member(None));
    let far = packet("198.51.100.9 > 192.0.2.1:80 via eth0");
    let unchanged = Outcome::Translated {
        to: "10.0.1.5:80".parse().unwrap(),
        masqueraded: false,
    };
    assert_eq!(model.outcomes(&far, 0), [unchanged].into());
}

/// Near clients of a Local policy get endpoints anywhere. That their packets leave without a mark
/// is seen to by `Model::pass`.
#[test]
fn near_clients_are_told_by_a_mark_that_does_not_leave() {
    let mut events = vec![service("web 10.96.0.1 :80 ext=192.0.2.1 etp=local")];
    events.extend(endpoints("web", "10.0.1.6:80"));
    let settings = Settings {
        local_detector: LocalDetector::ClusterCidrs(vec!["10.244.0.0/16".parse().unwrap()]),
        ..Settings::for_node(NODE)
    };
    let planner = planned(settings, events);
    let model = Model::new(planner.plan());
    for (client, masqueraded) in [
        ("192.168.0.1 > 192.0.2.1:80", true),
        ("10.244.0.9 > 192.0.2.1:80 via cni0", false),
    ] {
        let expected = Outcome::Translated {
            to: "10.0.1.6:80".parse().unwrap(),
            masqueraded,
        };
        let outcomes = model.outcomes(&packet(client), 0);
        assert_eq!(outcomes, [expected].into(), "{client}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn rendered_objects_agree_with_the_plan(
        settings in arbitrary_settings(),
        events in events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..40),
    ) {
        let planner = planned(settings, events);
        let plan = planner.plan();
        let model = Model::new(plan);
        for packet in packets.iter().filter(|it| is_possible(plan, it, &model)) {
            let lookup = plan.lookup(packet, &host());
            let wanted = expected(plan, packet, &model);
            prop_assert_eq!(&model.outcomes(packet, 0), &wanted, "{:?}\n{:?}", packet, lookup);
            // What a tunnel sends has the mark of what it carries.
            if let Some(mark) = model.mark() {
                prop_assert_eq!(&model.outcomes(packet, mark), &wanted, "{:?} {}", packet, mark);
            }
        }
    }

    /// The node takes a virtual IP of kube-ipvs0 as its source when it dials one. It gets where it
    /// would get with its own address, and is masqueraded, since nobody could answer that source.
    #[test]
    fn the_node_is_served_whatever_source_the_kernel_gives_it(
        settings in arbitrary_settings(),
        events in events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..40),
    ) {
        let planner = planned(settings, events);
        let plan = planner.plan();
        let model = Model::new(plan);
        for packet in packets {
            let family = IpFamily::of(&packet.destination);
            let own = plan.node.family(family).addresses.first();
            let Some(own) = own.copied() else { continue };
            if !model.is_virtual(packet.destination) {
                continue;
            }
            let as_itself = Packet { source: own, interface: None, ..packet.clone() };
            let Some(pool) = plan.lookup(&as_itself, &host()).pool else { continue };
            let ranges = plan.frontend(&as_itself, &host());
            if ranges.is_some_and(|(_, it)| it.allowed_sources.is_some()) {
                continue;
            }
            let outcomes = usable(pool).map(|to| Outcome::Translated { to, masqueraded: true });
            let wanted: BTreeSet<_> = outcomes.collect();
            let as_virtual = Packet { source: packet.destination, ..as_itself };
            prop_assume!(!wanted.is_empty());
            prop_assert_eq!(model.outcomes(&as_virtual, 0), wanted, "{:?}", as_virtual);
        }
    }

    /// Only keys that say so may be rendered by more than one service port, and marks differ.
    #[test]
    fn objects_of_service_ports_are_their_own(
        settings in arbitrary_settings(),
        events in events(),
    ) {
        let planner = planned(settings, events);
        let mut owners: BTreeMap<Key, Object> = BTreeMap::new();
        for (_, objects) in sluice_ipvs::render_ports(planner.plan(), "rr") {
            let mut own = BTreeSet::new();
            for (key, object) in objects {
                prop_assert!(own.insert(key.clone()), "{} twice", key);
                if let Some(other) = owners.insert(key.clone(), object.clone()) {
                    prop_assert!(Ipvs::is_shared(&key), "{} of two ports", key);
                    prop_assert_eq!(other, object, "{} differs", key);
                }
            }
        }
    }
}
