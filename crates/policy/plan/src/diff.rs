//! What a change of policies does to connections between pods.
//!
//! Pods that no rule tells apart are one class, and only classes are asked about, at the ports where an answer may change:
//! the cost grows with the number of different pods and ports in rules, not with the number of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use sluice_model::{NamespacedName, Protocol};

use crate::id::{ProfileId, SetId};
use crate::lookup::{Decision, Packet, lookup};
use crate::plan::{Content, Member, PeerSet, Piece, Plan, PortRange};
use crate::planner::Planner;
use crate::policy::Direction;

/// What changes from some pods to others. The same holds for each pair of them but a pod and itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairChange {
    /// The pods that connect.
    pub from: Vec<NamespacedName>,
    /// The pods that are connected to.
    pub to: Vec<NamespacedName>,
    /// What is allowed before and dropped after.
    pub closed: Vec<Traffic>,
    /// What is dropped before and allowed after.
    pub opened: Vec<Traffic>,
    /// Why the first of `closed` is dropped; empty without any.
    pub why: String,
}

/// Some packets between two pods. Displays as `tcp/80`, `tcp` for all its ports, `other protocols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// To some ports.
    Ports(PortRange),
    /// Of protocols without ports.
    Other,
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports(it) if (it.first, it.last) == (0, u16::MAX) => it.protocol.fmt(f),
            Self::Ports(it) => it.fmt(f),
            Self::Other => f.write_str("other protocols"),
        }
    }
}

/// What changes between all pods. Both planners have the same pods and namespaces, and are [of a
/// cluster](Planner::of_cluster).
#[must_use]
pub fn diff(before: &Planner, after: &Planner) -> Vec<PairChange> {
    let plans = [before.plan(), after.plan()];
    let starts = starts(plans);
    let classes = classes(before, plans);
    let mut changes = BTreeSet::new();
    for from in &classes {
        for to in &classes {
            if from.changes.egress || to.changes.ingress {
                changes.extend(change(plans, from, to, &starts));
            }
        }
    }
    changes.into_iter().collect()
}

/// Pods whose addresses no rule before or after tells apart.
struct Class {
    addresses: Vec<IpAddr>,
    pods: BTreeSet<NamespacedName>,
    changes: Changes,
}

/// Whether the rules of a direction are others than before.
#[derive(Clone, Copy)]
struct Changes {
    ingress: bool,
    egress: bool,
}

/// All that rules can know of an address: its family, the profiles before and after, and the sets that have it, there with
/// the port that it has in them.
type Traits = (bool, Vec<Option<ProfileId>>, BTreeSet<(SetId, Option<u16>)>);

fn classes(planner: &Planner, plans: [&Plan; 2]) -> Vec<Class> {
    let mut classes: BTreeMap<Traits, Class> = BTreeMap::new();
    let sets = sets(plans);
    for address in addresses(plans[0]) {
        let profiles = |direction| plans.map(|plan| profile(plan, address, direction));
        let [ingress, egress] = Direction::ALL.map(profiles);
        let traits = (
            address.is_ipv6(),
            [ingress, egress].concat(),
            sets.of(address),
        );
        let class = classes.entry(traits).or_insert_with(|| Class {
            addresses: Vec::new(),
            pods: BTreeSet::new(),
            changes: Changes {
                ingress: is_changed(plans, Direction::Ingress, ingress),
                egress: is_changed(plans, Direction::Egress, egress),
            },
        });
        class.addresses.push(address);
        class.pods.extend(planner.pods_at(&address));
    }
    classes.into_values().collect()
}

fn addresses(plan: &Plan) -> impl Iterator<Item = IpAddr> {
    plan.keys().filter_map(|it| match it {
        Piece::Address(address) => Some(*address),
        _ => None,
    })
}

fn profile(plan: &Plan, address: IpAddr, direction: Direction) -> Option<ProfileId> {
    match plan.get(&Piece::Address(address)).map(|it| &**it) {
        Some(Content::Address(_, it)) => it.profile(direction),
        _ => None,
    }
}

/// The sets of both plans, by what they have.
struct Sets {
    members: BTreeMap<IpAddr, BTreeSet<(SetId, Option<u16>)>>,
    blocks: BTreeMap<SetId, Vec<ipnet::IpNet>>,
}

/// A set of the same name has the same entries in both plans: the pods are the same.
fn sets(plans: [&Plan; 2]) -> Sets {
    let mut sets = Sets {
        members: BTreeMap::new(),
        blocks: BTreeMap::new(),
    };
    for content in plans.into_iter().flat_map(Plan::values) {
        match &**content {
            Content::Member(id, member) => {
                let port = match member {
                    Member::Address(_) => None,
                    Member::Port(_, port) => Some(*port),
                };
                let of_address = sets.members.entry(member.address()).or_default();
                of_address.insert((*id, port));
            }
            Content::Set(id, PeerSet::Blocks(blocks)) => {
                sets.blocks.insert(*id, blocks.clone());
            }
            _ => {}
        }
    }
    sets
}

impl Sets {
    fn of(&self, address: IpAddr) -> BTreeSet<(SetId, Option<u16>)> {
        let mut all = self.members.get(&address).cloned().unwrap_or_default();
        let blocks = self.blocks.iter();
        let having = blocks.filter(|(_, it)| it.iter().any(|it| it.contains(&address)));
        all.extend(having.map(|(id, _)| (*id, None)));
        all
    }
}

/// Whether the rules of a profile before differ from those of one after.
fn is_changed(
    plans: [&Plan; 2],
    direction: Direction,
    [before, after]: [Option<ProfileId>; 2],
) -> bool {
    let pieces = [before, after].map(|it| it.map(Piece::Profile));
    let contents = [0, 1].map(|it| pieces[it].as_ref().and_then(|piece| plans[it].get(piece)));
    if contents[0] != contents[1] {
        return true;
    }
    let Some(Content::Profile(_, profile)) = contents[0].map(|it| &**it) else {
        return false;
    };
    profile.policies.iter().any(|it| {
        let piece = Piece::Policy(direction, it.clone());
        plans[0].get(&piece) != plans[1].get(&piece)
    })
}

/// The ports at which answers may change, of every protocol: each has the answer of the ports up to the next one.
fn starts(plans: [&Plan; 2]) -> BTreeSet<u16> {
    let mut starts = BTreeSet::from([0]);
    let mut range = |first: u16, last: u16| {
        starts.insert(first);
        starts.extend(last.checked_add(1));
    };
    for content in plans.into_iter().flat_map(Plan::values) {
        match &**content {
            Content::Member(_, Member::Port(_, port)) => range(*port, *port),
            Content::Set(_, PeerSet::Ports(ranges)) => {
                ranges.iter().for_each(|it| range(it.first, it.last));
            }
            _ => {}
        }
    }
    starts
}

fn change(
    plans: [&Plan; 2],
    from: &Class,
    to: &Class,
    starts: &BTreeSet<u16>,
) -> Option<PairChange> {
    let source = *from.addresses.first()?;
    let is_other = |it: &&IpAddr| **it != source && it.is_ipv6() == source.is_ipv6();
    let destination = *to.addresses.iter().find(is_other)?;
    let mut change = PairChange {
        from: from.pods.iter().cloned().collect(),
        to: to.pods.iter().cloned().collect(),
        closed: Vec::new(),
        opened: Vec::new(),
        why: String::new(),
    };
    let mut ask = |traffic: Traffic| {
        let packet = Packet {
            source,
            destination,
            port: match traffic {
                Traffic::Ports(it) => Some((it.protocol, it.first)),
                Traffic::Other => None,
            },
        };
        let [before, after] = plans.map(|it| lookup(it, &packet));
        match (before.is_allowed(), after.is_allowed()) {
            (true, false) => {
                if change.closed.is_empty() {
                    change.why = dropped(&after);
                }
                push(&mut change.closed, traffic);
            }
            (false, true) => push(&mut change.opened, traffic),
            _ => {}
        }
    };
    for protocol in Protocol::ALL {
        let mut next = starts.iter().skip(1);
        for first in starts {
            let last = next.next().map_or(u16::MAX, |it| it - 1);
            ask(Traffic::Ports(PortRange {
                protocol,
                first: *first,
                last,
            }));
        }
    }
    ask(Traffic::Other);
    let is_one = !(change.closed.is_empty() && change.opened.is_empty());
    is_one.then_some(change)
}

/// The reason of the end that drops.
fn dropped(decision: &Decision) -> String {
    if decision.egress.is_allowed() {
        decision.ingress.words(Direction::Ingress)
    } else {
        decision.egress.words(Direction::Egress)
    }
}

/// Adds traffic after what is there: ports that follow ports are one range.
fn push(all: &mut Vec<Traffic>, traffic: Traffic) {
    if let (Some(Traffic::Ports(last)), Traffic::Ports(next)) = (all.last_mut(), traffic)
        && last.protocol == next.protocol
        && last.last.checked_add(1) == Some(next.first)
    {
        last.last = next.last;
    } else {
        all.push(traffic);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{World, events, packets, parse, worlds};

    fn planner(world: &World) -> Planner {
        let mut planner = Planner::of_cluster();
        events(world).iter().for_each(|it| planner.absorb(it));
        planner
    }

    fn has(traffic: &[Traffic], port: Option<(Protocol, u16)>) -> bool {
        traffic.iter().any(|it| match (it, port) {
            (Traffic::Ports(range), Some((protocol, port))) => range.contains(protocol, port),
            (Traffic::Other, None) => true,
            _ => false,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Of every packet between two pods the difference says what the plans say.
        #[test]
        fn every_pair_is_as_the_plans_say(world in worlds(), other in worlds()) {
            let mut world = world;
            for (index, pod) in world.pods.iter_mut().enumerate() {
                // One pod for each address, so that pods are told apart.
                let last = u8::try_from(index).expect("few");
                pod.addresses = vec![IpAddr::from([10, 0, 0, last])];
            }
            let changed = World {
                policies: other.policies,
                cluster_policies: other.cluster_policies,
                ..world.clone()
            };
            let planners = [planner(&world), planner(&changed)];
            let changes = diff(&planners[0], &planners[1]);
            for packet in packets().filter(|it| it.source != it.destination) {
                let ends = [packet.source, packet.destination].map(|it| planners[0].pods_at(&it));
                let [[from], [to]] = [&ends[0][..], &ends[1][..]] else {
                    continue;
                };
                let of_pair = changes.iter().filter(|it| it.from.contains(from) && it.to.contains(to));
                let found: Vec<_> = of_pair
                    .map(|it| (has(&it.closed, packet.port), has(&it.opened, packet.port)))
                    .filter(|it| *it != (false, false))
                    .collect();
                let [before, after] =
                    [0, 1].map(|it| lookup(planners[it].plan(), &packet).is_allowed());
                let expected = match (before, after) {
                    (true, false) => vec![(true, false)],
                    (false, true) => vec![(false, true)],
                    _ => Vec::new(),
                };
                prop_assert_eq!(found, expected, "{:?}: {:?}", packet, changes);
            }
        }
    }

    #[test]
    fn equal_pods_are_one_line() {
        let pods = "ns a team=red
            pod a/web-0 n1 10.0.0.1 app=web
            pod a/web-1 n2 10.0.0.2 app=web
            pod a/db n1 10.0.0.3 app=db
            pod a/other n3 10.0.0.4 app=other";
        let before = planner(&parse(pods));
        let policy = "np a/db ingress pods=app=db from=/app=web port=tcp:5432";
        let after = planner(&parse(&format!("{pods}\n{policy}")));
        let lines = |before: &Planner, after: &Planner| -> Vec<String> {
            let changes = diff(before, after);
            let line = |it: PairChange| {
                let names = |it: &[NamespacedName]| {
                    it.iter()
                        .map(|it| it.name.to_string())
                        .collect::<Vec<_>>()
                        .join(",")
                };
                let traffic = |it: &[Traffic]| {
                    it.iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                let (from, to) = (names(&it.from), names(&it.to));
                let (closed, opened) = (traffic(&it.closed), traffic(&it.opened));
                format!("{from} {to}: -{closed} +{opened} {}", it.why)
            };
            changes.into_iter().map(line).collect()
        };
        let why = "dropped: isolated by NetworkPolicy a/db, no rule of which matches";
        assert_eq!(
            lines(&before, &after),
            [
                format!("other db: -tcp udp sctp other protocols + {why}"),
                format!(
                    "web-0,web-1 db: -tcp/0-5431 tcp/5433-65535 udp sctp other protocols + {why}"
                ),
            ]
        );
        assert_eq!(
            lines(&after, &before),
            [
                "other db: - +tcp udp sctp other protocols ",
                "web-0,web-1 db: - +tcp/0-5431 tcp/5433-65535 udp sctp other protocols ",
            ]
        );
        assert!(lines(&after, &after).is_empty());
    }
}
