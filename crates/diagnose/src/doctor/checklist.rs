//! All checks, in the order of a packet.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_model::{IpFamily, NamespacedName};
use sluice_plan::explain::{self, Decision, Explanation};
use sluice_plan::inventory::ServiceDetail;

use super::clock::clock;
use super::dialled::{dead_services, hops, node_port_numbers, targets};
use super::filters::filters;
use super::listed;
use super::machine::{conntrack, forwarding};
use super::names;
use super::names::NOBODY;
use super::path::path;
use super::pods::{PodState, containers, pods};
use super::policies::policies;
use super::ports::node_ports;
use super::probe::probe;
use super::proxy::{elsewhere, leftovers, proxy, stale, unanswered};
use super::question::Question;
use super::report::Finding;
use super::rules::rules;
use super::service::{decision, objects, policy};
use super::sources::{Plan, Sources};
use super::way::way;
use crate::trace::{Owner, Request, Source};

/// Most packets that are traced: each that is lost takes two seconds.
const TRACED: usize = 4;

/// Makes all checks.
///
/// # Errors
///
/// The question names no Service, or the agent does not answer any more.
pub fn check(question: &Question, sources: &dyn Sources) -> Result<Vec<Finding>, String> {
    let agent = sources.agent();
    let stale = agent.as_ref().ok().and_then(|it| stale(it.stale?));
    let stale = stale.or_else(|| sources.unanswered().map(unanswered));
    let proxy = proxy(&agent, stale.is_some());
    let mut findings: Vec<Finding> = stale.into_iter().chain([proxy]).collect();
    let elsewhere = sources.elsewhere().map(elsewhere);
    let is_here = elsewhere.is_none();
    findings.extend(elsewhere);
    if let Some(agent) = agent.as_ref().ok().filter(|_| is_here) {
        findings.extend(leftovers(agent.mode, sources.beside(agent.mode)));
    }
    if is_here {
        let first = |path: &str| sources.first_of(path);
        findings.extend(policies(agent.as_ref().ok(), first));
    }
    match (sources.plan(), &question.service) {
        (Some(plan), Some(service)) => {
            findings.extend(of_service(question, sources, plan, service, is_here)?);
        }
        (Some(plan), None) => findings.push(dead_services(&plan.services()?)),
        (None, _) => findings.push(
            Finding::skip("service", NOBODY)
                .mend("give --kubeconfig, --config of kube-proxy, or --manifests"),
        ),
    }
    if is_here {
        if question.service.is_none() {
            findings.extend(names::of_machine(question, sources));
        }
        findings.extend(conntrack());
        findings.extend(filters(|table, chain| {
            Owner::of(table, chain) != Owner::Foreign
        }));
    }
    findings.push(clock());
    Ok(findings)
}

/// The checks of one Service. `is_here`: the network namespace is that of the node.
fn of_service(
    question: &Question,
    sources: &dyn Sources,
    plan: &dyn Plan,
    service: &str,
    is_here: bool,
) -> Result<Vec<Finding>, String> {
    let named = explain::service_of(service).map_err(|_| {
        format!("SERVICE {service:?} is no Service as NAMESPACE/NAME, and no DNS name as NAME.NAMESPACE.svc")
    })?;
    let Some(name) = named else {
        return Err(format!(
            "SERVICE {service:?} is an address: `sluice explain` tells whose it is"
        ));
    };
    let detail = match plan.service(&name) {
        Ok(detail) => detail,
        Err(error) => {
            let pod = sources.pod(&name);
            return Ok(pod.map_or_else(
                || vec![Finding::fail("service", error)],
                |it| of_pod(&name, &it),
            ));
        }
    };
    let mut findings = objects(&detail);
    match sources.pods(&name) {
        Some(Ok(of)) => findings.extend(pods(&name.namespace, &of)),
        Some(Err(error)) => findings.push(Finding::skip("pods", error)),
        None => {}
    }
    let mut explanations: Vec<Explanation> = Vec::new();
    for (from, to) in packets(question.from.as_deref(), plan, &detail) {
        match plan.explain(from, &to) {
            Ok(it) if explanations.contains(&it) => {}
            Ok(it) => explanations.push(it),
            Err(error) => findings.push(Finding::skip("decision", error)),
        }
    }
    let is_asked = question.from.is_some();
    findings.extend(explanations.iter().map(|it| decision(it, is_asked)));
    if is_asked {
        // Frontends of one Service lead to the same endpoints.
        let mut policies: Vec<Finding> = Vec::new();
        for it in explanations.iter().filter_map(|it| policy(it, plan)) {
            if !policies.contains(&it) {
                policies.push(it);
            }
        }
        findings.extend(policies);
    }
    if !is_here {
        return Ok(findings);
    }
    if !explanations.is_empty() {
        findings.extend(rules(&explanations, plan.live(&explanations)));
    }
    let clients = explanations.iter().filter(|_| is_asked);
    let clients: Vec<IpAddr> = clients.map(|it| it.source).collect();
    findings.extend(path(&hops(&detail), &clients));
    let families = explanations
        .iter()
        .map(|it| IpFamily::of(&it.destination.ip()));
    let families: BTreeSet<IpFamily> = families.collect();
    findings.extend(families.into_iter().map(forwarding));
    findings.extend(node_ports(&node_port_numbers(&detail)));
    if question.is_probed {
        findings.extend(names::of_service(question, sources, plan, &detail));
        findings.extend(probe(&targets(&detail, &explanations)));
        findings.extend(ways(is_asked, &explanations, sources));
    }
    Ok(findings)
}

/// What is known of a pod whose name stands in place of a Service's.
fn of_pod(name: &NamespacedName, pod: &PodState) -> Vec<Finding> {
    let node = pod.node.as_deref().unwrap_or("no node");
    let evidence = format!(
        "{name} is no Service, but a pod: {}, {} on {node}",
        pod.phase,
        listed(&pod.addresses)
    );
    let finding = Finding::warn("pod", evidence).mend(format!(
        "sluice doctor SERVICE --from {name} --probe; sluice explain {name} SERVICE"
    ));
    let containers = containers(&name.namespace, pod);
    [finding].into_iter().chain(containers).collect()
}

/// FROM and TO of packets of this node, and of clients outside if the Service is open to them; or of the client that
/// was asked for.
fn packets<'a>(
    from: Option<&'a str>,
    plan: &dyn Plan,
    service: &ServiceDetail,
) -> Vec<(&'a str, String)> {
    let is_open = ["NodePort", "LoadBalancer"].contains(&&*service.summary.kind);
    let mut packets = Vec::new();
    for port in &service.ports {
        let to = format!("{}:{}/{}", service.summary.name, port.number, port.protocol);
        let mut addresses = port.frontends.iter().filter(|it| !it.contains("NodePort"));
        let Some(from) = from else {
            // The name would lead to one family alone.
            packets.push(("node", addresses.next().unwrap_or(&to).clone()));
            packets.extend(is_open.then_some(("outside", to)));
            continue;
        };
        // Where a client outside comes in.
        let outside = is_open.then(|| plan.explain("outside", &to).ok()).flatten();
        let entry = outside.map(|it| format!("{}/{}", it.destination, it.protocol));
        let all: BTreeSet<String> = addresses.cloned().chain(entry).collect();
        packets.extend(all.into_iter().map(|to| (from, to)));
    }
    packets
}

/// The ways of packets to what clients dial: from this node, or from the client that was asked for.
fn ways(is_asked: bool, explanations: &[Explanation], sources: &dyn Sources) -> Vec<Finding> {
    let balanced = explanations
        .iter()
        .filter(|it| it.verdict == Decision::Balance);
    let requests = balanced.filter_map(|it| {
        Some(Request {
            protocol: it.protocol.parse().ok()?,
            source: if is_asked {
                Source::Address(it.source)
            } else {
                Source::Node
            },
            destination: it.destination,
            wait: None,
        })
    });
    requests
        .take(TRACED)
        .map(|it| way(&it, sources.witness(it.watched())))
        .collect()
}
