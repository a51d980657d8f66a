//! The reconciler against a kernel that refuses, fails and is tampered with.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::backend::{Objects, RefusedObject};
use crate::settings::Settings;
use crate::testing::{NODE, arbitrary_events, endpoints, service};
use crate::{Frontend, NodePlan, Planner, Route};
use sluice_model::{Event, Protocol};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node,
    Frontend(Frontend),
    Slot(Frontend, usize),
    /// Shared: what frontends of this many slots need.
    Size(usize),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("Node"),
            Self::Frontend(frontend) => write!(f, "{frontend}"),
            Self::Slot(frontend, slot) => write!(f, "slot {slot} of {frontend}"),
            Self::Size(size) => write!(f, "size {size}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    Node(Box<NodePlan>),
    Frontend(PortKey, Route, usize, Box<Scene>),
    Slot(PortKey, SocketAddr),
    Size,
}

impl Object {
    fn owner(&self) -> Option<&PortKey> {
        match self {
            Self::Frontend(owner, ..) | Self::Slot(owner, _) => Some(owner),
            Self::Node(_) | Self::Size => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    BeforeWriting,
    AfterWriting,
}

/// What a refused object means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Transactions {
    /// Nothing is written.
    #[default]
    Whole,
    /// They are written.
    None,
}

#[derive(Debug, Default)]
struct Kernel {
    objects: BTreeMap<Key, Object>,
    transactions_are: Transactions,
    /// Frontends with these ports are not taken.
    refuses: BTreeSet<u16>,
    /// Slots with these numbers are not taken.
    refused_slots: BTreeSet<usize>,
    /// Sizes are not taken.
    refuses_sizes: bool,
    /// Nothing is let go.
    clings: bool,
    failure: Option<Failure>,
    transactions: usize,
}

impl Kernel {
    fn forgive(&mut self) {
        self.refuses.clear();
        self.refused_slots.clear();
        self.refuses_sizes = false;
        self.clings = false;
    }
}

impl Backend for Kernel {
    type Key = Key;
    type Object = Object;
    type Placement = Vec<SocketAddr>;

    const LARGE: usize = 6;
    const SCENE_SHAPES_PORTS: bool = true;

    fn retries_alone(&self) -> bool {
        true
    }

    fn is_shared(key: &Key) -> bool {
        matches!(key, Key::Size(_))
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        let node = (Key::Node, Object::Node(Box::new(scene.node.clone())));
        let sizes = match scene.scale {
            Scale::Small => 0..0,
            Scale::Large => 0..4,
        };
        let sizes = sizes.map(|size| (Key::Size(size), Object::Size));
        std::iter::once(node).chain(sizes).collect()
    }

    fn place(
        &mut self,
        port: &PortPlan,
        previous: Option<(&PortPlan, &Vec<SocketAddr>)>,
    ) -> Vec<SocketAddr> {
        let slots = previous.map(|(_, it)| it.clone());
        place(port, slots.unwrap_or_default())
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Vec<SocketAddr> {
        let Some(first) = port.frontends.first() else {
            return Vec::new();
        };
        let slots = (0..).map_while(
            |slot| match observed.get(&Key::Slot(first.frontend, slot)) {
                Some(Object::Slot(_, addr)) => Some(*addr),
                _ => None,
            },
        );
        slots.collect()
    }

    fn render(&self, scene: &Scene, port: &PortPlan, slots: &Vec<SocketAddr>) -> Objects<Self> {
        let mut objects = Vec::new();
        for it in &port.frontends {
            let owner = || port.key.clone();
            let object = Object::Frontend(owner(), it.route, slots.len(), Box::new(scene.clone()));
            objects.push((Key::Frontend(it.frontend), object));
            objects.extend(
                slots.iter().enumerate().map(|(slot, addr)| {
                    (Key::Slot(it.frontend, slot), Object::Slot(owner(), *addr))
                }),
            );
        }
        if !port.frontends.is_empty() {
            objects.push((Key::Size(slots.len()), Object::Size));
        }
        objects
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        Ok(self.objects.clone())
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), ApplyError<Key>> {
        let failed = || BackendError {
            operation: "apply".into(),
            reason: "out of luck".into(),
            source: None,
        };
        self.transactions += 1;
        let failure = self.failure.take();
        if let Some(Failure::BeforeWriting) = failure {
            return Err(failed().into());
        }
        let written = delta.add.iter().chain(&delta.replace).map(|(key, _)| key);
        let written = written.filter(|key| match key {
            Key::Frontend(it) => self.refuses.contains(&it.port()),
            Key::Slot(_, slot) => self.refused_slots.contains(slot),
            Key::Size(_) => self.refuses_sizes,
            Key::Node => false,
        });
        let deleted = delta.delete.iter().filter(|_| self.clings);
        let refused: Vec<_> = written
            .chain(deleted)
            .map(|key| RefusedObject {
                key: key.clone(),
                reason: "no such module".into(),
            })
            .collect();
        if !refused.is_empty() && self.transactions_are == Transactions::Whole {
            return Err(ApplyError::Refused(refused));
        }
        let mut delta = delta.clone();
        delta.spare(&refused.iter().map(|it| it.key.clone()).collect());
        for key in &delta.delete {
            assert!(self.objects.remove(key).is_some(), "{key} is not there");
        }
        for (key, object) in &delta.replace {
            let old = self.objects.insert(key.clone(), object.clone());
            assert!(old.is_some(), "{key} is not there");
        }
        for (key, object) in &delta.add {
            let old = self.objects.insert(key.clone(), object.clone());
            let may_exist = self.transactions_are == Transactions::None;
            assert!(old.is_none() || may_exist, "{key} exists");
        }
        for object in self.objects.values() {
            if let Object::Frontend(_, _, size, _) = object
                && self.transactions_are == Transactions::Whole
            {
                let needed = Key::Size(*size);
                assert!(self.objects.contains_key(&needed), "{needed} is missing");
            }
        }
        match failure {
            Some(_) => Err(failed().into()),
            None if refused.is_empty() => Ok(()),
            None => Err(ApplyError::Partly(refused)),
        }
    }
}

/// Those that stay keep their slots, as far as these are dense.
fn place(port: &PortPlan, mut slots: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut wanted: BTreeSet<_> = port.reachable().iter().map(|it| it.addr).collect();
    let mut slot = 0;
    while slot < slots.len() {
        match wanted.remove(&slots[slot]) {
            true => slot += 1,
            false => {
                slots.swap_remove(slot);
            }
        }
    }
    slots.extend(wanted);
    slots
}

/// Objects with their places forgotten: two kernels that do the same are equal.
fn unplaced<'a>(objects: impl Iterator<Item = (&'a Key, &'a Object)>) -> BTreeSet<String> {
    let lines = objects.map(|(key, object)| match (key, object) {
        (Key::Slot(frontend, _), object) => format!("{frontend} {object:?}"),
        (key, object) => format!("{key} {object:?}"),
    });
    lines.collect()
}

/// A planner, a reconciler and the agent's memory of what changed.
struct Proxy {
    planner: Planner,
    reconciler: Reconciler<Kernel>,
    changed: BTreeSet<PortKey>,
    failed: bool,
    /// Ports in the plan of the last good sync.
    known: BTreeSet<PortKey>,
}

impl Proxy {
    fn new() -> Self {
        Self {
            planner: Planner::new(Settings::for_node(NODE)),
            reconciler: Reconciler::new(Kernel::default()),
            changed: BTreeSet::new(),
            failed: true,
            known: BTreeSet::new(),
        }
    }

    fn hear(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.planner.absorb(event);
        }
        self.changed.extend(self.planner.replan().ports.into_keys());
    }

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.reconciler.backend
    }

    /// Syncs and checks every law.
    fn sync(&mut self) -> Result<Report, BackendError> {
        let before = self.reconciler.backend.objects.clone();
        let result = self.reconciler.sync(self.planner.plan(), &self.changed);
        let report = match result {
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
            Ok(report) => report,
        };
        assert!(report.full || !self.failed, "after a failure it observes");
        self.failed = false;
        self.changed.clear();
        match self.kernel().transactions_are {
            Transactions::Whole => self.check_refused(&before),
            Transactions::None => self.check_belief(),
        }
        self.check_others();
        self.known = self.planner.plan().ports.keys().cloned().collect();
        let transactions = self.kernel().transactions;
        let again = self
            .reconciler
            .sync(self.planner.plan(), &BTreeSet::new())
            .expect("there is nothing to fail at");
        assert!(again.is_empty() && !again.full, "nothing changed");
        assert_eq!(self.kernel().transactions, transactions);
        Ok(report)
    }

    /// A refused service port keeps what it had, but for what another one owns now.
    fn check_refused(&self, before: &BTreeMap<Key, Object>) {
        let after = &self.reconciler.backend.objects;
        for (key, old) in before {
            let Some(owner) = old.owner().filter(|_| *key != Key::Slot(rogue(), 3)) else {
                continue;
            };
            // A port that was gone in between had nothing of its own.
            if !self.reconciler.refused().contains_key(owner) || !self.known.contains(owner) {
                continue;
            }
            match after.get(key) {
                Some(new) if new == old || new.owner() != Some(owner) => {}
                new => panic!("{key}: {old:?} of {owner:?} became {new:?}"),
            }
        }
    }

    /// What the reconciler believes is what the kernel holds.
    fn check_belief(&self) {
        let belief = self.reconciler.believed.as_ref().expect("it synced");
        let mut objects: BTreeMap<Key, Object> = belief.standing.iter().cloned().collect();
        let ports = self.known.iter().chain(self.planner.plan().ports.keys());
        for key in ports.chain(self.reconciler.refused().keys()) {
            for (key, object) in self.believed(key) {
                let other = objects.insert(key.clone(), object.clone());
                assert!(other.is_none_or(|it| it == object), "{key} twice");
            }
        }
        let mut held = self.reconciler.backend.objects.clone();
        held.retain(|key, _| objects.contains_key(key) || !self.is_left(key));
        assert_eq!(held, objects);
    }

    /// What the kernel holds for a service port, as the reconciler believes.
    fn believed(&self, port: &PortKey) -> Objects<Kernel> {
        let Reconciler {
            backend, believed, ..
        } = &self.reconciler;
        let belief = believed.as_ref().expect("it synced");
        let step = Step::Port {
            key: port.clone(),
            old: belief.had(port),
            new: None,
        };
        step.before(backend)
    }

    fn is_left(&self, key: &Key) -> bool {
        let line = format!("{key}: kernel said: no such module");
        self.reconciler.left().contains(&line)
    }

    /// All that was not refused is as if it had been rendered just now.
    fn check_others(&self) {
        let kernel = &self.reconciler.backend;
        let refused = self.reconciler.refused();
        let plan = self.planner.plan();
        let mut fresh: BTreeMap<Key, Object> = BTreeMap::new();
        let scene = self.reconciler.scene(plan);
        fresh.extend(kernel.standing(&scene));
        // Whoever had the frontend of a refused port before keeps serving it.
        let mut contested = BTreeSet::new();
        for (key, port) in &plan.ports {
            if refused.contains_key(key) {
                contested.extend(port.frontends.iter().map(|it| it.frontend));
            } else {
                fresh.extend(kernel.render(&scene, port, &place(port, Vec::new())));
            }
        }
        // Be it what another one made.
        let kept = refused.keys().flat_map(|port| self.believed(port));
        let kept: BTreeSet<Key> = kept.map(|(key, _)| key).collect();
        let of_others = kernel.objects.iter().filter(|(key, object)| {
            if kept.contains(*key) && !fresh.contains_key(*key) {
                return false;
            }
            if self.is_left(key) && !fresh.contains_key(*key) {
                return false;
            }
            let owner_is_fine = object.owner().is_none_or(|it| !refused.contains_key(it));
            match key {
                Key::Frontend(it) | Key::Slot(it, _) => owner_is_fine && !contested.contains(it),
                Key::Node => true,
                // What a refused port keeps needs its shared objects.
                Key::Size(_) => refused.is_empty() || fresh.contains_key(*key),
            }
        });
        assert_eq!(unplaced(of_others), unplaced(fresh.iter()));
        let slots = |frontend| {
            let slots = kernel.objects.range(Key::Slot(frontend, 0)..);
            slots.take_while(move |(key, _)| matches!(key, Key::Slot(it, _) if *it == frontend))
        };
        for (key, object) in &kernel.objects {
            if let (Key::Frontend(frontend), Object::Frontend(owner, _, size, _)) = (key, object)
                && !refused.contains_key(owner)
            {
                let slots: Vec<_> = slots(*frontend).map(|(key, _)| key.clone()).collect();
                let dense: Vec<_> = (0..*size).map(|it| Key::Slot(*frontend, it)).collect();
                let any_left = !(refused.is_empty() && self.reconciler.left().is_empty());
                assert!(any_left || slots == dense, "{slots:?}");
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Move {
    Hear(Vec<Event>),
    Refuse(BTreeSet<u16>),
    RefuseSlots(BTreeSet<usize>),
    RefuseSizes,
    Cling,
    Forgive,
    Fail(Failure),
    /// Someone removes, changes and adds objects, and we are told.
    Tamper(usize),
    Forget,
    Retry,
}

fn step() -> impl Strategy<Value = Move> {
    let refuse = prop::sample::subsequence(vec![80u16, 81, 30080], 0..=2);
    prop_oneof![
        8 => arbitrary_events().prop_map(Move::Hear),
        2 => refuse.prop_map(|it| Move::Refuse(it.into_iter().collect())),
        1 => Just(Move::Fail(Failure::BeforeWriting)),
        1 => Just(Move::Fail(Failure::AfterWriting)),
        2 => (0usize..64).prop_map(Move::Tamper),
        1 => Just(Move::Forget),
        1 => Just(Move::Retry),
    ]
}

/// Moves that a kernel without transactions has beside these.
fn partial_step() -> impl Strategy<Value = Move> {
    let slots = prop::sample::subsequence(vec![0usize, 1, 2], 0..=2);
    prop_oneof![
        10 => step(),
        3 => slots.prop_map(|it| Move::RefuseSlots(it.into_iter().collect())),
        1 => Just(Move::RefuseSizes),
        1 => Just(Move::Cling),
        2 => Just(Move::Forgive),
    ]
}

fn tamper(kernel: &mut Kernel, at: usize) {
    let keys: Vec<Key> = kernel.objects.keys().cloned().collect();
    let pick = |offset: usize| keys.get((at + offset) % keys.len().max(1)).cloned();
    // Objects that others need cannot be removed by anyone.
    if let Some(key) = pick(0)
        && !Kernel::is_shared(&key)
    {
        kernel.objects.remove(&key);
    }
    if let Some(key) = pick(7)
        && let Some(Object::Slot(_, addr)) = kernel.objects.get_mut(&key)
    {
        *addr = "1.2.3.4:5".parse().unwrap();
    }
    let owner = kernel.objects.values().find_map(|it| it.owner().cloned());
    if let Some(owner) = owner {
        let rogue_slot = Object::Slot(owner, "1.2.3.4:5".parse().unwrap());
        kernel.objects.insert(Key::Slot(rogue(), 3), rogue_slot);
    }
}

/// Of no Service.
fn rogue() -> Frontend {
    Frontend::Address {
        addr: "8.8.8.8".parse().unwrap(),
        port: 53,
        protocol: Protocol::Udp,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_kernel_follows_the_plan(steps in prop::collection::vec(step(), 1..12)) {
        follow(Transactions::Whole, steps)?;
    }

    #[test]
    fn the_kernel_follows_as_far_as_it_likes(
        steps in prop::collection::vec(partial_step(), 1..12),
    ) {
        follow(Transactions::None, steps)?;
    }
}

fn follow(transactions: Transactions, steps: Vec<Move>) -> Result<(), TestCaseError> {
    let mut proxy = Proxy::new();
    proxy.kernel().transactions_are = transactions;
    for step in steps {
        match step {
            Move::Hear(events) => proxy.hear(events),
            Move::Refuse(ports) => proxy.kernel().refuses = ports,
            Move::RefuseSlots(slots) => proxy.kernel().refused_slots = slots,
            Move::RefuseSizes => proxy.kernel().refuses_sizes = true,
            Move::Cling => proxy.kernel().clings = true,
            Move::Forgive => proxy.kernel().forgive(),
            Move::Fail(failure) => proxy.kernel().failure = Some(failure),
            Move::Tamper(at) if proxy.kernel().refuses.is_empty() => {
                tamper(proxy.kernel(), at);
                proxy.reconciler.forget();
            }
            Move::Tamper(_) | Move::Forget => proxy.reconciler.forget(),
            Move::Retry => proxy.reconciler.retry(),
        }
        let _ = proxy.sync();
    }
    // All is forgiven: one attempt repairs everything, and a look finds no more to do.
    proxy.kernel().forgive();
    proxy.kernel().failure = None;
    proxy.reconciler.retry();
    let report = proxy.sync().expect("nothing fails any more");
    prop_assert!(report.refused.is_empty());
    prop_assert!(proxy.reconciler.refused().is_empty());
    prop_assert!(proxy.reconciler.left().is_empty());
    proxy.reconciler.forget();
    let report = proxy.sync().expect("nothing fails any more");
    prop_assert!(report.full && report.is_empty() && report.refused.is_empty());
    Ok(())
}

/// A Service with this name, ClusterIP port and endpoints.
fn web(name: &str, about: &str, members: &str) -> Vec<Event> {
    let mut events = endpoints(name, members);
    events.push(service(&format!("{name} {about}")));
    events
}

#[test]
fn a_frontend_moves_between_ports_in_one_sync() {
    let mut proxy = Proxy::new();
    proxy.hear(web("a", "10.96.0.1 :80 ext=192.0.2.1", "10.0.0.1:1"));
    proxy.hear(web("b", "10.96.0.2 :80 ext=192.0.2.1", "10.0.0.2:1"));
    proxy.sync().unwrap();
    proxy.hear([service("a 10.96.0.1 :80")]);
    let report = proxy.sync().unwrap();
    assert_eq!(report.to_string(), "added 0, replaced 2, deleted 0");
    assert!(!report.full);
}

#[test]
fn a_refused_port_hurts_nobody_else() {
    let mut proxy = Proxy::new();
    proxy.hear(web("a", "10.96.0.1 :80", "10.0.0.1:1"));
    proxy.sync().unwrap();
    proxy.kernel().refuses = BTreeSet::from([80]);
    proxy.hear(web("a", "10.96.0.1 :80", "10.0.0.1:1 10.0.0.2:1"));
    proxy.hear(web("b", "10.96.0.2 :81", "10.0.0.1:1 10.0.0.2:1"));
    let report = proxy.sync().unwrap();
    assert_eq!(report.to_string(), "added 4, replaced 0, deleted 0");
    let [(port, reason)] = &report.refused[..] else {
        panic!("{report:?}");
    };
    assert_eq!(port.name.to_string(), "default/a");
    assert!(reason.ends_with(": no such module"), "{reason}");

    // Still refused after a look at the kernel, and still it has what it had.
    proxy.reconciler.forget();
    assert_eq!(proxy.sync().unwrap().refused.len(), 1);

    // Its next change is written over what it had.
    proxy.kernel().refuses.clear();
    proxy.hear(endpoints("a", "10.0.0.2:1"));
    proxy.sync().unwrap();
    assert!(proxy.reconciler.refused().is_empty());
}

#[test]
fn what_a_refused_port_keeps_can_be_taken_over() {
    let mut proxy = Proxy::new();
    proxy.hear(web(
        "a",
        "10.96.0.1 :80 ext=192.0.2.1,192.0.2.2",
        "10.0.0.1:1",
    ));
    proxy.sync().unwrap();
    proxy.kernel().refuses = BTreeSet::from([79]);
    proxy.hear([service("a 10.96.0.1 :79")]);
    assert_eq!(proxy.sync().unwrap().refused.len(), 1);
    proxy.hear(web("b", "10.96.0.2 :80 ext=192.0.2.1", "10.0.0.2:1"));
    proxy.sync().unwrap();
    proxy.hear([Event::Delete(sluice_model::ObjectKey::Service(
        sluice_model::NamespacedName::new("default", "a"),
    ))]);
    proxy.sync().unwrap();
    assert!(proxy.reconciler.refused().is_empty());
}

#[test]
fn what_one_refused_port_has_does_not_go_with_another_that_wants_it() {
    let mut proxy = Proxy::new();
    let holder = |port| service(&format!("default/c 10.96.0.1 :{port} ext=192.0.2.2"));
    proxy.hear([holder("80")]);
    proxy.sync().unwrap();
    proxy.kernel().refuses = [80, 81].into();
    proxy.hear([holder("81"), service("default/b 10.96.0.1 p:80")]);
    proxy.sync().unwrap();
    assert_eq!(proxy.reconciler.refused().len(), 2);
    proxy.reconciler.forget();
    proxy.sync().unwrap();
    proxy.hear([service("default/b")]);
    proxy.sync().unwrap();
    assert_eq!(proxy.reconciler.refused().len(), 1);
    let objects = &proxy.kernel().objects;
    let frontends = objects.keys().filter(|it| matches!(it, Key::Frontend(_)));
    assert_eq!(frontends.count(), 2);
}

#[test]
fn a_failed_write_is_followed_by_a_look() {
    for failure in [Failure::BeforeWriting, Failure::AfterWriting] {
        let mut proxy = Proxy::new();
        proxy.hear(web("a", "10.96.0.1 :80", "10.0.0.1:1"));
        proxy.kernel().failure = Some(failure);
        assert!(proxy.sync().is_err());
        assert!(proxy.sync().unwrap().full);
        proxy.hear(endpoints("a", "10.0.0.2:1"));
        proxy.kernel().failure = Some(failure);
        assert!(proxy.sync().is_err());
        assert!(proxy.sync().unwrap().full);
    }
}

#[test]
fn what_is_refused_is_not_solved_by_a_failure() {
    let mut proxy = Proxy::new();
    proxy.kernel().transactions_are = Transactions::None;
    proxy.hear(web("a", "10.96.0.1 :80", "10.0.0.1:1 10.0.0.2:1"));
    proxy.hear(web("b", "10.96.0.2 :80", "10.0.0.1:1"));
    proxy.sync().unwrap();
    proxy.kernel().refused_slots = BTreeSet::from([1]);
    proxy.hear(endpoints("a", "10.0.0.1:1 10.0.0.3:1"));
    proxy.sync().unwrap();
    proxy.kernel().clings = true;
    proxy.kernel().objects.insert(Key::Size(9), Object::Size);
    proxy.reconciler.forget();
    proxy.sync().unwrap();
    let known = |proxy: &Proxy| {
        let refused: Vec<_> = proxy.reconciler.refused().keys().cloned().collect();
        (refused, proxy.reconciler.left().to_vec())
    };
    let before = known(&proxy);
    assert_eq!((before.0.len(), before.1.len()), (1, 1));
    proxy.reconciler.forget();
    proxy.kernel().failure = Some(Failure::AfterWriting);
    assert!(proxy.sync().is_err());
    assert_eq!(known(&proxy), before);
    proxy.kernel().forgive();
    proxy.sync().unwrap();
    assert_eq!(known(&proxy), (Vec::new(), Vec::new()));
}

#[test]
fn a_restart_moves_nothing() {
    let mut proxy = Proxy::new();
    proxy.hear(web(
        "a",
        "10.96.0.1 :80",
        "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1",
    ));
    proxy.sync().unwrap();
    proxy.hear(endpoints("a", "10.0.0.2:1 10.0.0.3:1"));
    proxy.sync().unwrap();
    let kernel = Kernel {
        objects: proxy.kernel().objects.clone(),
        ..Kernel::default()
    };
    proxy.reconciler = Reconciler::new(kernel);
    let report = proxy.sync().unwrap();
    assert!(report.full && report.is_empty(), "{report}");
}

#[test]
fn what_every_service_needs_must_not_be_refused() {
    let refusal = |key| {
        ApplyError::Refused(vec![RefusedObject {
            key,
            reason: "read-only".into(),
        }])
    };
    assert_eq!(
        refusal(Key::Node).to_string(),
        "Node: kernel said: read-only"
    );
}

/// What is left in a kernel without transactions that refuses something, and what is said of it.
struct Case {
    what: &'static str,
    before: &'static str,
    refuse: fn(&mut Kernel),
    after: &'static str,
    /// Slots of the Service that the kernel holds, as endpoints.
    holds: &'static str,
    refused: &'static str,
}

#[test]
fn what_a_kernel_without_transactions_takes_stays() {
    let slot_1: fn(&mut Kernel) = |it| it.refused_slots = BTreeSet::from([1]);
    let everything_stays: fn(&mut Kernel) = |it| it.clings = true;
    for Case {
        what,
        before,
        refuse,
        after,
        holds,
        refused,
    } in [
        Case {
            what: "one of three new ones",
            before: "",
            refuse: slot_1,
            after: "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1",
            holds: "10.0.0.1:1 10.0.0.3:1",
            refused: "slot 1 of 10.96.0.1:80/tcp",
        },
        Case {
            what: "one that replaces another",
            before: "10.0.0.1:1 10.0.0.2:1",
            refuse: slot_1,
            after: "10.0.0.1:1 10.0.0.3:1",
            holds: "10.0.0.1:1 10.0.0.2:1",
            refused: "slot 1 of 10.96.0.1:80/tcp",
        },
        Case {
            what: "one that goes",
            before: "10.0.0.1:1 10.0.0.2:1",
            refuse: everything_stays,
            after: "10.0.0.1:1",
            holds: "10.0.0.1:1 10.0.0.2:1",
            refused: "slot 1 of 10.96.0.1:80/tcp",
        },
        Case {
            what: "what several need",
            before: "",
            refuse: |it| it.refuses_sizes = true,
            after: "10.0.0.1:1",
            holds: "10.0.0.1:1",
            refused: "size 1",
        },
    ] {
        let mut proxy = Proxy::new();
        proxy.kernel().transactions_are = Transactions::None;
        proxy.hear([service("a 10.96.0.1 :80")]);
        proxy.hear(endpoints("a", before));
        proxy.hear(web("b", "10.96.0.2 :80", ""));
        proxy.sync().unwrap();
        refuse(proxy.kernel());
        proxy.hear(endpoints("a", after));
        // Its own neighbour takes part in the same sync and is not touched by it.
        proxy.hear([service("b 10.96.0.2 :80 ext=192.0.2.1")]);
        let report = proxy.sync().unwrap();
        let reasons: Vec<_> = report.refused.iter().map(|(_, reason)| reason).collect();
        assert_eq!(reasons, [&format!("{refused}: no such module")], "{what}");
        let refusals = proxy.reconciler.refused().values();
        assert!(refusals.eq([&Refusal {
            reason: reasons[0].clone(),
            holds: Holds::Rest,
        }]));
        let slots = |proxy: &mut Proxy| -> Vec<String> {
            let slots = proxy.kernel().objects.values().filter_map(|it| match it {
                Object::Slot(_, addr) => Some(addr.to_string()),
                _ => None,
            });
            slots.collect()
        };
        assert_eq!(slots(&mut proxy).join(" "), holds, "{what}");

        // Nobody tries again until it changes, or the kernel is looked at.
        let transactions = proxy.kernel().transactions;
        proxy.hear([service("b 10.96.0.2 :80 ext=192.0.2.1,192.0.2.2")]);
        proxy.sync().unwrap();
        assert_eq!(proxy.kernel().transactions, transactions + 1);
        assert_eq!(proxy.reconciler.refused().len(), 1, "{what}");
        proxy.reconciler.forget();
        proxy.sync().unwrap();
        assert_eq!(slots(&mut proxy).join(" "), holds, "{what}");
        proxy.kernel().forgive();
        proxy.hear(endpoints("a", "10.0.0.9:1"));
        proxy.sync().unwrap();
        assert!(proxy.reconciler.refused().is_empty(), "{what}");
        proxy.reconciler.forget();
        proxy.sync().unwrap();
        assert_eq!(slots(&mut proxy), ["10.0.0.9:1"], "{what}");
    }
}

#[test]
fn what_the_kernel_does_not_let_go_hurts_nobody() {
    let mut proxy = Proxy::new();
    proxy.kernel().transactions_are = Transactions::None;
    proxy.hear(web("a", "10.96.0.1 :80", "10.0.0.1:1"));
    proxy.sync().unwrap();
    proxy.kernel().clings = true;
    proxy.hear([Event::Delete(sluice_model::ObjectKey::Service(
        sluice_model::NamespacedName::new("default", "a"),
    ))]);
    assert_eq!(proxy.sync().unwrap().refused.len(), 1, "it was its own");
    proxy.reconciler.forget();
    proxy.hear(web("b", "10.96.0.2 :80", "10.0.0.1:1 10.0.0.2:1"));
    let report = proxy.sync().unwrap();
    assert!(report.full && report.refused.is_empty(), "{report:?}");
    let left = [
        "10.96.0.1:80/tcp: kernel said: no such module",
        "slot 0 of 10.96.0.1:80/tcp: kernel said: no such module",
        "size 1: kernel said: no such module",
    ];
    assert_eq!(proxy.reconciler.left(), left);
    proxy.kernel().forgive();
    proxy.reconciler.forget();
    assert_eq!(proxy.sync().unwrap().deleted, left.len());
    assert!(proxy.reconciler.left().is_empty());
}
