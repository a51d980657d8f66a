//! What names of this node's pods need: a DNS server that answers, and resolvers that ask it.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde::Deserialize;
use sluice_corefile::ResolvConf;
use sluice_diagnose::doctor::{self, Finding, Reader, State};
use sluice_dns_agent::{DnsStatus, local_dns};
use sluice_plan::explain;
use sluice_plan::inventory::{ServiceDetail, listed};
use sluice_plan::settings::NodeDns;

use super::{cluster_ips, kube_proxy};
use crate::cli::DoctorArgs;
use crate::dns::resolver::{self, RESOLV_CONF};
use crate::planes;
use crate::status::Whole;
use crate::view::View;

/// The Service that every cluster has.
const API: &str = "default/kubernetes";

/// The part of a KubeletConfiguration that decides what resolvers of pods are told.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kubelet {
    #[serde(rename = "clusterDNS")]
    cluster_dns: Vec<IpAddr>,
    cluster_domain: Option<String>,
    resolv_conf: Option<String>,
}

impl Kubelet {
    /// `None` where no kubelet has a readable configuration.
    fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let parsed = sluice_yaml::parse_yaml(&text, 0);
        sluice_yaml::decode(parsed.documents.first()?).0
    }

    /// The file whose servers and search path pods get beside the cluster's.
    fn resolv_conf(&self) -> &str {
        self.resolv_conf.as_deref().unwrap_or(RESOLV_CONF)
    }
}

/// The domain of the cluster.
fn domain<'a>(args: &'a DoctorArgs, kubelet: Option<&'a Kubelet>) -> &'a str {
    let of_kubelet = || kubelet.and_then(|it| it.cluster_domain.as_deref());
    let flag = args.node.dns.dns_domain.as_deref();
    flag.or_else(of_kubelet).unwrap_or(args.node.dns.domain())
}

/// Asks the cluster's DNS for one Service.
pub(super) fn of_service(args: &DoctorArgs, view: &View, detail: &ServiceDetail) -> Vec<Finding> {
    let kubelet = Kubelet::read(&args.kubelet_config);
    let (central, _) = central(args, None, Some(view), false);
    let Some(server) = central.cluster_ips.first() else {
        let evidence = format!("there is no Service {} to ask", central.name);
        return vec![Finding::new("dns", State::Skip, evidence)];
    };
    let domain = domain(args, kubelet.as_ref());
    let ips = cluster_ips(detail).into_iter();
    ips.map(|it| doctor::dns(*server, domain, &detail.summary.name, it))
        .collect()
}

/// The cluster's DNS.
struct Central {
    /// `namespace/name`.
    name: String,
    cluster_ips: BTreeSet<IpAddr>,
}

/// The checks, in the order of a query.
pub(super) fn names(args: &DoctorArgs, agent: Option<&Whole>, view: Option<&View>) -> Vec<Finding> {
    let kubelet = Kubelet::read(&args.kubelet_config);
    let kubelet = kubelet.as_ref();
    let domain = domain(args, kubelet);
    let server = agent.and_then(|it| it.dns.as_ref());
    let local = local_dns::addresses().unwrap_or_default();
    let (central, first) = central(args, server, view, kubelet.is_some());
    let mut findings = vec![first];
    findings.extend(node_dns(server, &local));
    findings.push(nameserver(&args.kubelet_config, kubelet, &central, &local));
    findings.extend(answers(view, agent.is_some(), &central, &local, domain));
    let ours: Vec<IpAddr> = local.iter().chain(&central.cluster_ips).copied().collect();
    let upstreams = |path: &str, reader| match fs::read_to_string(path) {
        Ok(text) => {
            let servers = resolver::servers(&ResolvConf::read(&text));
            doctor::upstreams(path, &servers, &ours, reader)
        }
        Err(error) => Finding::new("upstreams", State::Skip, format!("{path}: {error}")),
    };
    if let Some(kubelet) = kubelet {
        let path = kubelet.resolv_conf();
        findings.push(upstreams(path, Reader::Pod));
        let file = fs::read_to_string(path);
        let search =
            |text: String| doctor::search_path(path, &ResolvConf::read(&text).search, domain);
        findings.extend(file.map(search));
    }
    if server.is_some() && kubelet.is_none_or(|it| it.resolv_conf() != RESOLV_CONF) {
        findings.push(upstreams(RESOLV_CONF, Reader::Machine));
    }
    findings
}

/// The cluster's DNS, and whether it can be asked. `has_pods`: pods of this machine ask it.
fn central(
    args: &DoctorArgs,
    server: Option<&DnsStatus>,
    view: Option<&View>,
    has_pods: bool,
) -> (Central, Finding) {
    let flag = args.node.dns.dns_service.clone();
    let name = flag.or_else(|| server.map(|it| it.service.clone()));
    let name = name.unwrap_or_else(|| NodeDns::usual().service.to_string());
    let finding = |state, evidence| Finding::new("dns service", state, evidence);
    let detail = view.map(|it| service(it, &name));
    let (cluster_ips, finding) = match detail {
        None => (
            BTreeSet::new(),
            finding(
                State::Skip,
                "no agent to ask, and no source of Services".to_owned(),
            ),
        ),
        Some(Err(error)) => {
            let state = if has_pods || server.is_some() {
                State::Fail
            } else {
                State::Skip
            };
            (
                BTreeSet::new(),
                finding(state, error.to_string())
                    .mend("--dns-service NAMESPACE/NAME where the cluster's DNS has another name"),
            )
        }
        Some(Ok(detail)) => {
            let ips = cluster_ips(&detail);
            let evidence = |what| format!("{name} {what}");
            let finding = match (ips.is_empty(), detail.summary.ready) {
                (true, _) => finding(State::Fail, evidence("has no ClusterIP that pods could ask"))
                    .mend("spec.clusterIP of the Service: the address of clusterDNS in kubelet's configuration"),
                (false, 0) => finding(State::Fail, evidence("has no ready endpoint"))
                    .mend(format!("sluice doctor {name}")),
                (false, ready) => {
                    let plural = if ready == 1 { "" } else { "s" };
                    let at = format!("is at {}, {ready} ready endpoint{plural}", listed(&ips));
                    finding(State::Ok, evidence(&at))
                }
            };
            (ips, finding)
        }
    };
    (Central { name, cluster_ips }, finding)
}

fn service(view: &View, name: &str) -> anyhow::Result<ServiceDetail> {
    let parsed = explain::service_of(name)?;
    let parsed = parsed.ok_or_else(|| anyhow::anyhow!("{name} is no NAMESPACE/NAME"))?;
    view.service(&parsed)
}

/// The DNS server inside the agent: who gets the queries to its addresses. `None` when this node has none.
fn node_dns(server: Option<&DnsStatus>, local: &[IpAddr]) -> Option<Finding> {
    let finding = |state, evidence| Finding::new("node dns", state, evidence);
    let Some(server) = server else {
        let evidence = format!(
            "no agent with --dns answers at {}: queries to it go to the cluster's DNS, none is lost",
            listed(local)
        );
        return (!local.is_empty()).then(|| {
            finding(State::Warn, evidence).mend(
                "start the agent with --dns, or remove the addresses with sluice cleanup when no pod asks them",
            )
        });
    };
    let all = listed(&server.addresses);
    // A machine without IPv6 has only the other one.
    if !server.addresses.iter().any(|it| local.contains(it)) {
        let evidence = format!("{all} is on no interface: pods get no answer there");
        return Some(finding(State::Fail, evidence).mend("restart the agent, which puts it on lo"));
    }
    Some(match local_dns::is_taken() {
        Ok(true) => finding(State::Ok, format!("the agent gets the queries to {all}")),
        Ok(false) => finding(
            State::Warn,
            format!("the agent does not take the queries to {all} (no table sluice-dns): they go to the cluster's DNS, none is lost"),
        )
        .mend("sluice status: the agent takes them after its first sync; its log says why not"),
        Err(error) => finding(State::Skip, sluice_node::chain(&error)),
    })
}

/// Whether pods ask the cluster's DNS or the node's.
fn nameserver(
    path: &Path,
    kubelet: Option<&Kubelet>,
    central: &Central,
    local: &[IpAddr],
) -> Finding {
    let path = path.display();
    let finding = |state, evidence| Finding::new("nameserver", state, evidence);
    let Some(kubelet) = kubelet else {
        let evidence = format!("{path} cannot be read: the nameserver of pods is not known");
        return finding(State::Skip, evidence);
    };
    let asked = listed(&kubelet.cluster_dns);
    let is_known = |it: &&IpAddr| central.cluster_ips.contains(it) || local.contains(it);
    let unknown: Vec<&IpAddr> = kubelet
        .cluster_dns
        .iter()
        .filter(|it| !is_known(it))
        .collect();
    let change = || {
        let all = central.cluster_ips.iter().chain(local);
        format!(
            "clusterDNS in {path}: {}; then restart kubelet and the pods",
            listed(all)
        )
    };
    match (kubelet.cluster_dns.is_empty(), unknown.is_empty()) {
        (true, _) => finding(
            State::Fail,
            format!("{path}: clusterDNS is empty: pods have the node's resolver and find no Service"),
        )
        .mend(change()),
        (false, true) => finding(State::Ok, format!("pods ask {asked}")),
        (false, false) if central.cluster_ips.is_empty() => finding(
            State::Skip,
            format!("pods ask {asked}; which is the cluster's DNS is not known"),
        ),
        (false, false) => finding(
            State::Fail,
            format!(
                "pods ask {}, which is neither a ClusterIP of {} nor an address of this node's DNS server",
                listed(unknown),
                central.name
            ),
        )
        .mend(change()),
    }
}

/// What the servers say of one Service.
fn answers(
    view: Option<&View>,
    has_agent: bool,
    central: &Central,
    local: &[IpAddr],
    domain: &str,
) -> Vec<Finding> {
    let of = |name: &str| {
        let detail = service(view?, name).ok()?;
        Some((name.to_owned(), cluster_ips(&detail).first().copied()?))
    };
    let Some((name, ip)) = of(API).or_else(|| of(&central.name)) else {
        return Vec::new();
    };
    // Without rules the packets to a ClusterIP leave the machine for somebody else.
    let has_rules = has_agent || planes::present().is_some() || kube_proxy().is_some();
    let at_cluster_ips = central.cluster_ips.iter().filter(|_| has_rules);
    let servers: BTreeSet<IpAddr> = local.iter().chain(at_cluster_ips).copied().collect();
    if servers.is_empty() {
        let evidence = "no rules of Services on this machine: the cluster's DNS is not asked";
        return vec![Finding::new("dns", State::Skip, evidence)];
    }
    let servers = servers.into_iter();
    servers
        .map(|it| doctor::dns(it, domain, &name, ip))
        .collect()
}
