//! What the program takes and the kernel does not. The legacy kernel refuses whole tables and names
//! no rule.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::common::{facts, in_namespace, iptables, programs, save};
use sluice_iptables::{Conntrack, Iptables, Key, Object};
use sluice_lab::require_netns;
use sluice_model::IpFamily;
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, service};
use sluice_plan::{PortKey, PortPlan};
use sluice_plane::{Proxy, Scene, ServiceBackend};
use sluice_reconcile::{Backend, BackendError, Delta, Objects};
use sluice_scenarios::{Drive as _, golden};
use sluice_xtables::extension::Extension;
use sluice_xtables::probe;
use sluice_xtables::programs::Variant;
use sluice_xtables::rule::{Match, Rule};

for_each_variant! {
    a_refused_rule_fails_the_sync_and_is_named
    chains_that_go_meanwhile_come_back
}

/// The data plane, with a rule for endpoints of some Services that no kernel takes: a list of
/// `recent` is a file, whose name has no slash.
#[derive(Debug)]
struct Poisoned {
    plane: Iptables,
    is_on: Rc<Cell<bool>>,
    /// What somebody else does between our look and our next write.
    meanwhile: Rc<Cell<Option<&'static str>>>,
}

impl Backend for Poisoned {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = Key;
    type Object = Object;
    type Placement = ();

    const SCENE_SHAPES_OWNERS: bool = Iptables::SCENE_SHAPES_OWNERS;

    fn is_shared(key: &Key) -> bool {
        Iptables::is_shared(key)
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        self.plane.standing(scene)
    }

    fn place(&mut self, port: &PortPlan, _: Option<(&PortPlan, &())>) {
        self.plane.place(port, None);
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) {
        self.plane.recover(port, observed);
    }

    fn render(&self, scene: &Scene, port: &PortPlan, _: &()) -> Objects<Self> {
        let mut objects = self.plane.render(scene, port, &());
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

    fn is_undisturbed(&mut self) -> bool {
        self.plane.is_undisturbed()
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        self.plane.observe()
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        if let Some(arguments) = self.meanwhile.take() {
            iptables(self.plane.programs().variant(), arguments);
        }
        self.plane.apply(delta)
    }
}

impl ServiceBackend for Poisoned {
    const LARGE: usize = Iptables::LARGE;
    const PART: usize = Iptables::PART;

    fn cost(port: &PortPlan) -> usize {
        Iptables::cost(port)
    }
}

fn poisoned(variant: Variant) -> (Proxy<Poisoned>, Rc<Cell<bool>>) {
    let is_on = Rc::new(Cell::new(true));
    let poisoned = Poisoned {
        plane: Iptables::with(programs(variant), Conntrack::Strict).unwrap(),
        is_on: is_on.clone(),
        meanwhile: Rc::default(),
    };
    let mut node = Proxy::new(golden::with_localhost_node_ports(), poisoned);
    node.tell(golden::events(&golden::folder()));
    (node, is_on)
}

/// A line is refused where it belongs and not by itself: what it needs went while we wrote.
fn chains_that_go_meanwhile_come_back(variant: Variant) {
    let (mut node, _) = poisoned(variant);
    node.synced();
    let before = facts(variant);
    iptables(variant, "-t filter -F");
    node.reconciler_mut().forget();
    let meanwhile = node.reconciler().backend().meanwhile.clone();
    meanwhile.set(Some("-t filter -X"));
    node.try_sync().unwrap_err();
    node.synced();
    assert_eq!(facts(variant), before);
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

fn a_refused_rule_fails_the_sync_and_is_named(variant: Variant) {
    let (mut node, is_on) = poisoned(variant);
    node.synced();
    node.tell([both("good", 10), both("bad", 40)].concat());
    for _ in 0..2 {
        let error = node.try_sync().unwrap_err().to_string();
        match variant {
            Variant::Nft => assert!(
                error.contains("KUBE-SEP-") && error.contains("--name no/file"),
                "{error}"
            ),
            Variant::Legacy => assert!(error.contains("COMMIT"), "{error}"),
        }
    }
    is_on.set(false);
    assert!(node.synced().full, "after a failure it observes");
    let text = save(variant, "iptables", &[]);
    for name in ["good", "bad"] {
        assert!(
            text.contains(&format!("default/{name} cluster IP")),
            "{text}"
        );
    }
    assert!(node.resync().is_empty());
}

/// The samples against what the program says when a person asks it for the same.
#[test]
fn probes_tell_what_the_kernel_has() {
    require_netns!();
    let arguments = [
        (Extension::Mark, "-m mark --mark 0x1/0x1"),
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
                let sample = extension.sample(IpFamily::V4).unwrap();
                let refused =
                    probe::refused(&[sample], |script| programs.restore(IpFamily::V4, script));
                let refused = refused.unwrap();
                let mut command = std::process::Command::new(format!("iptables-{variant}"));
                let lock = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock");
                command
                    .env("XTABLES_LOCKFILE", lock)
                    .args(["-w", "60", "-A", "FORWARD"]);
                let output = command.args(arguments.split(' ')).output().unwrap();
                let has = output.status.success();
                assert_eq!(
                    refused.is_empty(),
                    has,
                    "{variant} {extension}: {refused:?}"
                );
            }
            assert!(!save(variant, "iptables", &[]).contains("SLUICE"));
        });
    }
}
