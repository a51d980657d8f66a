//! Pieces of the plan as objects of our tables.

use std::borrow::Cow;
use std::net::IpAddr;

use sluice_model::{IpFamily, NamespacedName};
use sluice_nft::rule::{Action, ConnectionState, Field, Match, Sense, Side};
use sluice_nft::text::comment;
use sluice_nft::{ChainKind, Hook, HookPoint, Policy};
use sluice_policy_plan::{
    self as plan, AddressPlan, Content, Direction, Mode, Outcome, PeerSet, PlannedRule, PortMatch,
    Profile, ProfileId, SetId, TierRule,
};

use crate::name::{ChainName, SetName};
use crate::object::{Chain, Element, Entry, Key, Object, Rule};
use crate::set;

/// How long a connection is held cut after its last packet. TCP sends again for about that long (`tcp_retries2` in
/// `ip-sysctl.rst`: 924.6 s).
pub(crate) const CUT_SECONDS: u32 = 930;

/// Packets of connections that were allowed: replies, and what ICMP says about them.
const KNOWN: [ConnectionState; 2] = [ConnectionState::Established, ConnectionState::Related];

/// What is there for no piece in particular. Packets that are dropped or audited are shown to this group of nflog, if there
/// is one.
#[must_use]
pub fn standing(family: IpFamily, log: Option<u16>) -> Vec<(Key, Object)> {
    let mut objects = vec![(Key::Table(family), Object::Table)];
    for (name, kind) in set::STANDING {
        let declared = set::standing(family, &name, kind);
        objects.push((Key::Set(family, name), Object::Set(Box::new(declared))));
    }
    for direction in Direction::ALL {
        let hook = Hook {
            kind: ChainKind::Filter,
            point: HookPoint::Forward,
            // The source's policies are asked first.
            priority: match direction {
                Direction::Egress => -1,
                Direction::Ingress => 0,
            },
            policy: Policy::Accept,
        };
        let mut rules = vec![Rule::when(Match::State(&KNOWN), Action::Accept)];
        if direction == Direction::Ingress {
            // In the ebpf mode what the node sends to a Service comes back through the loopback interface.
            let own = Match::Interface(Sense::Is, "lo".into());
            rules.push(Rule::when(own, Action::Accept));
        }
        if direction == Direction::Egress {
            // The first of the two chains sees every packet. Its connection is known to nobody any more, or not yet: the
            // other end may not begin it again.
            let key = set::Kind::Cut.key();
            let is_cut = Match::In(Sense::Is, key.into(), SetName::Cut);
            let remember = Action::Remember(SetName::Cut, key.into(), CUT_SECONDS);
            rules.push(Rule::when(is_cut, remember).then(Action::Drop));
        }
        rules.push(Rule::always(Action::Verdict(
            vec![Field::Address(own(direction))].into(),
            SetName::Pods(direction),
        )));
        // No known pod has the address, or the rule before had ended the chain: of pods without policies the second look-up
        // finds it.
        let own = Field::Address(own(direction));
        let in_range = Match::In(Sense::Is, vec![own].into(), SetName::Ranges);
        let is_unknown = Match::In(Sense::IsNot, vec![own, own].into(), SetName::Itself);
        let closed = counted(Outcome::Dropped, direction);
        rules.push(closed.and(in_range).and(is_unknown));
        let chain = Chain::new(family, Some(hook), rules);
        let key = Key::Chain(family, ChainName::base(direction));
        objects.push((key, Object::Chain(chain)));
        for outcome in Outcome::ALL {
            let mut rules: Vec<Rule> = vec![Rule::always(Action::Count)];
            rules.extend(log.map(|group| self::log(outcome, direction, group)));
            if outcome == Outcome::Dropped {
                rules.push(Rule::always(Action::Drop));
            }
            objects.push(chain_of(
                family,
                ChainName::outcome(outcome, direction),
                rules,
            ));
        }
    }
    objects
}

/// Shows a packet of each pair of addresses in a second. Where too many pairs are remembered, the kernel refuses one more
/// and the rule ends before the packet is shown.
fn log(outcome: Outcome, direction: Direction, group: u16) -> Rule {
    let pairs = SetName::Logged(outcome, direction);
    let key = set::Kind::Logged.key();
    let is_new = Match::In(Sense::IsNot, key.into(), pairs.clone());
    let prefix = format!("{outcome} {direction}").into();
    Rule::when(is_new, Action::Remember(pairs, key.into(), 1)).then(Action::Log { prefix, group })
}

/// A chain with a rule that does nothing but log, to learn whether the kernel can.
pub(crate) fn probe(group: u16) -> (&'static str, Rule) {
    let prefix = Cow::Borrowed("probe");
    ("log", Rule::always(Action::Log { prefix, group }))
}

/// The objects of a piece in the table of a family.
#[must_use]
pub fn render(family: IpFamily, content: &Content) -> Vec<(Key, Object)> {
    let is_here = |address: &IpAddr| IpFamily::of(address) == family;
    match content {
        Content::Set(id, set) => peer_set(family, *id, set),
        Content::Member(id, member) if is_here(&member.address()) => {
            let key = Key::Element(family, SetName::Peers(*id), (*member).into());
            vec![(key, Object::Element(Element::default()))]
        }
        Content::Policy(direction, name, rules) => {
            let rules = rules.rules.iter();
            let rules = rules.map(|it| rule(*direction, it)).collect();
            let name = ChainName::policy(*direction, name);
            vec![chain_of(family, name, rules)]
        }
        Content::Group(id, policies) => {
            let rules = policies.iter().map(|it| jump(id.direction, it)).collect();
            vec![chain_of(family, ChainName::group(*id), rules)]
        }
        Content::Profile(id, profile) => self::profile(family, *id, profile),
        Content::Address(address, plan) if is_here(address) => {
            self::address(family, *address, plan)
        }
        Content::Range(range) if IpFamily::of_net(range) == family => {
            let key = Key::Element(family, SetName::Ranges, Entry::Prefix(*range));
            vec![(key, Object::Element(Element::default()))]
        }
        Content::Member(..) | Content::Address(..) | Content::Range(_) => Vec::new(),
    }
}

/// The end of a connection that is the pod's whose policies are asked.
const fn own(direction: Direction) -> Side {
    match direction {
        Direction::Ingress => Side::Destination,
        Direction::Egress => Side::Source,
    }
}

/// The other end.
const fn other(direction: Direction) -> Side {
    match direction {
        Direction::Ingress => Side::Source,
        Direction::Egress => Side::Destination,
    }
}

fn chain_of(family: IpFamily, name: ChainName, rules: Vec<Rule>) -> (Key, Object) {
    let chain = Chain::new(family, None, rules);
    (Key::Chain(family, name), Object::Chain(chain))
}

fn peer_set(family: IpFamily, id: SetId, set: &PeerSet) -> Vec<(Key, Object)> {
    let name = SetName::Peers(id);
    let declared = Object::Set(Box::new(set::peers(family, &name, set)));
    let mut objects = vec![(Key::Set(family, name.clone()), declared)];
    let entries: Vec<Entry> = match set {
        PeerSet::Pods(..) | PeerSet::NamedPort { .. } => Vec::new(),
        PeerSet::Blocks(blocks) => {
            let blocks = blocks.iter().filter(|it| IpFamily::of_net(it) == family);
            blocks.copied().map(Entry::Prefix).collect()
        }
        PeerSet::Ports(ranges) => ranges.iter().copied().map(Entry::Ports).collect(),
    };
    objects.extend(entries.into_iter().map(|entry| {
        let key = Key::Element(family, name.clone(), entry);
        (key, Object::Element(Element::default()))
    }));
    objects
}

/// A rule of a policy. [`plan::Action::Pass`] leaves the chain, which has no more than one tier.
fn rule(direction: Direction, planned: &PlannedRule) -> Rule {
    let rule = match planned.action {
        plan::Action::Accept => Rule::always(Action::Accept),
        plan::Action::Deny => counted(Outcome::Dropped, direction),
        plan::Action::Pass => Rule::always(Action::Return),
    };
    matching(direction, planned, rule)
}

/// A rule of a policy in audit mode, in a chain of its own: what the first that matches would do is told, and left undone.
fn audited(direction: Direction, planned: &PlannedRule) -> Rule {
    let rule = match planned.action {
        plan::Action::Accept | plan::Action::Pass => Rule::always(Action::Return),
        plan::Action::Deny => counted(Outcome::Audited, direction),
    };
    matching(direction, planned, rule)
}

/// A rule for what a rule of a policy matches.
fn matching(direction: Direction, planned: &PlannedRule, mut rule: Rule) -> Rule {
    let within = |key: &'static [Field], set| Match::In(Sense::Is, key.into(), SetName::Peers(set));
    if let Some(peer) = planned.peer {
        let key: &[Field] = match other(direction) {
            Side::Source => &[Field::Address(Side::Source)],
            Side::Destination => &[Field::Address(Side::Destination)],
        };
        rule = rule.and(within(key, peer));
    }
    match planned.port {
        PortMatch::Any => rule,
        PortMatch::One(protocol, port) => rule
            .and(Match::Protocol(protocol.number()))
            .and(Match::Port(Side::Destination, port)),
        PortMatch::In(set) => rule.and(within(set::Kind::Ranges.key(), set)),
        PortMatch::Named(protocol, set) => {
            let rule = rule.and(Match::Protocol(protocol.number()));
            rule.and(within(set::Kind::Ports.key(), set))
        }
    }
}

/// The chain of a profile, and those of its tiers.
fn profile(family: IpFamily, id: ProfileId, profile: &Profile) -> Vec<(Key, Object)> {
    let mut objects = Vec::new();
    let mut rules = Vec::new();
    let mut tier = |name: &str, tier: &[TierRule], rules: &mut Vec<Rule>| {
        if !tier.is_empty() {
            let mut of_tier = Vec::new();
            let policies = tier.chunk_by(|a, b| a.policy == b.policy);
            for (index, policy) in policies.enumerate() {
                let own = policy.iter().map(|it| &it.rule);
                if policy[0].mode == Mode::Enforce {
                    of_tier.extend(own.map(|it| rule(id.direction, it)));
                    continue;
                }
                let name = ChainName::tier(&format!("audit-{name}-{index}"), id);
                of_tier.push(Rule::always(Action::Jump(name.clone())));
                let own = own.map(|it| audited(id.direction, it)).collect();
                objects.push(chain_of(family, name, own));
            }
            let name = ChainName::tier(name, id);
            rules.push(Rule::always(Action::Jump(name.clone())));
            objects.push(chain_of(family, name, of_tier));
        }
    };
    tier("admin", &profile.admin, &mut rules);
    if profile.is_isolated() {
        rules.push(itself(Action::Accept));
        let groups = plan::groups(id.direction, &profile.policies);
        if groups.is_empty() {
            rules.extend(profile.policies.iter().map(|it| jump(id.direction, it)));
        }
        let groups = groups.into_iter().map(|(id, _)| ChainName::group(id));
        rules.extend(groups.map(|it| Rule::always(Action::Jump(it))));
        rules.push(counted(Outcome::Dropped, id.direction));
    }
    let audit = ChainName::tier("audit", id);
    if !profile.audited.is_empty() {
        rules.push(Rule::always(Action::Jump(audit.clone())));
    }
    tier("baseline", &profile.baseline, &mut rules);
    if !profile.audited.is_empty() {
        // What is allowed leaves this chain and no more: the tier Baseline is asked next.
        let mut rules = vec![itself(Action::Return)];
        rules.extend(profile.audit.iter().map(|it| rule(id.direction, it)));
        rules.push(counted(Outcome::Audited, id.direction));
        objects.push(chain_of(family, audit, rules));
    }
    objects.push(chain_of(family, ChainName::profile(id), rules));
    objects
}

/// The rules of a NetworkPolicy are asked.
fn jump(direction: Direction, policy: &NamespacedName) -> Rule {
    Rule::always(Action::Jump(ChainName::policy(direction, policy)))
}

/// A pod's packets to itself.
fn itself(action: Action<SetName, ChainName>) -> Rule {
    let itself = Match::In(Sense::Is, set::Kind::Itself.key().into(), SetName::Itself);
    Rule::when(itself, action)
}

/// Counts what comes here, and does what becomes of it.
fn counted(outcome: Outcome, direction: Direction) -> Rule {
    let next = ChainName::outcome(outcome, direction);
    Rule::always(Action::Count).then(Action::Goto(next))
}

fn address(family: IpFamily, address: IpAddr, plan: &AddressPlan) -> Vec<(Key, Object)> {
    let name = plan.pod.to_string();
    let element = |set: SetName, entry: Entry, goto: Option<ChainName>| {
        let comment = Some(comment(&name).as_ref().into());
        let element = Element { goto, comment };
        (Key::Element(family, set, entry), Object::Element(element))
    };
    let mut objects = vec![element(SetName::Itself, Entry::Itself(address), None)];
    for direction in Direction::ALL {
        if let Some(profile) = plan.profile(direction) {
            let set = SetName::Pods(direction);
            let goto = Some(ChainName::profile(profile));
            objects.push(element(set, Entry::Address(address), goto));
        }
    }
    objects
}
