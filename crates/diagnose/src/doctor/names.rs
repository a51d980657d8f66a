//! What names of this node's pods need: a DNS server that answers, and resolvers that ask it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use sluice_plan::inventory::ServiceDetail;

use super::dialled::cluster_ips;
use super::listed;
use super::report::{Finding, State};

/// The cluster's DNS.
#[derive(Clone, Debug)]
pub struct Central {
    /// `namespace/name`.
    pub name: String,
    /// Where pods ask it.
    pub cluster_ips: BTreeSet<IpAddr>,
}

impl Central {
    /// The Service of this name, and whether it can be asked. `detail`: the Service, or why it cannot be had; `None`
    /// without anybody to ask. `is_needed`: pods of this machine ask it.
    #[must_use]
    pub fn of(
        name: String,
        detail: Option<Result<ServiceDetail, String>>,
        is_needed: bool,
    ) -> (Self, Finding) {
        let finding = |state, evidence| Finding::new("dns service", state, evidence);
        let (cluster_ips, finding) = match detail {
            None => (
                BTreeSet::new(),
                finding(
                    State::Skip,
                    "no agent to ask, and no source of Services".to_owned(),
                ),
            ),
            Some(Err(error)) => {
                let state = if is_needed { State::Fail } else { State::Skip };
                (
                    BTreeSet::new(),
                    finding(state, error).mend(
                        "--dns-service NAMESPACE/NAME where the cluster's DNS has another name",
                    ),
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
        (Self { name, cluster_ips }, finding)
    }
}

/// The DNS server inside the agent: who gets the queries to its addresses. `None` when this node has none.
///
/// `server`: the addresses that it serves; `local`: its addresses on this machine; `is_taken`: whether the kernel leads
/// queries to it, or why that is not known.
#[must_use]
pub fn node_dns(
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
    let all = listed(server);
    // A machine without IPv6 has only the other one.
    if !server.iter().any(|it| local.contains(it)) {
        let evidence = format!("{all} is on no interface: pods get no answer there");
        return Some(finding(State::Fail, evidence).mend("restart the agent, which puts it on lo"));
    }
    Some(match is_taken() {
        Ok(true) => finding(State::Ok, format!("the agent gets the queries to {all}")),
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
/// `cluster_dns` is what `path`, the configuration of the kubelet, says; `None` when it cannot be read.
#[must_use]
pub fn nameserver(
    path: &Path,
    cluster_dns: Option<&[IpAddr]>,
    central: &Central,
    local: &[IpAddr],
) -> Finding {
    let path = path.display();
    let finding = |state, evidence| Finding::new("nameserver", state, evidence);
    let Some(cluster_dns) = cluster_dns else {
        let evidence = format!("{path} cannot be read: the nameserver of pods is not known");
        return finding(State::Skip, evidence);
    };
    let asked = listed(cluster_dns);
    let is_known = |it: &&IpAddr| central.cluster_ips.contains(it) || local.contains(it);
    let unknown: Vec<&IpAddr> = cluster_dns.iter().filter(|it| !is_known(it)).collect();
    let change = || {
        let all = central.cluster_ips.iter().chain(local);
        format!(
            "clusterDNS in {path}: {}; then restart kubelet and the pods",
            listed(all)
        )
    };
    match (cluster_dns.is_empty(), unknown.is_empty()) {
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
