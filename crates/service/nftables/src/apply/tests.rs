use std::collections::BTreeMap;

use proptest::prelude::*;
use sluice_model::IpFamily;
use sluice_nft::Kernel;
use sluice_nft::testing::Fake;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings, planner};

use super::*;
use crate::backend::render_plan;
use crate::set::Counting;

type Objects = BTreeMap<Key, Object>;

fn apply(kernel: &mut Fake, from: &Objects, to: &Objects) {
    let to: Vec<_> = to.clone().into_iter().collect();
    let delta = Delta::between(from.clone(), to);
    for batch in transactions(&delta) {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// No transaction leaves an object behind or names an object that does not exist.
    #[test]
    fn the_kernel_takes_every_difference(
        settings in arbitrary_settings(),
        before in arbitrary_events(),
        after in arbitrary_events(),
    ) {
        let rendered = |events| render_plan(planner(settings.clone(), events).plan(), Counting::Nothing);
        let (before, after) = (rendered(before), rendered(after));
        let (mut changed, mut fresh) = (Fake::new(), Fake::new());
        apply(&mut changed, &Objects::new(), &before);
        apply(&mut changed, &before, &after);
        apply(&mut fresh, &Objects::new(), &after);
        prop_assert_eq!(listing(&mut changed), listing(&mut fresh));
    }
}
