//! Asks the plan what would happen, without a packet.

use std::collections::BTreeSet;

use sluice_model::Event;
use sluice_plan::lookup::{Fate, HostAddresses};
use sluice_plan::{Plan, Planner};

use super::proxy::Objects;
use super::world::{self, Flow};
use super::{Expect, Scenario, Seen, Step};

/// Runs a scenario against the plan alone: every check must agree with `Plan::lookup`.
///
/// # Panics
/// At the first check that does not, with all there is to know about it.
pub fn consult(scenario: &Scenario) {
    let host = world::home_addresses(scenario);
    let mut objects = Objects::new(host.clone());
    let mut planner = Planner::new(scenario.settings.clone());
    let tell = |planner: &mut Planner, events: Vec<Event>| {
        events.into_iter().for_each(|it| planner.absorb(it));
        planner.replan();
    };
    tell(&mut planner, objects.all());
    let mut asked = Vec::new();
    for (number, step) in (1..).zip(&scenario.steps) {
        let refuted = |flow: &Flow, why: String| {
            let Scenario { name, about, .. } = scenario;
            panic!("{name}: {about}\nstep {number}: {step:?}\n{flow:?}\n{why}");
        };
        match step {
            Step::Apply(manifests) => tell(&mut planner, objects.change(manifests)),
            Step::Check(check) => {
                for flow in world::flows(scenario, check.from, check.to) {
                    let verdict = verify(planner.plan(), &host, &flow, &check.expect);
                    verdict.unwrap_or_else(|why| refuted(&flow, why));
                    asked.push(flow);
                }
            }
            Step::Restart => {}
            Step::Hold { from, to } => {
                for flow in world::flows(scenario, from, to) {
                    if !matches!(
                        planner.plan().lookup(&flow.packet, &host),
                        Fate::Balance { .. }
                    ) {
                        refuted(&flow, "nobody to connect to".to_owned());
                    }
                }
            }
        }
    }
    tell(&mut planner, objects.change(""));
    assert_forgotten(scenario, planner.plan(), &asked);
}

/// Asserts that a plan without objects touches no packet.
pub(super) fn assert_forgotten(scenario: &Scenario, plan: &Plan, asked: &[Flow]) {
    let name = scenario.name;
    assert!(plan.ports.is_empty(), "{name}: plans nobody asks for");
    let host = world::home_addresses(scenario);
    for flow in asked {
        let fate = plan.lookup(&flow.packet, &host);
        assert_eq!(fate, Fate::NotService, "{name}: nothing exists: {flow:?}");
    }
}

/// Whether the plan says of a flow what is expected; if not, why.
pub(super) fn verify(
    plan: &Plan,
    host: &HostAddresses,
    flow: &Flow,
    expect: &Expect,
) -> Result<(), String> {
    let fate = plan.lookup(&flow.packet, host);
    let agrees = match (expect, &fate) {
        (Expect::Answers { by, seen }, Fate::Balance { .. }) => {
            return same_pool(&fate, by).and_then(|()| same_source(&fate, flow, host, *seen));
        }
        (
            Expect::Stays { among, .. }
            | Expect::Moves { among, .. }
            | Expect::Refreshes { among, .. },
            Fate::Balance { port, .. },
        ) => {
            same_pool(&fate, among)?;
            port.affinity_seconds.is_some()
        }
        (Expect::Refused, Fate::Reject(_))
        | (Expect::Dropped, Fate::Drop(_))
        | (Expect::Untouched(_), Fate::NotService) => true,
        _ => false,
    };
    match agrees {
        true => Ok(()),
        false => Err(format!("the plan says {fate:?}")),
    }
}

fn same_pool(fate: &Fate<'_>, wanted: &BTreeSet<&'static str>) -> Result<(), String> {
    let names = pool_names(fate);
    let wanted: BTreeSet<String> = wanted.iter().map(|it| (*it).to_owned()).collect();
    match names == wanted {
        true => Ok(()),
        false => Err(format!("the plan balances over {names:?}")),
    }
}

fn pool_names(fate: &Fate<'_>) -> BTreeSet<String> {
    match fate {
        Fate::Balance { pool, .. } => {
            let all = pool.endpoints().iter();
            all.map(|it| world::endpoint_name(it.addr)).collect()
        }
        _ => BTreeSet::new(),
    }
}

fn same_source(
    fate: &Fate<'_>,
    flow: &Flow,
    host: &HostAddresses,
    seen: Seen,
) -> Result<(), String> {
    let Fate::Balance { pool, .. } = fate else {
        return Ok(());
    };
    for endpoint in pool.endpoints() {
        let address = endpoint.addr.ip();
        let masquerades = fate.masquerades(&flow.packet, address, host);
        let wanted = match seen {
            Seen::Client => false,
            Seen::Node => true,
            Seen::ClientUnlessItself => flow.packet.source == address,
        };
        if masquerades != wanted {
            return Err(format!("the plan says masquerade {masquerades}: {fate:?}"));
        }
    }
    Ok(())
}
