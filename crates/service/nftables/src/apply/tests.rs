use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_model::IpFamily;
use sluice_nft::Kernel;
use sluice_nft::testing::Fake;
use sluice_plan::PortKey;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings, planner};
use sluice_plane::{Scale, Scene};
use sluice_reconcile::Reconciler;

use super::*;
use crate::backend::{Nftables, render_plan};
use crate::observe;
use crate::set::Counting;

type Objects = BTreeMap<Key, Object>;

fn difference(from: &Objects, to: &Objects) -> Delta<Key, Object> {
    let to: Vec<_> = to.clone().into_iter().collect();
    Delta::between(from.clone(), to)
}

fn apply(kernel: &mut Fake, delta: &Delta<Key, Object>) {
    for batch in transactions(delta) {
        if let Err(error) = kernel.commit(&batch) {
            panic!("{error}: {delta:?}");
        }
    }
}

/// Everything in our tables. The order of rules counts, that of chains and elements does not.
fn listing(kernel: &mut Fake) -> Vec<String> {
    let mut all = Vec::new();
    for scope in IpFamily::ALL.map(scope) {
        for chain in kernel.chains(scope).unwrap() {
            let rules = kernel.rules(scope, Some(&chain.name)).unwrap();
            all.push(format!("{chain:?} {rules:?}"));
        }
        for (set, _) in kernel.sets(scope).unwrap() {
            let visit = &mut |it: ElementRef<'_>| all.push(format!("{} {it:?}", set.name));
            kernel.for_each_element(scope, &set.name, visit).unwrap();
            all.push(format!("{set:?}"));
        }
    }
    all.sort();
    all
}

#[test]
fn a_chain_with_the_comment_of_an_earlier_version_is_not_written() {
    let wanted = planner(Settings::for_node("one"), Vec::new());
    let wanted = render_plan(wanted.plan(), Counting::Nothing);
    let mut earlier = wanted.clone();
    for object in earlier.values_mut() {
        if let Object::Chain(chain) = object {
            chain.comment = "other words".into();
        }
    }
    let mut kernel = Fake::new();
    apply(&mut kernel, &difference(&Objects::new(), &earlier));
    let mut held = Objects::new();
    for family in IpFamily::ALL {
        let (listed, _) = observe::table(&mut kernel, family, Counting::Nothing).unwrap();
        held.extend(listed);
    }
    assert!(difference(&held, &wanted).is_empty());
    assert_eq!(wanted.len(), held.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// No transaction leaves an object behind or names an object that does not exist, also when a difference is written in
    /// the smallest parts.
    #[test]
    fn the_kernel_takes_every_difference(
        settings in arbitrary_settings(),
        before in arbitrary_events(),
        after in arbitrary_events(),
    ) {
        let planners = [before, after].map(|events| planner(settings.clone(), events));
        let plans = planners.each_ref().map(|it| it.plan());
        let [before, after] = plans.map(|it| render_plan(it, Counting::Nothing));
        let [mut changed, mut fresh] = [Fake::new(), Fake::new()];
        let first = difference(&Objects::new(), &before);
        apply(&mut changed, &first);
        apply(&mut changed, &difference(&before, &after));
        apply(&mut fresh, &difference(&Objects::new(), &after));
        let wanted = listing(&mut fresh);
        prop_assert_eq!(listing(&mut changed), &wanted[..]);
        let mut reconciler = Reconciler::new(Nftables::on(Fake::new()));
        let ports = plans.map(|it| it.ports.keys().cloned());
        let ports: BTreeSet<PortKey> = ports.into_iter().flatten().collect();
        for plan in plans {
            let scene = Scene { node: plan.node.clone(), scale: Scale::Small };
            reconciler.sync(&scene, &plan.ports, &ports, 1).expect("the kernel takes it");
        }
        while reconciler.has_begun() {
            reconciler.go_on(1).expect("the kernel takes it");
        }
        reconciler.forget();
        let scene = Scene { node: plans[1].node.clone(), scale: Scale::Small };
        let report = reconciler.sync(&scene, &plans[1].ports, &ports, usize::MAX);
        prop_assert!(report.expect("the kernel takes it").is_empty());
    }
}
