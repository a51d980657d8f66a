//! Pods that no rule tells apart, and ports at which answers may change.
//!
//! Only classes are asked about, at these ports: what is said about all pairs of pods costs as much as there are different
//! pods and ports in rules, not as there are pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_model::{NamespacedName, Protocol};

use crate::id::{ProfileId, SetId};
use crate::lookup::Packet;
use crate::plan::{Content, Member, PeerSet, Piece, Plan, PlannedRule, PortMatch, PortRange};
use crate::planner::Planner;
use crate::policy::Direction;

/// Some packets between two pods. Displays as `tcp/80`, `tcp` for all its ports, `other protocols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// To some ports.
    Ports(PortRange),
    /// Of protocols without ports.
    Other,
}

impl Traffic {
    /// The first of these packets.
    pub(crate) fn packet(self, source: IpAddr, destination: IpAddr) -> Packet {
        let port = match self {
            Self::Ports(it) => Some((it.protocol, it.first)),
            Self::Other => None,
        };
        Packet {
            source,
            destination,
            port,
        }
    }
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

/// Pods whose addresses no rule before or after tells apart.
pub(crate) struct Class {
    addresses: Vec<IpAddr>,
    pub(crate) pods: BTreeSet<NamespacedName>,
    /// The rules of a direction differ between the plans.
    pub(crate) changes: Ends,
    /// There are rules for a direction, in one of the plans.
    pub(crate) rules: Ends,
}

/// Something that is so for connections to pods, and for those from them.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) ingress: bool,
    pub(crate) egress: bool,
}

impl Class {
    /// An address of each class, for a connection from this one to the other one; `None` for different families, and for
    /// one pod and itself.
    pub(crate) fn pair(&self, to: &Self) -> Option<(IpAddr, IpAddr)> {
        let source = *self.addresses.first()?;
        let is_other = |it: &&IpAddr| **it != source && it.is_ipv6() == source.is_ipv6();
        Some((source, *to.addresses.iter().find(is_other)?))
    }

    /// The pods, in their order.
    pub(crate) fn names(&self) -> Vec<NamespacedName> {
        self.pods.iter().cloned().collect()
    }
}

/// All that rules can know of an address: its family, the profiles before and after, and the sets that have it, there with
/// the port that it has in them.
type Traits = (bool, Vec<Option<ProfileId>>, BTreeSet<(SetId, Option<u16>)>);

/// The pods of both plans, which are those of one cluster.
pub(crate) fn classes(planner: &Planner, plans: [&Plan; 2]) -> Vec<Class> {
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
            changes: Ends {
                ingress: is_changed(plans, Direction::Ingress, ingress),
                egress: is_changed(plans, Direction::Egress, egress),
            },
            rules: Ends {
                ingress: ingress.iter().any(Option::is_some),
                egress: egress.iter().any(Option::is_some),
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
    blocks: BTreeMap<SetId, Vec<IpNet>>,
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
pub(crate) fn starts(plans: [&Plan; 2]) -> BTreeSet<u16> {
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
            Content::Policy(_, _, policy) => ports(&policy.rules).for_each(|it| range(it, it)),
            Content::Profile(_, profile) => {
                let tiers = profile.admin.iter().chain(&profile.baseline);
                let rules = tiers.map(|it| &it.rule).chain(&profile.audit);
                ports(rules).for_each(|it| range(it, it));
            }
            _ => {}
        }
    }
    starts
}

/// The ports that rules name themselves.
fn ports<'a>(rules: impl IntoIterator<Item = &'a PlannedRule>) -> impl Iterator<Item = u16> {
    rules.into_iter().filter_map(|it| match it.port {
        PortMatch::One(_, port) => Some(port),
        _ => None,
    })
}

/// All traffic, in parts that have one answer each.
pub(crate) fn traffic(starts: &BTreeSet<u16>) -> impl Iterator<Item = Traffic> {
    let ports = Protocol::ALL.into_iter().flat_map(|protocol| {
        let ends = starts.iter().skip(1).map(|it| it - 1);
        let ends = ends.chain([u16::MAX]);
        let ranges = starts.iter().zip(ends);
        ranges.map(move |(first, last)| {
            Traffic::Ports(PortRange {
                protocol,
                first: *first,
                last,
            })
        })
    });
    ports.chain([Traffic::Other])
}

/// Adds traffic after what is there: ports that follow ports are one range.
pub(crate) fn push(all: &mut Vec<Traffic>, traffic: Traffic) {
    if let (Some(Traffic::Ports(last)), Traffic::Ports(next)) = (all.last_mut(), traffic)
        && last.protocol == next.protocol
        && last.last.checked_add(1) == Some(next.first)
    {
        last.last = next.last;
    } else {
        all.push(traffic);
    }
}
