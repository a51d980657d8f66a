//! What names of this node's pods need: a DNS server that answers, and resolvers that ask it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_plan::explain;
use sluice_plan::inventory::ServiceDetail;
use sluice_plan::settings;

use super::dialled::cluster_ips;
use super::dns::dns;
use super::listed;
use super::proxy::{NodeDns, kube_proxy};
use super::question::{Kubelet, Question};
use super::report::{Finding, State};
use super::resolver::{Reader, search_path, upstreams};
use super::sources::{Plan, ResolvConf, Sources};

/// Why nothing is known of Services.
pub(super) const NOBODY: &str = "no agent to ask, and no source of Services";

/// The Service that every cluster has.
const API: &str = "default/kubernetes";

/// What shows why the DNS server inside the agent gives a wrong answer or none.
const OF_NODE: &str = "the DNS server of this node is the agent's: sluice dns query NAME; sluice status; the agent's log";

/// Where the resolver of this machine is configured.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Asks for one Service: the node's DNS server, or else the cluster's.
pub(super) fn of_service(
    question: &Question,
    sources: &dyn Sources,
    plan: &dyn Plan,
    detail: &ServiceDetail,
) -> Vec<Finding> {
    let agent = sources.agent();
    let node = agent.as_ref().ok().and_then(|it| it.dns);
    let (central, _) = Central::of(question, node, Some(plan));
    let local = sources.local_dns();
    if let Some(server) = node.and_then(|it| it.addresses.iter().find(|it| local.contains(it))) {
        let (domain, name) = (&question.domain, &detail.summary.name);
        let ips = cluster_ips(detail).into_iter();
        return ips
            .map(|it| dns(*server, domain, name, it, OF_NODE))
            .collect();
    }
    let Some(server) = central.cluster_ips.first().copied() else {
        let evidence = format!("there is no Service {} to ask", central.name);
        return vec![Finding::skip("dns", evidence)];
    };
    let (domain, name) = (&question.domain, &detail.summary.name);
    let ips = cluster_ips(detail).into_iter();
    let mend = central.mend();
    ips.map(|it| dns(server, domain, name, it, &mend)).collect()
}

/// The checks of the machine, in the order of a query.
pub(super) fn of_machine(question: &Question, sources: &dyn Sources) -> Vec<Finding> {
    let kubelet = &question.kubelet;
    let agent = sources.agent();
    let server = agent.as_ref().ok().and_then(|it| it.dns);
    let local = sources.local_dns();
    let (central, first) = Central::of(question, server, sources.plan());
    let mut findings = vec![first];
    findings.extend(node_dns(server.map(|it| it.addresses), &local, || {
        sources.takes_queries()
    }));
    findings.push(nameserver(kubelet, &central, &local));
    let has_rules = || agent.is_ok() || sources.has_rules() || kube_proxy().is_some();
    if let Some(plan) = sources.plan() {
        findings.extend(answers(plan, &central, &local, &question.domain, has_rules));
    }
    let ours: Vec<IpAddr> = local.iter().chain(&central.cluster_ips).copied().collect();
    let upstreams = |path: &str, file: &Result<ResolvConf, String>, reader| match file {
        Ok(file) => upstreams(path, &file.servers, &ours, reader),
        Err(error) => Finding::skip("upstreams", format!("{path}: {error}")),
    };
    let of_pods = kubelet.resolv_conf.as_deref().unwrap_or(RESOLV_CONF);
    let has_kubelet = kubelet.cluster_dns.is_some();
    if has_kubelet {
        let file = sources.resolv_conf(of_pods);
        findings.push(upstreams(of_pods, &file, Reader::Pod));
        findings.extend(file.map(|it| search_path(of_pods, &it.search, &question.domain)));
    }
    if server.is_some() && !(has_kubelet && of_pods == RESOLV_CONF) {
        let file = sources.resolv_conf(RESOLV_CONF);
        findings.push(upstreams(RESOLV_CONF, &file, Reader::Machine));
    }
    findings
}

/// What the servers say of one Service.
fn answers(
    plan: &dyn Plan,
    central: &Central,
    local: &[IpAddr],
    domain: &str,
    has_rules: impl FnOnce() -> bool,
) -> Vec<Finding> {
    let of = |name: &str| {
        let detail = service(plan, name).ok()?;
        Some((name.to_owned(), cluster_ips(&detail).first().copied()?))
    };
    let server = || Some((central.name.clone(), *central.cluster_ips.first()?));
    let Some((name, ip)) = of(API).or_else(server) else {
        return Vec::new();
    };
    // Without rules the packets to a ClusterIP leave the machine for somebody else.
    let has_rules = has_rules();
    let at_cluster_ips = central.cluster_ips.iter().filter(|_| has_rules);
    let servers: BTreeSet<IpAddr> = local.iter().chain(at_cluster_ips).copied().collect();
    if servers.is_empty() {
        let evidence = "no rules of Services on this machine: the cluster's DNS is not asked";
        return vec![Finding::skip("dns", evidence)];
    }
    let servers = servers.into_iter();
    let of_central = central.mend();
    let mend = |it: &IpAddr| {
        if local.contains(it) {
            OF_NODE
        } else {
            of_central.as_str()
        }
    };
    servers
        .map(|it| dns(it, domain, &name, ip, mend(&it)))
        .collect()
}

fn service(plan: &dyn Plan, name: &str) -> Result<ServiceDetail, String> {
    let parsed = explain::service_of(name).map_err(|it| it.to_string())?;
    plan.service(&parsed.ok_or_else(|| format!("{name} is no NAMESPACE/NAME"))?)
}

/// The cluster's DNS.
#[derive(Debug)]
struct Central {
    /// `namespace/name`.
    name: String,
    /// Where pods ask it.
    cluster_ips: BTreeSet<IpAddr>,
}

impl Central {
    /// What shows why it gives a wrong answer or none.
    fn mend(&self) -> String {
        let name = &self.name;
        let (namespace, service) = name.split_once('/').unwrap_or_default();
        format!(
            "sluice doctor {name} --probe; kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={service}: \
             the logs of its pods"
        )
    }

    /// The cluster's DNS, and whether it can be asked. `plan`: `None` without anybody to ask.
    fn of(
        question: &Question,
        server: Option<NodeDns<'_>>,
        plan: Option<&dyn Plan>,
    ) -> (Self, Finding) {
        let flag = question.dns_service.clone();
        let name = flag.or_else(|| server.map(|it| it.service.to_owned()));
        let name = name.unwrap_or_else(|| settings::NodeDns::usual().service.to_string());
        // Whether pods of this machine ask it.
        let is_needed = question.kubelet.cluster_dns.is_some() || server.is_some();
        let detail = plan.map(|it| service(it, &name));
        let finding = |state, evidence| Finding::new("dns service", state, evidence);
        let (cluster_ips, finding) = match detail {
            None => (BTreeSet::new(), finding(State::Skip, NOBODY.to_owned())),
            Some(Err(error)) => {
                let state = if is_needed { State::Fail } else { State::Skip };
                let other = "--dns-service NAMESPACE/NAME where the cluster's DNS has another name";
                (BTreeSet::new(), finding(state, error).mend(other))
            }
            Some(Ok(detail)) => {
                let ips = cluster_ips(&detail);
                let finding = asked(&name, &ips, detail.summary.ready);
                (ips, finding)
            }
        };
        (Self { name, cluster_ips }, finding)
    }
}

/// Whether the cluster's DNS can be asked.
fn asked(name: &str, ips: &BTreeSet<IpAddr>, ready: usize) -> Finding {
    if ips.is_empty() {
        return Finding::fail(
            "dns service",
            format!("{name} has no ClusterIP that pods could ask"),
        )
        .mend(
            "spec.clusterIP of the Service: the address of clusterDNS in kubelet's configuration",
        );
    }
    if ready == 0 {
        return Finding::fail("dns service", format!("{name} has no ready endpoint"))
            .mend(format!("sluice doctor {name}"));
    }
    let plural = if ready == 1 { "" } else { "s" };
    let evidence = format!(
        "{name} is at {}, {ready} ready endpoint{plural}",
        listed(ips)
    );
    Finding::ok("dns service", evidence)
}

/// The DNS server inside the agent: who gets the queries to its addresses. `None` when this node has none.
///
/// `server`: the addresses that it serves; `local`: its addresses on this machine; `is_taken`: whether the kernel leads
/// queries to it, or why that is not known.
fn node_dns(
    server: Option<&[IpAddr]>,
    local: &[IpAddr],
    is_taken: impl FnOnce() -> Result<bool, String>,
) -> Option<Finding> {
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
    let (here, elsewhere): (Vec<IpAddr>, Vec<IpAddr>) =
        server.iter().partition(|it| local.contains(it));
    if here.is_empty() {
        let evidence = format!(
            "{} is on no interface: pods get no answer there",
            listed(server)
        );
        return Some(finding(State::Fail, evidence).mend("restart the agent, which puts it on lo"));
    }
    let all = listed(&here);
    Some(match is_taken() {
        Ok(true) if elsewhere.is_empty() => {
            finding(State::Ok, format!("the agent gets the queries to {all}"))
        }
        // As on a machine without IPv6, where nobody can ask it.
        Ok(true) => finding(
            State::Ok,
            format!(
                "the agent gets the queries to {all}; {} is on no interface and is not served",
                listed(&elsewhere)
            ),
        ),
        Ok(false) => finding(
            State::Warn,
            format!("the agent does not take the queries to {all} (no table sluice-dns): they go to the cluster's DNS, none is lost"),
        )
        .mend("sluice status: the agent takes them after its first sync; its log says why not"),
        Err(error) => finding(State::Skip, error),
    })
}

/// Whether pods ask the cluster's DNS or the node's.
///
/// `local`: the addresses of the node's DNS server on this machine.
fn nameserver(kubelet: &Kubelet, central: &Central, local: &[IpAddr]) -> Finding {
    let path = kubelet.path.display();
    let Some(cluster_dns) = &kubelet.cluster_dns else {
        let evidence = format!("{path} cannot be read: the nameserver of pods is not known");
        return Finding::skip("nameserver", evidence);
    };
    let all = listed(central.cluster_ips.iter().chain(local));
    let change = format!("clusterDNS in {path}: {all}; then restart kubelet and the pods");
    if cluster_dns.is_empty() {
        let evidence = format!(
            "{path}: clusterDNS is empty: pods have the node's resolver and find no Service"
        );
        return Finding::fail("nameserver", evidence).mend(change);
    }
    let asked = listed(cluster_dns);
    let is_known = |it: &&IpAddr| central.cluster_ips.contains(it) || local.contains(it);
    let unknown: Vec<&IpAddr> = cluster_dns.iter().filter(|it| !is_known(it)).collect();
    if unknown.is_empty() {
        return Finding::ok("nameserver", format!("pods ask {asked}"));
    }
    if central.cluster_ips.is_empty() {
        let evidence = format!("pods ask {asked}; which is the cluster's DNS is not known");
        return Finding::skip("nameserver", evidence);
    }
    let (unknown, central) = (listed(unknown), &central.name);
    let evidence = format!(
        "pods ask {unknown}, which is neither a ClusterIP of {central} nor an address of this node's DNS server"
    );
    Finding::fail("nameserver", evidence).mend(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `net.ipv6.conf.lo.disable_ipv6`: the agent serves the other address.
    #[test]
    fn an_address_that_is_nowhere_is_not_praised() {
        let [v4, v6] = ["169.254.20.10", "fd00::10"].map(|it| it.parse().expect("an address"));
        let found = |local: &[IpAddr]| {
            let finding = node_dns(Some(&[v4, v6]), local, || Ok(true));
            let finding = finding.expect("there is a server");
            (finding.state, finding.evidence)
        };
        let both = "the agent gets the queries to 169.254.20.10, fd00::10";
        assert_eq!(found(&[v4, v6]), (State::Ok, both.to_owned()));
        let one = "the agent gets the queries to 169.254.20.10; fd00::10 is on no interface and is not served";
        assert_eq!(found(&[v4]), (State::Ok, one.to_owned()));
        let none = "169.254.20.10, fd00::10 is on no interface: pods get no answer there";
        assert_eq!(found(&[]), (State::Fail, none.to_owned()));
    }
}
