//! Checks of a Service's objects, and of what the node decides by them. Pure.

use sluice_plan::explain::{Decision, Explanation};
use sluice_plan::inventory::{PortDetail, ServiceDetail};

use super::listed;
use super::report::{Finding, State};
use super::sources::Plan;

/// Slices, readiness, names of ports, issues, and problems of the source.
pub(super) fn objects(service: &ServiceDetail) -> Vec<Finding> {
    let summary = &service.summary;
    let (namespace, name) = summary.name.split_once('/').unwrap_or_default();
    let mut findings = vec![Finding::ok(
        "service",
        format!("{}, {}", summary.kind, listed(&summary.frontends)),
    )];
    let issues = summary.issues.iter();
    let problems = service.problems.iter();
    findings.extend(
        issues
            .chain(problems)
            .map(|it| Finding::warn("service", it.as_str())),
    );
    findings.push(slices(service, namespace, name));
    let has_endpoints = service.slices.iter().any(|it| it.endpoints > 0);
    if has_endpoints {
        findings.push(endpoints(service, namespace));
        findings.extend(service.ports.iter().map(|it| port(service, it)));
    }
    findings
}

fn slices(service: &ServiceDetail, namespace: &str, name: &str) -> Finding {
    let find = format!(
        "kubectl -n {namespace} get service {name} -o wide; kubectl -n {namespace} get pods \
         --show-labels: does the selector fit the labels of running pods?"
    );
    if service.slices.is_empty() {
        let evidence = format!("no EndpointSlice has the label kubernetes.io/service-name={name}");
        return Finding::fail("slices", evidence).mend(find);
    }
    let names = listed(service.slices.iter().map(|it| &it.name));
    match service.slices.iter().map(|it| it.endpoints).sum() {
        0 => Finding::fail("slices", format!("{names}: without any endpoint")).mend(find),
        1 => Finding::ok("slices", format!("{names}: 1 endpoint")),
        all => Finding::ok("slices", format!("{names}: {all} endpoints")),
    }
}

fn endpoints(service: &ServiceDetail, namespace: &str) -> Finding {
    let (ready, all) = (service.summary.ready, service.summary.endpoints);
    let members = service.ports.iter().flat_map(|it| &it.endpoints);
    let unready = members.filter(|it| !it.ready);
    let names = unready.map(|it| match &it.pod {
        Some(pod) => format!("pod/{pod}"),
        None => it.address.ip().to_string(),
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let describe = match names.iter().find(|it| it.starts_with("pod/")) {
        Some(pod) => {
            format!("kubectl -n {namespace} describe {pod}: why does its readiness probe fail?")
        }
        None => {
            "conditions.ready in the EndpointSlice: who writes it, and why is it false?".to_owned()
        }
    };
    let evidence = if names.is_empty() {
        format!("{ready} of {all} ready")
    } else {
        format!("{ready} of {all} ready; not ready: {}", listed(names))
    };
    match (ready, all) {
        (0, _) => Finding::fail("endpoints", evidence).mend(describe),
        _ => Finding::ok("endpoints", evidence),
    }
}

/// Whether slices have this port.
fn port(service: &ServiceDetail, port: &PortDetail) -> Finding {
    let name = match &*port.port {
        "" => format!("{}/{}", port.protocol, port.family),
        name => format!("{name}/{} ({})", port.protocol, port.family),
    };
    if !port.endpoints.is_empty() {
        return Finding::ok(
            "port",
            format!("{name}: {} endpoints", port.endpoints.len()),
        );
    }
    let of_family = service
        .slices
        .iter()
        .filter(|it| it.address_type == port.family);
    let others: Vec<String> = of_family.clone().flat_map(|it| it.ports.clone()).collect();
    if of_family.count() == 0 {
        let evidence = format!("{name}: no EndpointSlice of {}", port.family);
        return Finding::warn("port", evidence);
    }
    let evidence = format!(
        "{name}: no EndpointSlice has this port; they have {}",
        listed(others)
    );
    Finding::fail("port", evidence).mend(
        "give the port of the Service and of the EndpointSlice the same name and protocol; with a \
         selector, targetPort names a port that the pods do not have",
    )
}

/// What the node does with a packet.
///
/// `is_asked` tells whether the client is one that somebody named: an outside client that stands for all
/// others cannot be refused by its source range.
pub(super) fn decision(it: &Explanation, is_asked: bool) -> Finding {
    let to = format!("{} → {}/{}", it.source, it.destination, it.protocol);
    let hit = it.service.as_ref();
    let ranges = hit.and_then(|it| it.source_ranges.as_ref());
    if let Some(ranges) = ranges.filter(|it| !it.admitted) {
        let allowed = listed(&ranges.allowed);
        let mend = "spec.loadBalancerSourceRanges of the Service: add the clients' range";
        let (state, who) = if is_asked {
            (State::Fail, "the client is outside".to_owned())
        } else {
            (State::Warn, "clients must be inside".to_owned())
        };
        let evidence = format!("{to}: {who} loadBalancerSourceRanges: {allowed}");
        return Finding::new("decision", state, evidence).mend(mend);
    }
    let evidence = format!("{to}: {}", it.reason);
    match it.verdict {
        Decision::Balance => Finding::ok("decision", evidence),
        Decision::NotService => Finding::warn("decision", evidence),
        Decision::Drop | Decision::Reject => {
            let finding = Finding::fail("decision", evidence);
            if it.reason.contains("policy is Local") {
                finding.mend(
                    "run an endpoint on this node, send clients to a node that has one, or set the \
                 policy to Cluster",
                )
            } else {
                finding
            }
        }
    }
}

/// Endpoints that network policies keep from a client that was asked for.
pub(super) fn policy(explanation: &Explanation, plan: &dyn Plan) -> Option<Finding> {
    let members = explanation.service.iter().flat_map(|it| &it.endpoints);
    let (mut all, mut forbidden) = (0, Vec::new());
    for it in members.filter(|it| it.included) {
        all += 1;
        let why = plan.forbids(explanation.source, it.address, &explanation.protocol);
        forbidden.extend(why.map(|why| (it.address, why)));
    }
    let (_, why) = forbidden.first()?;
    let state = if forbidden.len() == all {
        State::Fail
    } else {
        State::Warn
    };
    let evidence = format!(
        "{} may not reach {} of {all} endpoints ({}): {why}",
        explanation.source,
        forbidden.len(),
        listed(forbidden.iter().map(|it| it.0))
    );
    let mend = "change the NetworkPolicy, or the labels by which it selects; sluice policy watch shows what is dropped";
    Some(Finding::new("policy", state, evidence).mend(mend))
}
