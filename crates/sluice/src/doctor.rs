//! `sluice doctor`: why a Service does not answer.

mod names;
mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use sluice_diagnose::doctor::{self, Finding, Hop, Report, State, Target};
use sluice_diagnose::trace::{Request, Source};
use sluice_model::{IpFamily, Protocol};
use sluice_node::AgentStatus;
use sluice_node::client::{self, ClientError};
use sluice_plan::explain::{self, Decision, Explanation};
use sluice_plan::inventory::{EndpointDetail, ServiceDetail};

use crate::cli::{DoctorArgs, Output};
use crate::config;
use crate::planes;
use crate::render::print;
use crate::status::Whole;
use crate::view::View;

/// Most packets that are traced: each that is lost takes two seconds.
const TRACED: usize = 4;

/// Prints the report. Exit code 1 when something is wrong.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let agent = client::get::<Whole>(&args.socket, "/status");
    let mut findings = vec![proxy(&agent)];
    findings.extend(agent.iter().flat_map(|it| leftovers(&it.status.agent.mode)));
    let view = match (&agent, args.node.names_source()) {
        (Err(_), false) => None,
        _ => Some(View::of(&args.node, &args.socket)?),
    };
    match (&view, &args.service) {
        (Some(view), Some(service)) => of_service(args, view, service, &mut findings)?,
        (Some(view), None) => findings.push(dead_services(view)?),
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
    findings.extend(doctor::filters(is_of_a_proxy));
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
    print(&match args.output {
        Output::Text => report.to_string(),
        Output::Json => serde_json::to_string_pretty(&report)? + "\n",
    })?;
    Ok(match report.worst() {
        State::Fail => ExitCode::FAILURE,
        State::Ok | State::Skip | State::Warn => ExitCode::SUCCESS,
    })
}

/// Checks which proxy keeps the rules of this node.
fn proxy(agent: &Result<Whole, ClientError>) -> Finding {
    let status = match agent {
        Ok(whole) => &whole.status,
        Err(error) => {
            return match kube_proxy() {
                Some(pid) => Finding::new(
                    "proxy",
                    State::Ok,
                    format!("kube-proxy runs here (pid {pid})"),
                ),
                None => Finding::new("proxy", State::Fail, error.to_string())
                    .mend("start it: rules follow no change without it, and nobody repairs them"),
            };
        }
    };
    let failed = status.last_sync.as_ref().and_then(|it| it.error.as_ref());
    let (state, what) = match (failed, &status.unserved) {
        (Some(error), _) => (State::Fail, format!("the last sync failed: {error}")),
        (None, _) if !status.source_synced => (
            State::Fail,
            "the source has given no complete list yet".to_owned(),
        ),
        (None, Some(unserved)) => (State::Warn, unserved.clone()),
        (None, None) if !status.synced => (State::Warn, "a sync is due".to_owned()),
        (None, None) => (State::Ok, "the rules match the source".to_owned()),
    };
    let AgentStatus {
        version, mode, pid, ..
    } = &status.agent;
    let name = format!("sluice {version} ({mode}, pid {pid})");
    let finding = Finding::new("proxy", state, format!("{name}: {what}"));
    match state {
        State::Ok => finding,
        _ => finding.mend("sluice status"),
    }
}

/// Rules of an earlier proxy beside those of the running agent: packets meet whichever comes first.
fn leftovers(mode: &str) -> Vec<Finding> {
    let all = planes::beside(mode).into_iter();
    let warn = |(other, sign): (&str, String)| {
        let evidence = format!("{sign}: rules of the {other} mode are here beside those of {mode}");
        let finding = Finding::new("leftovers", State::Warn, evidence);
        finding.mend(match kube_proxy() {
            Some(pid) => format!("a kube-proxy runs beside Sluice (pid {pid}): stop one of them"),
            None => "restart Sluice: after its first sync it removes what an earlier proxy left"
                .to_owned(),
        })
    };
    all.map(warn).collect()
}

/// The process of a kube-proxy in this network namespace.
fn kube_proxy() -> Option<u32> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = namespace("self")?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|it| it.file_name().into_string().ok());
    let found = pids.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        let is_named = name.is_ok_and(|it| it.trim_end() == "kube-proxy");
        is_named && namespace(pid).as_ref() == Some(&own)
    });
    found?.parse().ok()
}

/// Whether a table or chain belongs to a Service proxy, or is the kubelet's.
fn is_of_a_proxy(table: &str, chain: &str) -> bool {
    ["sluice", "kube-proxy"].contains(&table)
        || ["KUBE-", "SLUICE-"].iter().any(|it| chain.starts_with(it))
}

/// Services whose clients get no answer.
fn dead_services(view: &View) -> anyhow::Result<Finding> {
    let all = view.services()?;
    let dead: Vec<&str> = all
        .iter()
        .filter(|it| it.is_dead)
        .map(|it| &*it.name)
        .collect();
    Ok(match dead[..] {
        [] => Finding::new(
            "services",
            State::Ok,
            format!("{}, each with an endpoint", all.len()),
        ),
        _ => {
            let shown = dead[..dead.len().min(5)].join(", ");
            let evidence = format!(
                "{} of {} have no ready endpoint: {shown}",
                dead.len(),
                all.len()
            );
            Finding::new("services", State::Warn, evidence)
                .mend(format!("sluice doctor {}", dead[0]))
        }
    })
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
    findings.extend(rules::rules(view, &args.socket, &explanations));
    let clients: Vec<IpAddr> = match &args.from {
        Some(_) => explanations.iter().map(|it| it.source).collect(),
        None => Vec::new(),
    };
    findings.extend(doctor::path(&hops(&detail), &clients));
    let families = explanations
        .iter()
        .map(|it| IpFamily::of(&it.destination.ip()));
    for family in families.collect::<BTreeSet<_>>() {
        findings.push(doctor::forwarding(family));
    }
    findings.extend(doctor::node_ports(&node_ports(&detail)));
    if args.probe {
        findings.extend(names::of_service(args, view, &detail));
        findings.extend(doctor::probe(&targets(&detail, &explanations)));
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

fn members(service: &ServiceDetail) -> impl Iterator<Item = (&str, &EndpointDetail)> {
    let ports = service.ports.iter();
    ports.flat_map(|port| port.endpoints.iter().map(|it| (&*port.protocol, it)))
}

fn name_of(endpoint: &EndpointDetail) -> String {
    let pod = endpoint
        .pod
        .clone()
        .unwrap_or_else(|| endpoint.address.ip().to_string());
    match &endpoint.node {
        Some(node) => format!("{pod} on {node}"),
        None => pod,
    }
}

/// The endpoints that are in use, each address once.
fn hops(service: &ServiceDetail) -> Vec<Hop> {
    let used = members(service).filter(|(_, it)| it.included);
    let hops = used.map(|(_, it)| Hop {
        address: it.address.ip(),
        local: it.local,
        name: format!("{} ({})", it.address.ip(), name_of(it)),
    });
    hops.collect::<BTreeSet<_>>().into_iter().collect()
}

fn node_ports(service: &ServiceDetail) -> BTreeSet<(u16, Protocol)> {
    let ports = service.ports.iter();
    let all = ports.filter_map(|it| Some((it.node_port?, it.protocol.parse().ok()?)));
    all.collect()
}

/// The ClusterIPs that are served.
fn cluster_ips(service: &ServiceDetail) -> BTreeSet<IpAddr> {
    let ports = service.ports.iter();
    let frontends = ports.flat_map(|it| it.frontends.iter().zip(&it.roles));
    let own = frontends.filter(|(_, role)| *role == "ClusterIP");
    let address = own.filter_map(|(it, _)| it.split('/').next()?.parse::<SocketAddr>().ok());
    address.map(|it| it.ip()).collect()
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

/// The endpoints in use, then what clients dial.
fn targets(service: &ServiceDetail, explanations: &[Explanation]) -> Vec<Target> {
    let used = members(service).filter(|(_, it)| it.included);
    let endpoints =
        used.filter_map(|(protocol, it)| target(it.address, protocol, name_of(it), true));
    let endpoints: BTreeSet<Target> = endpoints.collect();
    let balanced = explanations
        .iter()
        .filter(|it| it.verdict == Decision::Balance);
    let frontends = balanced.filter_map(|it| {
        let role = it.service.as_ref().map_or("the frontend", |it| &*it.role);
        target(it.destination, &it.protocol, role.to_owned(), false)
    });
    let frontends: BTreeSet<Target> = frontends.collect();
    endpoints.into_iter().chain(frontends).collect()
}

fn target(address: SocketAddr, protocol: &str, name: String, is_endpoint: bool) -> Option<Target> {
    Some(Target {
        address,
        protocol: protocol.parse().ok()?,
        name,
        is_endpoint,
    })
}
