//! Follows a packet through rendered nftables objects without a kernel. A property test compares the
//! outcomes with `Plan::lookup`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::chance::{Chance, Outcome, every};
use sluice_model::IpFamily;
use sluice_plan::lookup::{HostAddresses, Packet};

use sluice_nftables::{
    Action, Chain, ChainName, ElementKey, ElementValue, Fields, HookPoint, Key, KeyKind, Match,
    Object, Rule, Sense, SetName, SetRef, SourceList,
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
            Match::Source(sense, net) => holds(sense, net.contains(&self.packet.source)),
            Match::Interface(sense, name) => holds(sense, interface == &**name),
            Match::InterfacePrefix(sense, prefix) => holds(sense, interface.starts_with(&**prefix)),
            Match::SourceIsLocal => self.host.contains(&self.packet.source),
            Match::DestinationIsLocal => self.host.contains(&self.destination.ip()),
            Match::DestinationNotLoopback => !self.destination.ip().is_loopback(),
            Match::NewConnection => true,
            Match::DestinationTranslated => self.translated,
            Match::Marked(mark) => self.mark & mark == *mark,
            Match::Protocol(protocol) => self.packet.protocol == *protocol,
            Match::Share(part, whole) => self.chance.choose(*whole) < *part,
            Match::Known(..) => false,
            Match::In(sense, _, SetRef::Sources(list)) => holds(sense, self.may_connect(*list)),
            Match::In(sense, fields, SetRef::Standing(set)) => {
                holds(sense, self.member(*fields, *set))
            }
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
            Action::Verdict(fields, map) => match self.value(self.key(*fields, None), *map) {
                Some(ElementValue::Goto(chain)) => Some(self.goto(&chain)),
                Some(other) => panic!("map {map} leads to {other:?}"),
                None => Some(Step::Next),
            },
            Action::Balance(fields, size, map) => {
                let slot = self.chance.choose(*size);
                match self.value(self.key(*fields, Some(slot)), *map) {
                    Some(ElementValue::Endpoint(addr)) => Some(self.translate(addr)),
                    other => panic!("slot {slot} of {size} in {map} is {other:?}"),
                }
            }
            Action::DestinationTo(addr) => Some(self.translate(*addr)),
            Action::Count | Action::Remember(..) => None,
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

    fn value(&self, key: ElementKey, map: SetName) -> Option<ElementValue> {
        match self.objects.get(&Key::Element(self.family, map, key))? {
            Object::Element(element) => Some(element.value.clone()),
            other => panic!("element of {map} is {other:?}"),
        }
    }

    fn key(&self, fields: Fields, slot: Option<u32>) -> ElementKey {
        let (addr, port) = (self.destination.ip(), self.destination.port());
        let protocol = self.packet.protocol;
        match (fields, slot) {
            (Fields::Destination, _) => ElementKey::Address(addr),
            (Fields::Source, _) => ElementKey::Address(self.packet.source),
            (Fields::Frontend, None) => ElementKey::Frontend(addr, protocol, port),
            (Fields::Frontend, Some(slot)) => ElementKey::FrontendSlot(addr, protocol, port, slot),
            (Fields::NodePort, None) => ElementKey::NodePort(protocol, port),
            (Fields::NodePort, Some(slot)) => ElementKey::NodePortSlot(protocol, port, slot),
            (Fields::Hairpin, _) => ElementKey::Hairpin(addr, protocol, port),
        }
    }

    fn member(&self, fields: Fields, set: SetName) -> bool {
        let exact = || {
            let key = Key::Element(self.family, set, self.key(fields, None));
            self.objects.contains_key(&key)
        };
        match set.key() {
            KeyKind::Range => self.in_range(fields, set),
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

    fn in_range(&self, fields: Fields, set: SetName) -> bool {
        let looked_up: IpAddr = match fields {
            Fields::Source => self.packet.source,
            _ => self.destination.ip(),
        };
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
