//! The rules that we render do with every packet what the plan says, as a person is told.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sluice_model::{IpFamily, LocalAddresses};
use sluice_plan::Event;
use sluice_plan::explain;
use sluice_plan::testing::{arbitrary_events, arbitrary_packet, arbitrary_settings, host, planner};

use super::*;
use crate::{Accounting, Conntrack, render_plan, text};

/// The chains of a table in the input of `iptables-restore`.
fn table(scripts: &BTreeMap<IpFamily, String>, family: IpFamily, table: Table) -> ByName {
    let mut chains = ByName::new();
    let script = scripts.get(&family).map_or("", String::as_str);
    let mut is_meant = false;
    for line in script.lines() {
        match line.strip_prefix('*') {
            Some(name) => is_meant = name == table.as_str(),
            // Jumps from the kernel's chains are inserted before their first rule.
            None if is_meant => match line.strip_prefix("-I ") {
                Some(first) => {
                    let chain = first.split(' ').next().unwrap_or_default();
                    add(&mut chains, &format!("-A {first}"));
                    let rules = chains.get_mut(chain).into_iter();
                    rules.for_each(|it| it.rotate_right(1));
                }
                None => add(&mut chains, line),
            },
            None => {}
        }
    }
    chains
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn rendered_rules_agree_with_the_plan(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..40),
    ) {
        let addresses = Event::LocalAddresses(LocalAddresses {
            all: host(),
            default_route: Vec::new(),
        });
        let planner = planner(settings, [addresses].into_iter().chain(events));
        let objects = render_plan(planner.plan(), Conntrack::Strict, Accounting::On);
        let scripts: BTreeMap<_, _> = text::script(&objects).into_iter().collect();
        let host = host();
        for packet in packets {
            let explanation = explain::explain(&planner, &packet, &host);
            let question = Question { packet, host: host.clone() };
            let family = question.family();
            let found = findings(&question, |it| Ok(table(&scripts, family, it)));
            let differences = found.unwrap().differences(&explanation);
            prop_assert!(differences.is_empty(), "{}\n{:?}", explanation, differences);
        }
    }
}
