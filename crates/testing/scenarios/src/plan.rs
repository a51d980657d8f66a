//! Runs scenarios on the plan alone, without packets.

use std::collections::BTreeSet;

use sluice_plan::Event;
use sluice_plan::explain::{self, Decision};
use sluice_plan::lookup::Lookup;
use sluice_plan::state::HostAddresses;
use sluice_plan::{Plan, Planner, Pool, Verdict};

use super::objects::Objects;
use super::world::{self, Flow};
use super::{Expect, Scenario, Seen, Step};

/// Runs a scenario on the plan alone: `Plan::lookup` must agree with every check.
///
/// # Panics
/// At the first check that it does not agree with.
pub fn run_on_plan(scenario: &Scenario) {
    let host = world::host_addresses(scenario);
    let mut objects = Objects::new(host.clone());
    let mut planner = Planner::new(scenario.settings.clone());
    let tell = |planner: &mut Planner, events: Vec<Event>| {
        events.into_iter().for_each(|it| planner.absorb(it));
        planner.replan();
    };
    tell(&mut planner, objects.all());
    let mut flows = Vec::new();
    for (number, step) in (1..).zip(&scenario.steps) {
        let refuted = |flow: &Flow, why: String| {
            let Scenario { name, about, .. } = scenario;
            panic!("{name}: {about}\nstep {number}: {step:?}\n{flow:?}\n{why}");
        };
        match step {
            Step::Apply(manifests) => tell(&mut planner, objects.change(manifests)),
            Step::Check(check) => {
                for flow in world::flows(scenario, check.from, check.to) {
                    let verdict = verify(&planner, &host, &flow, &check.expect);
                    verdict.unwrap_or_else(|why| refuted(&flow, why));
                    flows.push(flow);
                }
            }
            Step::Restart => {}
            Step::Hold { from, to } => {
                for flow in world::flows(scenario, from, to) {
                    if planner.plan().lookup(&flow.packet, &host).pool.is_none() {
                        refuted(&flow, "no endpoint to connect to".to_owned());
                    }
                }
            }
        }
    }
    tell(&mut planner, objects.change(""));
    assert_no_service(scenario, planner.plan(), &flows);
}

/// Asserts that a plan without objects changes no packet.
pub(super) fn assert_no_service(scenario: &Scenario, plan: &Plan, flows: &[Flow]) {
    let name = scenario.name;
    assert!(plan.ports.is_empty(), "{name}: plans of deleted Services");
    let host = world::host_addresses(scenario);
    for flow in flows {
        let verdict = plan.lookup(&flow.packet, &host).verdict;
        assert_eq!(verdict, None, "{name}: nothing exists: {flow:?}");
    }
}

/// Compares the plan's lookup of a flow with the expected result, and what `sluice explain` says with the
/// lookup.
///
/// # Errors
/// What the plan says instead.
pub(super) fn verify(
    planner: &Planner,
    host: &HostAddresses,
    flow: &Flow,
    expect: &Expect,
) -> Result<(), String> {
    let lookup = planner.plan().lookup(&flow.packet, host);
    is_explained(planner, host, flow, &lookup)?;
    let agrees = match (expect, lookup.verdict) {
        (Expect::Answers { by, seen }, Some(Verdict::Balance(_))) => {
            return same_pool(&lookup, by).and_then(|()| same_source(&lookup, flow, host, *seen));
        }
        (
            Expect::Stays { among, .. }
            | Expect::Moves { among, .. }
            | Expect::Refreshes { among, .. },
            Some(Verdict::Balance(_)),
        ) => {
            same_pool(&lookup, among)?;
            let found = lookup.found;
            found.is_some_and(|(port, _)| port.affinity_seconds.is_some())
        }
        (Expect::Refused, Some(Verdict::Reject))
        | (Expect::Dropped, Some(Verdict::Drop))
        | (Expect::Untouched(_), None) => true,
        _ => false,
    };
    if agrees {
        Ok(())
    } else {
        Err(format!("the plan says {lookup:?}"))
    }
}

/// Whether the answer to the flow as a question of a person is the lookup: verdict, endpoints and the
/// client that they see.
fn is_explained(
    planner: &Planner,
    host: &HostAddresses,
    flow: &Flow,
    lookup: &Lookup<'_>,
) -> Result<(), String> {
    let packet = &flow.packet;
    let to = format!("{}/{}", flow.target(), packet.protocol);
    let from = packet.source.to_string();
    let answer = explain::answer(planner, &from, &to, packet.interface.as_deref());
    let answer = answer.map_err(|unclear| format!("explain {from} {to}: {unclear}"))?;
    let decision = match lookup.verdict {
        Some(Verdict::Balance(_)) => Decision::Balance,
        Some(Verdict::Drop) => Decision::Drop,
        Some(Verdict::Reject) => Decision::Reject,
        None => Decision::NotService,
    };
    let members = answer.service.iter().flat_map(|it| &it.endpoints);
    let members = members.filter(|it| it.included);
    let explained: BTreeSet<_> = members.map(|it| (it.address, it.masqueraded)).collect();
    let endpoints = lookup.pool.into_iter().flat_map(Pool::endpoints);
    let planned = endpoints.map(|it| {
        let masquerades = lookup.masquerades(packet, it.addr.ip(), host);
        (it.addr, masquerades)
    });
    if answer.verdict == decision && explained == planned.collect() {
        Ok(())
    } else {
        Err(format!("explain says {answer}\nthe plan says {lookup:?}"))
    }
}

fn same_pool(lookup: &Lookup<'_>, wanted: &BTreeSet<&'static str>) -> Result<(), String> {
    let endpoints = lookup.pool.into_iter().flat_map(Pool::endpoints);
    let names: BTreeSet<String> = endpoints.map(|it| world::endpoint_name(it.addr)).collect();
    let wanted: BTreeSet<String> = wanted.iter().map(|it| (*it).to_owned()).collect();
    if names == wanted {
        Ok(())
    } else {
        Err(format!("the plan balances over {names:?}"))
    }
}

fn same_source(
    lookup: &Lookup<'_>,
    flow: &Flow,
    host: &HostAddresses,
    seen: Seen,
) -> Result<(), String> {
    for endpoint in lookup.pool.into_iter().flat_map(Pool::endpoints) {
        let address = endpoint.addr.ip();
        let masquerades = lookup.masquerades(&flow.packet, address, host);
        let wanted = match seen {
            Seen::Client => false,
            Seen::Node => true,
            Seen::ClientUnlessItself => flow.packet.source == address,
        };
        if masquerades != wanted {
            return Err(format!(
                "the plan says masquerade {masquerades}: {lookup:?}"
            ));
        }
    }
    Ok(())
}
