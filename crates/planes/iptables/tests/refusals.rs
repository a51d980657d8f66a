//! What the program takes and the kernel does not. The legacy kernel refuses whole tables and names
//! no rule.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
// Each test file needs a part of it.
#[expect(dead_code, reason = "shared with the other tests")]
#[macro_use]
mod common;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use common::{Node, facts, in_namespace, iptables, programs, save};
use sluice_iptables::{Conntrack, Iptables, Key, Object};
use sluice_lab::require_netns;
use sluice_model::{Event, IpFamily};
use sluice_plan::PortPlan;
use sluice_plan::backend::{ApplyError, Backend, BackendError, Objects, Scene};
use sluice_plan::delta::Delta;
use sluice_plan::testing::{endpoints, service};
use sluice_xtables::extension::Extension;
use sluice_xtables::programs::Variant;
use sluice_xtables::rule::{Match, Rule};
use sluice_xtables::trial::{self, Candidate};

for_each_variant! {
    one_object_hurts_only_its_service
    a_first_sync_leaves_them_out
    chains_that_go_meanwhile_come_back
}

/// The backend, with a rule for endpoints of some Services that no kernel takes: a list of `recent`
/// is a file, whose name has no slash.
#[derive(Debug)]
struct Poisoned {
    backend: Iptables,
    is_on: Rc<Cell<bool>>,
    /// What somebody else does between our look and our next write.
    meanwhile: Rc<Cell<Option<&'static str>>>,
}

impl Backend for Poisoned {
    type Key = Key;
    type Object = Object;
    type Placement = ();

    const LARGE: usize = Iptables::LARGE;
    const SCENE_SHAPES_PORTS: bool = Iptables::SCENE_SHAPES_PORTS;

    fn is_shared(key: &Key) -> bool {
        Iptables::is_shared(key)
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        self.backend.standing(scene)
    }

    fn place(&mut self, port: &PortPlan, _: Option<(&PortPlan, &())>) {
        self.backend.place(port, None);
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) {
        self.backend.recover(port, observed);
    }

    fn render(&self, scene: &Scene, port: &PortPlan, _: &()) -> Objects<Self> {
        let mut objects = self.backend.render(scene, port, &());
        let list = "no/file".into();
        let poison = Rule::count([Match::Remember { list }]);
        let is_bad = port.key.name.service.name.starts_with("bad");
        for (key, object) in &mut objects {
            let is_endpoint = key.place().chain.as_str().starts_with("KUBE-SEP-");
            if let Object::Rules(rules) = object
                && is_endpoint
                && is_bad
                && self.is_on.get()
            {
                *rules = std::iter::once(poison.clone())
                    .chain(rules.iter())
                    .collect();
            }
        }
        objects
    }

    fn retries_alone(&self) -> bool {
        self.backend.retries_alone()
    }

    fn is_undisturbed(&mut self) -> bool {
        self.backend.is_undisturbed()
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        self.backend.observe()
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), ApplyError<Key>> {
        if let Some(arguments) = self.meanwhile.take() {
            iptables(self.backend.programs().variant(), arguments);
        }
        self.backend.apply(delta)
    }
}

fn poisoned(variant: Variant) -> (Node<Poisoned>, Rc<Cell<bool>>) {
    let is_on = Rc::new(Cell::new(true));
    let poisoned = Poisoned {
        backend: Iptables::open(programs(variant), Conntrack::Strict).unwrap(),
        is_on: is_on.clone(),
        meanwhile: Rc::default(),
    };
    let mut node = Node::empty(poisoned);
    node.add_examples();
    (node, is_on)
}

/// A line is refused where it belongs and not by itself: what it needs went while we wrote.
fn chains_that_go_meanwhile_come_back(variant: Variant) {
    let (mut node, _) = poisoned(variant);
    node.sync(&BTreeSet::new());
    let before = facts(variant);
    iptables(variant, "-t filter -F");
    node.reconciler.forget();
    let meanwhile = node.reconciler.backend().meanwhile.clone();
    meanwhile.set(Some("-t filter -X"));
    node.try_sync(&BTreeSet::new()).unwrap_err();
    assert!(settle(&mut node) <= 1);
    assert_eq!(facts(variant), before);
    assert!(node.reconciler.refused().is_empty());
}

/// Of both families.
fn both(name: &str, number: usize) -> Vec<Event> {
    let mut events = vec![service(&format!(
        "default/{name} 10.99.7.{number} fd00:10:96::7:{number} :80"
    ))];
    let pool = format!("10.244.0.{number}:80@ [fd00:10:244::{number}]:80@");
    events.extend(endpoints(&format!("default/{name}"), &pool));
    events
}

fn refused(node: &Node<Poisoned>) -> BTreeSet<String> {
    let refused = node.reconciler.refused().iter();
    let named = refused.map(|(key, why)| {
        assert!(why.reason.contains("--name no/file"), "{why:?}");
        format!("{} {}", key.family, key.name)
    });
    named.collect()
}

const BAD: [&str; 4] = [
    "IPv4 default/bad1",
    "IPv4 default/bad2",
    "IPv6 default/bad1",
    "IPv6 default/bad2",
];

/// Syncs until one succeeds, as the agent does; returns how many failed.
fn settle(node: &mut Node<Poisoned>) -> usize {
    let failed = (0..10).take_while(|_| node.try_sync(&BTreeSet::new()).is_err());
    failed.count()
}

fn is_complete(variant: Variant) {
    for program in ["iptables", "ip6tables"] {
        let text = save(variant, program, &[]);
        for number in 0..20 {
            assert!(text.contains(&format!("default/good{number} ")), "{number}");
        }
        assert!(!text.contains("SLUICE-TRIAL"), "{text}");
    }
}

fn one_object_hurts_only_its_service(variant: Variant) {
    let (mut node, is_on) = poisoned(variant);
    node.sync(&BTreeSet::new());
    let good = (0..20).flat_map(|it| both(&format!("good{it}"), 10 + it));
    let bad = [both("bad1", 40), both("bad2", 41)].concat();
    let changed = node.absorb(good.chain(bad).collect());
    let error = node.try_sync(&changed).unwrap_err().to_string();
    assert!(
        error.contains("KUBE-SEP-") && error.contains("--name no/file"),
        "{error}"
    );
    let failed = settle(&mut node);
    assert!(failed <= 1, "each family once");
    assert_eq!(refused(&node), BAD.map(str::to_owned).into());
    is_complete(variant);

    // As long as nothing changes, nothing is written and nothing fails.
    let before = facts(variant);
    for _ in 0..2 {
        let report = node.resync();
        assert!(report.is_empty() && report.refused.len() == 4, "{report:?}");
    }
    assert_eq!(facts(variant), before);
    let report = node.change(both("good20", 42));
    assert!(report.added > 0 && report.refused.is_empty(), "{report:?}");
    assert_eq!(refused(&node).len(), 4);

    // Another try reads nothing, and is no change by somebody else.
    let report = node.retry();
    assert!(report.is_empty() && !report.full, "{report:?}");
    assert_eq!(refused(&node).len(), 4);
    assert_eq!(node.reconciler.is_undisturbed(), variant == Variant::Nft);

    // The kernel takes it now.
    is_on.set(false);
    let report = node.retry();
    assert!(report.added > 0 && !report.full, "{report:?}");
    assert!(refused(&node).is_empty());
    assert!(save(variant, "iptables", &[]).contains("default/bad1 cluster IP"));
    assert!(node.resync().is_empty());
}

fn a_first_sync_leaves_them_out(variant: Variant) {
    let (mut node, _) = poisoned(variant);
    let good = (0..20).flat_map(|it| both(&format!("good{it}"), 10 + it));
    let bad = [both("bad1", 40), both("bad2", 41)].concat();
    node.absorb(good.chain(bad).collect());
    assert!(settle(&mut node) <= 2);
    assert_eq!(refused(&node), BAD.map(str::to_owned).into());
    is_complete(variant);
    // What is left of an interrupted trial goes.
    iptables(variant, "-t nat -N SLUICE-TRIAL");
    iptables(variant, "-t nat -A SLUICE-TRIAL -j RETURN");
    node.resync();
    is_complete(variant);
}

/// The samples against what the program says when a person asks it for the same.
#[test]
fn trials_tell_what_the_kernel_has() {
    require_netns!();
    let arguments = [
        (Extension::Ipvs, "-m ipvs --ipvs"),
        (Extension::Recent, "-m recent --set --name A"),
        (
            Extension::Statistic,
            "-m statistic --mode random --probability 0.5",
        ),
        (Extension::Reject, "-j REJECT"),
    ];
    for variant in Variant::ALL {
        in_namespace(|| {
            let programs = programs(variant);
            for (extension, arguments) in arguments {
                let (table, rule) = extension.sample(IpFamily::V4, "LIST").unwrap();
                let candidate = Candidate {
                    owner: 3,
                    table,
                    rule: rule.clone(),
                };
                let found = trial::find(&[candidate], |it| programs.restore(IpFamily::V4, it));
                assert!(found.is_complete);
                let mut command = std::process::Command::new(format!("iptables-{variant}"));
                let lock = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock");
                command
                    .env("XTABLES_LOCKFILE", lock)
                    .args(["-w", "60", "-A", "FORWARD"]);
                let output = command.args(arguments.split(' ')).output().unwrap();
                let has = output.status.success();
                assert_eq!(
                    found.culprits.is_empty(),
                    has,
                    "{variant} {extension}: {found:?}"
                );
            }
            assert!(!save(variant, "iptables", &[]).contains("SLUICE"));
        });
    }
}
