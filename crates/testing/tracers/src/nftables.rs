//! Follows a packet through rendered nftables objects without a kernel. A property test compares the
//! outcomes with `Plan::lookup`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::chance::{Chance, Outcome, every};
use sluice_model::IpFamily;
use sluice_plan::lookup::Packet;
use sluice_plan::state::HostAddresses;

use sluice_nftables::{
    Action, Chain, ChainName, ElementKey, ElementValue, Field, HookPoint, Key, KeyKind, Match,
    Object, Rule, Sense, SetName, SetRef, Side, SourceList,
};

/// Every outcome that random choices allow for the first packet of a connection of a client without
/// affinity.
pub fn outcomes(
    objects: &BTreeMap<Key, Object>,
    packet: &Packet,
    host: &HostAddresses,
) -> BTreeSet<Outcome> {
    every(|chance| Tracer::new(objects, packet, host, chance).run())
}

enum Verdict {
    /// The next rule decides.
    Continue,
    /// The base chain ends, and the packet continues at the next hook.
    Accept,
    Dropped,
    Rejected,
}

struct Tracer<'a> {
    objects: &'a BTreeMap<Key, Object>,
    host: &'a HostAddresses,
    chance: &'a mut Chance,
    family: IpFamily,
    packet: &'a Packet,
    destination: SocketAddr,
    mark: u32,
    translated: bool,
    masqueraded: bool,
}

impl<'a> Tracer<'a> {
    fn new(
        objects: &'a BTreeMap<Key, Object>,
        packet: &'a Packet,
        host: &'a HostAddresses,
        chance: &'a mut Chance,
    ) -> Self {
        Self {
            objects,
            host,
            chance,
            family: IpFamily::of(&packet.destination),
            packet,
            destination: SocketAddr::new(packet.destination, packet.port),
            mark: 0,
            translated: false,
            masqueraded: false,
        }
    }

    fn run(mut self) -> Outcome {
        let arrives = self.packet.interface.is_some();
        let mut points = vec![if arrives {
            HookPoint::Prerouting
        } else {
            HookPoint::Output
        }];
        let mut position = 0;
        while let Some(&point) = points.get(position) {
            position += 1;
            match self.hook(point) {
                Verdict::Continue | Verdict::Accept => {}
                Verdict::Dropped => return Outcome::Dropped,
                Verdict::Rejected => return Outcome::Rejected,
            }
            let for_us = self.host.contains(&self.destination.ip());
            match point {
                HookPoint::Prerouting if for_us => points.push(HookPoint::Input),
                HookPoint::Prerouting => points.push(HookPoint::Forward),
                HookPoint::Forward | HookPoint::Output => points.push(HookPoint::Postrouting),
                // Packets from the node to itself arrive through loopback.
                HookPoint::Postrouting if !arrives && for_us => points.push(HookPoint::Input),
                HookPoint::Postrouting | HookPoint::Input => {}
            }
        }
        if self.translated {
            Outcome::Translated {
                to: self.destination,
                masqueraded: self.masqueraded,
            }
        } else {
            Outcome::Untouched
        }
    }

    /// Runs the base chains of a hook, by priority.
    fn hook(&mut self, point: HookPoint) -> Verdict {
        let mut chains: Vec<(i32, &Chain)> = Vec::new();
        for (key, object) in self.objects {
            if let (Key::Chain(family, _), Object::Chain(chain)) = (key, object)
                && let Some(hook) = chain.hook
                && hook.point == point
                && *family == self.family
            {
                chains.push((hook.priority, chain));
            }
        }
        chains.sort_by_key(|(priority, _)| *priority);
        for (_, chain) in chains {
            match self.chain(chain) {
                Verdict::Continue | Verdict::Accept => {}
                verdict => return verdict,
            }
        }
        Verdict::Accept
    }

    fn named(&mut self, name: &ChainName) -> Verdict {
        match self.objects.get(&Key::Chain(self.family, name.clone())) {
            Some(Object::Chain(chain)) => self.chain(chain),
            other => panic!("rule leads to chain {name}, which is {other:?}"),
        }
    }

    fn chain(&mut self, chain: &Chain) -> Verdict {
        for rule in chain.rules.as_rules().iter() {
            match self.rule(rule) {
                Step::Next => {}
                Step::Leave => return Verdict::Continue,
                Step::End(verdict) => return verdict,
            }
        }
        Verdict::Continue
    }

    fn rule(&mut self, rule: &Rule) -> Step {
        if !rule.matches.iter().all(|it| self.matches(it)) {
            return Step::Next;
        }
        for action in &rule.actions {
            match self.act(action) {
                Some(step) => return step,
                None => continue,
            }
        }
        Step::Next
    }

    fn matches(&mut self, condition: &Match) -> bool {
        let interface = self.packet.interface.as_deref().unwrap_or("");
        let holds = |sense: &Sense, it: bool| it == (*sense == Sense::Is);
        match condition {
            Match::Address(side, sense, net) => holds(sense, net.contains(&self.address(*side))),
            Match::Interface(sense, name) => holds(sense, interface == &**name),
            Match::InterfacePrefix(sense, prefix) => holds(sense, interface.starts_with(&**prefix)),
            Match::IsLocal(side) => self.host.contains(&self.address(*side)),
            Match::State(_) => true,
            Match::DestinationTranslated => self.translated,
            Match::Marked(mark) => self.mark & mark == *mark,
            Match::Protocol(protocol) => self.packet.protocol.number() == *protocol,
            Match::Share(part, whole) => self.chance.choose(*whole) < *part,
            Match::In(_, _, SetRef::Clients(_)) => false,
            Match::In(sense, _, SetRef::Sources(list)) => holds(sense, self.may_connect(*list)),
            Match::In(sense, _, SetRef::Standing(set)) => holds(sense, self.member(*set)),
            other => panic!("no rule has {other:?}"),
        }
    }

    fn address(&self, side: Side) -> IpAddr {
        match side {
            Side::Source => self.packet.source,
            Side::Destination => self.destination.ip(),
        }
    }

    /// `None`: go on with the next action.
    fn act(&mut self, action: &Action) -> Option<Step> {
        match action {
            Action::Jump(chain) => match self.named(chain) {
                Verdict::Continue => None,
                verdict => Some(Step::End(verdict)),
            },
            Action::Goto(chain) => Some(self.goto(chain)),
            Action::Drop => Some(Step::End(Verdict::Dropped)),
            Action::Reject => Some(Step::End(Verdict::Rejected)),
            Action::Mark(mark) => {
                self.mark |= mark;
                None
            }
            Action::Unmark(mark) => {
                self.mark &= !mark;
                None
            }
            Action::Masquerade => {
                self.masqueraded = true;
                Some(Step::End(Verdict::Accept))
            }
            Action::Verdict(_, map) => match self.value(map, None) {
                Some(ElementValue::Goto(chain)) => Some(self.goto(&chain)),
                Some(other) => panic!("map {map} leads to {other:?}"),
                None => Some(Step::Next),
            },
            Action::DestinationOf(key, map) => {
                let Some(Field::Random { modulus, .. }) = key.last() else {
                    panic!("a key of {map} without a slot: {key:?}");
                };
                let slot = self.chance.choose(*modulus);
                match self.value(map, Some(slot)) {
                    Some(ElementValue::Endpoint(addr)) => Some(self.translate(addr)),
                    other => panic!("slot {slot} of {modulus} in {map} is {other:?}"),
                }
            }
            Action::DestinationTo(addr) => Some(self.translate(*addr)),
            Action::Count | Action::Remember(..) => None,
            other => panic!("no rule has {other:?}"),
        }
    }

    fn goto(&mut self, chain: &ChainName) -> Step {
        match self.named(chain) {
            Verdict::Continue => Step::Leave,
            verdict => Step::End(verdict),
        }
    }

    fn translate(&mut self, to: SocketAddr) -> Step {
        self.destination = to;
        self.translated = true;
        Step::End(Verdict::Accept)
    }

    fn value(&self, map: &SetRef, slot: Option<u32>) -> Option<ElementValue> {
        let SetRef::Standing(map) = map else {
            panic!("{map} is no map");
        };
        let key = Key::Element(self.family, *map, self.key(*map, slot));
        match self.objects.get(&key)? {
            Object::Element(element) => Some(element.value.clone()),
            other => panic!("element of {map} is {other:?}"),
        }
    }

    /// The key of the packet in a set.
    fn key(&self, set: SetName, slot: Option<u32>) -> ElementKey {
        let (addr, port) = (self.destination.ip(), self.destination.port());
        let protocol = self.packet.protocol;
        let slot = slot.unwrap_or_default();
        match set.key() {
            KeyKind::Address | KeyKind::Range => ElementKey::Address(addr),
            KeyKind::Frontend => ElementKey::Frontend(addr, protocol, port),
            KeyKind::FrontendSlot => ElementKey::FrontendSlot(addr, protocol, port, slot),
            KeyKind::NodePort => ElementKey::NodePort(protocol, port),
            KeyKind::NodePortSlot => ElementKey::NodePortSlot(protocol, port, slot),
            KeyKind::Hairpin => ElementKey::Hairpin(addr, protocol, port),
        }
    }

    fn member(&self, set: SetName) -> bool {
        let exact = || {
            let key = Key::Element(self.family, set, self.key(set, None));
            self.objects.contains_key(&key)
        };
        match set.key() {
            KeyKind::Range => self.in_range(set),
            KeyKind::Hairpin => self.packet.source == self.destination.ip() && exact(),
            _ => exact(),
        }
    }

    fn may_connect(&self, list: SourceList) -> bool {
        match self.objects.get(&Key::Sources(self.family, list)) {
            Some(Object::Sources(ranges)) => {
                ranges.iter().any(|it| it.contains(&self.packet.source))
            }
            other => panic!("rule looks {list} up, which is {other:?}"),
        }
    }

    fn in_range(&self, set: SetName) -> bool {
        let looked_up = self.destination.ip();
        self.objects.keys().any(|key| match key {
            Key::Element(family, name, ElementKey::Range(net)) => {
                *family == self.family && *name == set && net.contains(&looked_up)
            }
            _ => false,
        })
    }
}

enum Step {
    Next,
    /// Return to the chain that jumped here.
    Leave,
    End(Verdict),
}
