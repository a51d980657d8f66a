//! `sluice doctor`: why a Service does not answer.

mod names;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use sluice_diagnose::doctor::{self, Finding, Report, State};
use sluice_diagnose::trace::{Request, Source};
use sluice_model::IpFamily;
use sluice_node::AgentStatus;
use sluice_node::client::{self, ClientError};
use sluice_plan::explain::{self, Decision, Explanation};
use sluice_plan::inventory::ServiceDetail;

use crate::cli::DoctorArgs;
use crate::config;
use crate::live::Reader;
use crate::output::{exit_code, format, print};
use crate::planes;
use crate::status::Whole;
use crate::view::View;

/// Most packets that are traced: each that is lost takes two seconds.
const TRACED: usize = 4;

/// Prints the report. Exit code 1 when something is wrong.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let agent = client::get::<Whole>(&args.socket, "/status");
    let mut findings = vec![proxy(&agent)];
    let left = |it: &Whole| {
        let mode = &it.status.agent.mode;
        doctor::leftovers(mode, planes::beside(mode))
    };
    findings.extend(agent.iter().flat_map(left));
    let view = match (&agent, args.node.names_source()) {
        (Err(_), false) => None,
        _ => Some(View::of(&args.node, &args.socket)?),
    };
    match (&view, &args.service) {
        (Some(view), Some(service)) => of_service(args, view, service, &mut findings)?,
        (Some(view), None) => findings.push(doctor::dead_services(&view.services()?)),
        (None, _) => findings.push(
            Finding::new(
                "service",
                State::Skip,
                "no agent to ask, and no source of Services",
            )
            .mend("give --kubeconfig, --config of kube-proxy, or --manifests"),
        ),
    }
    if args.service.is_none() {
        let (agent, view) = (agent.as_ref().ok(), view.as_ref());
        findings.extend(names::names(args, agent, view));
    }
    findings.extend(doctor::conntrack());
    findings.extend(doctor::filters(doctor::is_of_a_proxy));
    findings.push(doctor::clock());
    let report = Report {
        service: args.service.clone(),
        node: match (agent, view) {
            (_, Some(View::Plan(planned))) => planned.config.settings.node_name.to_string(),
            (Ok(whole), _) => whole.status.agent.node,
            (Err(_), _) => config::host_name(),
        },
        findings,
    };
    print(format(args.output, &report, ToString::to_string)?)?;
    Ok(exit_code(report.worst() != State::Fail))
}

/// Checks which proxy keeps the rules of this node.
fn proxy(agent: &Result<Whole, ClientError>) -> Finding {
    let status = match agent {
        Ok(whole) => &whole.status,
        Err(error) => return doctor::proxy(Err(error.to_string())),
    };
    let AgentStatus {
        version, mode, pid, ..
    } = &status.agent;
    let failed = status.last_sync.as_ref().and_then(|it| it.error.as_deref());
    doctor::proxy(Ok(doctor::Agent {
        name: &format!("sluice {version} ({mode}, pid {pid})"),
        failed,
        source_synced: status.source_synced,
        unserved: status.unserved.as_deref(),
        synced: status.synced,
    }))
}

/// The checks of one Service.
fn of_service(
    args: &DoctorArgs,
    view: &View,
    service: &str,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<()> {
    let Some(name) = explain::service_of(service)? else {
        anyhow::bail!("SERVICE {service:?} is an address: `sluice explain` tells whose it is");
    };
    let detail = match view.service(&name) {
        Ok(detail) => detail,
        Err(error) => {
            findings.push(Finding::new("service", State::Fail, error.to_string()));
            return Ok(());
        }
    };
    findings.extend(doctor::objects(&detail));
    let explanations = explanations(args, view, &detail, findings);
    findings.extend(doctor::decisions(&explanations, args.from.is_some()));
    findings.extend(rules(view, &args.socket, &explanations));
    let clients: Vec<IpAddr> = match &args.from {
        Some(_) => explanations.iter().map(|it| it.source).collect(),
        None => Vec::new(),
    };
    findings.extend(doctor::path(&doctor::hops(&detail), &clients));
    let families = explanations
        .iter()
        .map(|it| IpFamily::of(&it.destination.ip()));
    for family in families.collect::<BTreeSet<_>>() {
        findings.push(doctor::forwarding(family));
    }
    findings.extend(doctor::node_ports(&doctor::node_port_numbers(&detail)));
    if args.probe {
        findings.extend(names::of_service(args, view, &detail));
        findings.extend(doctor::probe(&doctor::targets(&detail, &explanations)));
        findings.extend(ways(args, &explanations));
    }
    Ok(())
}

/// What happens to packets of this node, and of clients outside if the Service is open to them; or of the
/// client that was asked for.
fn explanations(
    args: &DoctorArgs,
    view: &View,
    service: &ServiceDetail,
    findings: &mut Vec<Finding>,
) -> Vec<Explanation> {
    let is_open = ["NodePort", "LoadBalancer"].contains(&&*service.summary.kind);
    let mut questions: Vec<(&str, String)> = Vec::new();
    for port in &service.ports {
        let to = format!("{}:{}/{}", service.summary.name, port.number, port.protocol);
        // Where a client outside comes in.
        let outside = is_open
            .then(|| view.explain("outside", &to, None).ok())
            .flatten();
        match &args.from {
            None => {
                questions.push(("node", to.clone()));
                questions.extend(is_open.then_some(("outside", to)));
            }
            Some(from) => {
                let entry = outside.map(|it| format!("{}/{}", it.destination, it.protocol));
                let addresses = port.frontends.iter().filter(|it| !it.contains("NodePort"));
                let all: BTreeSet<String> = addresses.cloned().chain(entry).collect();
                questions.extend(all.into_iter().map(|to| (&**from, to)));
            }
        }
    }
    let mut all: Vec<Explanation> = Vec::new();
    for (from, to) in questions {
        match view.explain(from, &to, None) {
            Ok(it) if all.contains(&it) => {}
            Ok(it) => all.push(it),
            Err(error) => {
                findings.push(Finding::new("decision", State::Skip, error.to_string()));
            }
        }
    }
    all
}

/// Compares the kernel of this machine with the explanations.
fn rules(view: &View, socket: &Path, explanations: &[Explanation]) -> Vec<Finding> {
    if explanations.is_empty() {
        return Vec::new();
    }
    let read = || {
        let reader = Reader::new(view, socket)?;
        let all = explanations.iter().map(|it| {
            let live = reader.read(it)?;
            let question = format!("{} → {}/{}", it.source, it.destination, it.protocol);
            Ok((question, live))
        });
        all.collect::<anyhow::Result<Vec<_>>>()
    };
    match read() {
        Ok(all) => doctor::rules(&all),
        Err(error) => vec![Finding::new("rules", State::Skip, format!("{error:#}"))],
    }
}

/// The ways of packets to what clients dial: from this node, or from the client that was asked for.
fn ways(args: &DoctorArgs, explanations: &[Explanation]) -> Vec<Finding> {
    let balanced = explanations
        .iter()
        .filter(|it| it.verdict == Decision::Balance);
    let requests = balanced.filter_map(|it| {
        Some(Request {
            protocol: it.protocol.parse().ok()?,
            source: match &args.from {
                Some(_) => Source::Address(it.source),
                None => Source::Node,
            },
            destination: it.destination,
            wait: None,
        })
    });
    let way = |request: Request| match planes::witness(request.watched()) {
        Ok(mut witness) => doctor::way(&request, witness.as_deref_mut().map(|it| it as _)),
        Err(error) => Finding::new("trace", State::Skip, error.to_string()),
    };
    requests.take(TRACED).map(way).collect()
}
