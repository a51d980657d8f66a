use std::collections::BTreeMap;

use proptest::prelude::*;
use sluice_model::IpFamily;
use sluice_nft::Kernel;
use sluice_nft::testing::Fake;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings, planner};

use super::*;
use crate::backend::render_plan;
use crate::divide::divide;
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
        let rendered = |events| render_plan(planner(settings.clone(), events).plan(), Counting::Nothing);
        let (before, after) = (rendered(before), rendered(after));
        let [mut changed, mut parted, mut fresh] = [Fake::new(), Fake::new(), Fake::new()];
        let first = difference(&Objects::new(), &before);
        apply(&mut changed, &first);
        apply(&mut changed, &difference(&before, &after));
        apply(&mut parted, &first);
        for part in divide(difference(&before, &after), 1) {
            apply(&mut parted, &part);
        }
        apply(&mut fresh, &difference(&Objects::new(), &after));
        let wanted = listing(&mut fresh);
        prop_assert_eq!(listing(&mut changed), &wanted[..]);
        prop_assert_eq!(listing(&mut parted), wanted);
    }
}
