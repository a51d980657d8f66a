//! The reconciler against a kernel that fails, lacks something and is tampered with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use proptest::prelude::*;

use crate::{
    Backend, BackendError, Change, Delta, Objects, Parts, Reconciler, Refusal, Report, Upkeep,
};

type Owner = u8;

/// What an owner wants: names, each in a slot of its own, and an object that it shares with all
/// owners who want as many.
type Plan = BTreeSet<u8>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Standing,
    Slot(Owner, usize),
    /// Shared.
    Size(usize),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A name in a slot, the scene that it was written for, or nothing.
type Object = Option<(u8, u8)>;

#[derive(Clone, Copy, Debug)]
enum Failure {
    BeforeWriting,
    AfterWriting,
}

#[derive(Debug, Default)]
struct Kernel {
    objects: BTreeMap<Key, Object>,
    /// Of these, what nothing leads to: only a question by key or a listing finds it.
    unreachable: BTreeSet<Key>,
    /// The next look shows what is unreachable, too.
    is_listed: bool,
    /// The next write fails.
    failure: Option<Failure>,
    /// Owners who want this name need what the machine lacks.
    lacks: Option<u8>,
    /// As the last look found.
    known_lack: Option<u8>,
    transactions: usize,
}

impl Kernel {
    fn hide(&mut self, key: Key) {
        self.objects.entry(key.clone()).or_insert(Some((98, 0)));
        self.unreachable.insert(key);
    }
}

fn failed() -> BackendError {
    BackendError {
        operation: "apply".into(),
        reason: "out of luck".into(),
        source: None,
    }
}

impl Backend for Kernel {
    type Owner = Owner;
    type Plan = Plan;
    type Scene = u8;
    type Key = Key;
    type Object = Object;
    type Placement = Vec<u8>;

    const SCENE_SHAPES_OWNERS: bool = true;

    fn is_shared(key: &Key) -> bool {
        matches!(key, Key::Size(_))
    }

    fn standing(&self, scene: &u8) -> Objects<Self> {
        // A size that owners may want, too.
        vec![(Key::Standing, Some((0, *scene))), (Key::Size(1), None)]
    }

    /// Names that stay keep their slots, as far as these are dense.
    fn place(&mut self, plan: &Plan, previous: Option<(&Plan, &Vec<u8>)>) -> Vec<u8> {
        let mut slots = previous.map(|(_, it)| it.clone()).unwrap_or_default();
        let mut waiting = plan.clone();
        slots.retain(|it| waiting.remove(it));
        slots.extend(waiting);
        slots
    }

    fn recover(&self, plan: &Plan, observed: &BTreeMap<Key, Object>) -> Vec<u8> {
        let names = observed.values().flatten().map(|(name, _)| *name);
        names.filter(|it| plan.contains(it)).collect()
    }

    fn probe(&mut self) -> Result<bool, BackendError> {
        Ok(self.known_lack != self.lacks)
    }

    fn lacks(&self, _: &u8, plan: &Plan, _: &Vec<u8>) -> Option<Refusal> {
        let lack = self.known_lack.filter(|it| plan.contains(it))?;
        Some(Refusal {
            reason: format!("no {lack} here"),
            is_served: false,
        })
    }

    fn render(&self, scene: &u8, plan: &Plan, slots: &Vec<u8>) -> Objects<Self> {
        let owner = *plan.first().unwrap_or(&0) / 10;
        let named = slots.iter().enumerate();
        let objects = named.map(|(slot, name)| (Key::Slot(owner, slot), Some((*name, *scene))));
        objects.chain([(Key::Size(slots.len()), None)]).collect()
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        self.known_lack = self.lacks;
        if std::mem::take(&mut self.is_listed) {
            self.unreachable.clear();
        }
        let mut objects = self.objects.clone();
        objects.retain(|key, _| !self.unreachable.contains(key));
        Ok(objects)
    }

    fn look_up(&mut self, keys: &[&Key]) -> Result<BTreeMap<Key, Object>, BackendError> {
        let mut found = BTreeMap::new();
        for key in keys.iter().copied() {
            if self.unreachable.remove(key) {
                found.insert(key.clone(), self.objects[key]);
            }
        }
        Ok(found)
    }

    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        if self.unreachable.is_empty() {
            return Ok(Upkeep::Nothing);
        }
        self.is_listed = true;
        Ok(Upkeep::Resync("there is what nothing leads to".into()))
    }

    /// One write in each part.
    fn parts(
        &self,
        scene: &u8,
        changes: &[Change<Plan, Vec<u8>>],
    ) -> Option<Box<dyn Parts<Key, Object>>> {
        let render = |held: Option<&(Arc<Plan>, Vec<u8>)>| {
            let objects = held.map(|(plan, slots)| self.render(scene, plan, slots));
            let objects = objects.into_iter().flatten();
            objects.filter(|(key, _)| !Self::is_shared(key))
        };
        let old = changes.iter().flat_map(|it| render(it.old.as_ref()));
        let new = changes.iter().flat_map(|it| render(it.new.as_ref()));
        let delta = Delta::between(old.collect(), new.collect());
        let mut parts = Writes::default();
        let add = delta.add.into_iter().map(|it| (vec![it], vec![], vec![]));
        let replace = delta.replace.into_iter();
        let replace = replace.map(|it| (vec![], vec![it], vec![]));
        let delete = delta.delete.into_iter();
        let delete = delete.map(|it| (vec![], vec![], vec![it]));
        let all = add.chain(replace).chain(delete);
        parts.0.extend(all.map(|(add, replace, delete)| Delta {
            add,
            replace,
            delete,
        }));
        Some(Box::new(parts))
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        self.transactions += 1;
        let failure = self.failure.take();
        let is_taken = delta
            .add
            .iter()
            .any(|(key, _)| self.unreachable.contains(key));
        if is_taken || matches!(failure, Some(Failure::BeforeWriting)) {
            return Err(failed());
        }
        for key in &delta.delete {
            assert!(self.objects.remove(key).is_some(), "{key} is not there");
        }
        for (key, object) in &delta.replace {
            let old = self.objects.insert(key.clone(), *object);
            assert!(old.is_some(), "{key} is not there");
        }
        for (key, object) in &delta.add {
            let old = self.objects.insert(key.clone(), *object);
            assert!(old.is_none(), "{key} exists");
        }
        match failure {
            Some(_) => Err(failed()),
            None => Ok(()),
        }
    }
}

/// Single writes.
#[derive(Debug, Default)]
struct Writes(VecDeque<Delta<Key, Object>>);

impl Parts<Key, Object> for Writes {
    fn next(&mut self, _: usize) -> Option<Delta<Key, Object>> {
        self.0.pop_front()
    }
}

/// A reconciler, what its owners want, and who changed.
struct World {
    reconciler: Reconciler<Kernel>,
    wanted: BTreeMap<Owner, Arc<Plan>>,
    changed: BTreeSet<Owner>,
    scene: u8,
    failed: bool,
    /// Of each part.
    limit: usize,
}

impl World {
    fn new() -> Self {
        Self {
            reconciler: Reconciler::new(Kernel::default()),
            wanted: BTreeMap::new(),
            changed: BTreeSet::new(),
            scene: 0,
            failed: true,
            limit: usize::MAX,
        }
    }

    /// Names are the owner's: those of 2 begin at 20. None at all is no owner.
    fn want(&mut self, owner: Owner, names: &[u8]) {
        let names: Plan = names.iter().map(|it| owner * 10 + it).collect();
        self.changed.insert(owner);
        if names.is_empty() {
            self.wanted.remove(&owner)
        } else {
            self.wanted.insert(owner, Arc::new(names))
        };
    }

    fn kernel(&mut self) -> &mut Kernel {
        self.reconciler.backend_mut()
    }

    /// Syncs and checks every law.
    fn sync(&mut self) -> Result<Report, BackendError> {
        let mut result = self
            .reconciler
            .sync(&self.scene, &self.wanted, &self.changed, self.limit);
        while result.is_ok() && self.reconciler.has_begun() {
            result = self.reconciler.go_on(self.limit);
        }
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        };
        assert!(report.full || !self.failed, "after a failure it observes");
        self.failed = false;
        self.changed.clear();
        self.check();
        let transactions = self.kernel().transactions;
        let nobody = BTreeSet::new();
        let again = self
            .reconciler
            .sync(&self.scene, &self.wanted, &nobody, usize::MAX);
        let again = again.expect("there is nothing to fail at");
        assert!(again.is_empty() && !again.full, "nothing changed");
        assert_eq!(self.kernel().transactions, transactions);
        Ok(report)
    }

    /// The kernel holds what is wanted of all who are not refused, and nothing else but what is
    /// unreachable.
    fn check(&self) {
        let kernel = self.reconciler.backend();
        let refusals = self.reconciler.refusals();
        let mut names = BTreeSet::new();
        let mut sizes = BTreeSet::from([1]);
        for (owner, plan) in &self.wanted {
            let lacks = kernel.known_lack.is_some_and(|it| plan.contains(&it));
            assert_eq!(refusals.contains_key(owner), lacks, "{owner}");
            if !lacks {
                names.extend(plan.iter().map(|it| (*owner, *it)));
                sizes.insert(plan.len());
            }
        }
        assert!(refusals.keys().all(|it| self.wanted.contains_key(it)));
        let mut held = BTreeSet::new();
        let mut shared = BTreeSet::new();
        let reachable = |it: &(&Key, &Object)| !kernel.unreachable.contains(it.0);
        for (key, object) in kernel.objects.iter().filter(reachable) {
            match (key, object) {
                (Key::Slot(owner, _), Some((name, scene))) => {
                    assert_eq!(*scene, self.scene, "{key}");
                    held.insert((*owner, *name));
                }
                (Key::Size(size), None) => drop(shared.insert(*size)),
                (Key::Standing, Some((_, scene))) => assert_eq!(*scene, self.scene),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((held, shared), (names, sizes));
    }
}

#[derive(Clone, Debug)]
enum Move {
    Want(Owner, Vec<u8>),
    Scene(u8),
    Fail(Failure),
    Lack(Option<u8>),
    /// Someone removes, changes and adds objects, and we are told.
    Tamper(usize),
    /// Someone puts an object where nothing leads to it, or takes away what led to one, and we are
    /// told.
    Hide(Owner, usize),
    Upkeep,
    Forget,
    Doubt,
}

fn step() -> impl Strategy<Value = Move> {
    let names = prop::collection::vec(0u8..5, 0..4);
    prop_oneof![
        8 => (1u8..5, names).prop_map(|(owner, names)| Move::Want(owner, names)),
        1 => (0u8..3).prop_map(Move::Scene),
        1 => Just(Move::Fail(Failure::BeforeWriting)),
        1 => Just(Move::Fail(Failure::AfterWriting)),
        1 => prop::option::of(10u8..50).prop_map(Move::Lack),
        2 => (0usize..64).prop_map(Move::Tamper),
        2 => (1u8..5, 0usize..4).prop_map(|(owner, slot)| Move::Hide(owner, slot)),
        1 => Just(Move::Upkeep),
        1 => Just(Move::Forget),
        1 => Just(Move::Doubt),
    ]
}

fn tamper(kernel: &mut Kernel, at: usize) {
    let keys: Vec<Key> = kernel.objects.keys().cloned().collect();
    let pick = |offset: usize| keys.get((at + offset) % keys.len().max(1)).cloned();
    if let Some(key) = pick(0) {
        kernel.objects.remove(&key);
        kernel.unreachable.remove(&key);
    }
    if let Some(key) = pick(7)
        && let Some(Some((name, _))) = kernel.objects.get_mut(&key)
    {
        *name = 99;
    }
    kernel.objects.insert(Key::Slot(9, 3), Some((93, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_kernel_follows(
        steps in prop::collection::vec(step(), 1..16),
        limit in prop_oneof![Just(1), Just(usize::MAX)],
    ) {
        let mut world = World::new();
        world.limit = limit;
        for step in steps {
            match step {
                Move::Want(owner, names) => world.want(owner, &names),
                Move::Scene(scene) => world.scene = scene,
                Move::Fail(failure) => world.kernel().failure = Some(failure),
                Move::Lack(name) => world.kernel().lacks = name,
                Move::Tamper(at) => {
                    tamper(world.kernel(), at);
                    world.reconciler.doubt();
                }
                Move::Hide(owner, slot) => {
                    world.kernel().hide(Key::Slot(owner, slot));
                    world.reconciler.forget();
                }
                Move::Upkeep => drop(world.reconciler.upkeep()),
                Move::Forget => world.reconciler.forget(),
                Move::Doubt => world.reconciler.doubt(),
            }
            let _ = world.sync();
        }
        // One attempt repairs everything, and a resync finds no more to do.
        world.kernel().failure = None;
        world.kernel().lacks = None;
        world.reconciler.forget();
        world.sync().expect("nothing fails any more");
        prop_assert!(world.reconciler.refusals().is_empty());
        if world.reconciler.upkeep().expect("nothing fails any more") != Upkeep::Nothing {
            world.sync().expect("nothing fails any more");
        }
        prop_assert!(world.kernel().unreachable.is_empty());
        world.reconciler.forget();
        let report = world.sync().expect("nothing fails any more");
        prop_assert!(report.full && report.is_empty());
    }
}

#[test]
fn a_change_writes_what_changed() {
    let mut world = World::new();
    world.want(1, &[1, 2]);
    world.want(2, &[1, 2]);
    let first = world.sync().unwrap();
    assert_eq!(first.to_string(), "added 7, replaced 0, deleted 0");
    world.want(1, &[1, 3]);
    let report = world.sync().unwrap();
    assert_eq!(report.to_string(), "added 0, replaced 1, deleted 0");
    // The size is shared until its last owner goes.
    world.want(1, &[]);
    assert_eq!(world.sync().unwrap().deleted, 2);
    world.want(2, &[]);
    assert_eq!(world.sync().unwrap().deleted, 3);
}

#[test]
fn a_failed_write_is_followed_by_a_look() {
    for failure in [Failure::BeforeWriting, Failure::AfterWriting] {
        let mut world = World::new();
        world.want(1, &[1]);
        world.kernel().failure = Some(failure);
        assert!(world.sync().is_err());
        assert!(world.sync().unwrap().full);
        world.want(1, &[2]);
        world.kernel().failure = Some(failure);
        assert!(world.sync().is_err());
        assert!(world.sync().unwrap().full);
    }
}

#[test]
fn only_what_differs_from_the_belief_is_foreign() {
    let mut world = World::new();
    for owner in 1..4 {
        world.want(owner, &[1, 2]);
    }
    world.sync().unwrap();
    let mut check = |foreign: usize, change: &dyn Fn(&mut World)| {
        change(&mut world);
        world.reconciler.doubt();
        let report = world.sync().unwrap();
        assert!(report.full);
        assert_eq!(report.foreign, foreign, "{report}");
    };
    check(0, &|_| {});
    // Replaced, deleted with its size, and new; a shared size goes with its last owner.
    check(0, &|it| it.want(1, &[1, 3]));
    check(0, &|it| it.want(2, &[]));
    check(0, &|it| it.want(4, &[1, 2, 3]));
    check(0, &|it| it.scene = 2);
    check(1, &|it| {
        it.want(1, &[1, 4]);
        it.kernel().objects.insert(Key::Slot(8, 3), Some((83, 0)));
    });
    check(2, &|it| {
        it.want(4, &[]);
        it.kernel().objects.insert(Key::Slot(9, 3), Some((93, 0)));
        it.kernel().objects.remove(&Key::Standing);
    });
    check(0, &|_| {});
}

#[test]
fn a_restart_moves_nothing() {
    let mut world = World::new();
    world.want(1, &[1, 2, 3]);
    world.sync().unwrap();
    world.want(1, &[2, 3, 0]);
    world.sync().unwrap();
    let kernel = Kernel {
        objects: world.kernel().objects.clone(),
        ..Kernel::default()
    };
    world.reconciler = Reconciler::new(kernel);
    let report = world.sync().unwrap();
    assert!(report.full && report.is_empty(), "{report}");
}

#[test]
fn what_nothing_leads_to_is_in_the_way_for_one_sync_at_most() {
    let mut world = World::new();
    world.want(1, &[1, 2]);
    world.sync().unwrap();
    // One that is wanted, one that is not.
    world.kernel().hide(Key::Slot(1, 1));
    world.kernel().hide(Key::Slot(1, 2));
    world.reconciler.forget();
    assert!(world.sync().unwrap().is_empty(), "it is as it should be");
    world.want(1, &[1, 2, 3]);
    assert!(world.sync().is_err(), "the place is taken");
    assert_eq!(world.sync().unwrap().replaced, 1);

    world.kernel().hide(Key::Slot(4, 0));
    world.reconciler.forget();
    assert!(world.sync().unwrap().is_empty());
    assert!(matches!(world.reconciler.upkeep(), Ok(Upkeep::Resync(_))));
    assert_eq!(world.sync().unwrap().deleted, 1);
    assert_eq!(world.reconciler.upkeep().unwrap(), Upkeep::Nothing);
}

#[test]
fn what_the_machine_lacks_hurts_only_who_needs_it() {
    let mut world = World::new();
    world.kernel().lacks = Some(13);
    world.want(1, &[3]);
    world.want(2, &[3]);
    world.sync().unwrap();
    assert_eq!(world.reconciler.refusals()[&1].reason, "no 13 here");
    // What it had before goes: the lack may have come with an update of the machine.
    world.want(1, &[4]);
    world.sync().unwrap();
    world.want(1, &[3, 4, 0]);
    assert_eq!(world.sync().unwrap().deleted, 1);
    world.reconciler.probe().unwrap();
    assert!(!world.reconciler.is_resync_due(), "it is still not there");
    world.kernel().lacks = None;
    world.reconciler.probe().unwrap();
    assert!(world.sync().unwrap().full);
    assert!(world.reconciler.refusals().is_empty());
}
