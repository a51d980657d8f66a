//! What names of this node's pods need: a DNS server that answers, and resolvers that ask it.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde::Deserialize;
use sluice_corefile::ResolvConf;
use sluice_diagnose::doctor::{self, Central, Finding, Reader, State};
use sluice_dns_agent::{DnsStatus, local_dns};
use sluice_plan::explain;
use sluice_plan::inventory::ServiceDetail;
use sluice_plan::settings::NodeDns;

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
    let ips = doctor::cluster_ips(detail).into_iter();
    ips.map(|it| doctor::dns(*server, domain, &detail.summary.name, it))
        .collect()
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
    let addresses = server.map(|it| &*it.addresses);
    let is_taken = || local_dns::is_taken().map_err(|it| sluice_node::chain(&it));
    findings.extend(doctor::node_dns(addresses, &local, is_taken));
    let cluster_dns = kubelet.map(|it| &*it.cluster_dns);
    let path = &args.kubelet_config;
    findings.push(doctor::nameserver(path, cluster_dns, &central, &local));
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
    let detail = view.map(|it| service(it, &name).map_err(|it| it.to_string()));
    Central::of(name, detail, has_pods || server.is_some())
}

fn service(view: &View, name: &str) -> anyhow::Result<ServiceDetail> {
    let parsed = explain::service_of(name)?;
    let parsed = parsed.ok_or_else(|| anyhow::anyhow!("{name} is no NAMESPACE/NAME"))?;
    view.service(&parsed)
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
        Some((
            name.to_owned(),
            doctor::cluster_ips(&detail).first().copied()?,
        ))
    };
    let Some((name, ip)) = of(API).or_else(|| of(&central.name)) else {
        return Vec::new();
    };
    // Without rules the packets to a ClusterIP leave the machine for somebody else.
    let has_rules = has_agent || planes::present().is_some() || doctor::kube_proxy().is_some();
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
