//! `sluice doctor`: why a Service does not answer. The checks are [`sluice_diagnose::doctor`]'s.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use sluice_corefile::ResolvConf;
use sluice_diagnose::doctor::{
    self, Agent, Enforcement, Kubelet, NoAgent, NodeDns, PodState, Question, Report, ServicePods,
    Sources, State,
};
use sluice_dns_agent::local_dns;
use sluice_model::NamespacedName;
use sluice_node::client::{self, ClientError};
use sluice_node::{AgentStatus, chain};
use sluice_plan::explain::Explanation;
use sluice_plan::inventory::{ServiceDetail, ServiceSummary};
use sluice_plane::{Live, Watched, Witness};
use sluice_source::apiserver::{self, Client};

use crate::cli::DoctorArgs;
use crate::cluster;
use crate::config;
use crate::dns::resolver;
use crate::live::Reader;
use crate::output::{exit_code, format, print};
use crate::planes;
use crate::status::Whole;
use crate::view::{self, View};

/// Prints the report. Exit code 1 when something is wrong.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let agent = client::get(&args.socket, "/status");
    let plan = match (&agent, args.node.names_source()) {
        (Err(_), false) => None,
        _ => Some(Asked {
            view: View::of(&args.node, &args.socket)?,
            socket: &args.socket,
        }),
    };
    let (kubelet, cluster_domain) = read_kubelet(&args.kubelet_config);
    let flags = &args.node.dns;
    let question = Question {
        service: args.service.clone(),
        from: args.from.clone(),
        is_probed: args.probe,
        dns_service: flags.dns_service.clone(),
        domain: match (&flags.dns_domain, cluster_domain) {
            (None, Some(domain)) => domain,
            _ => flags.domain().to_owned(),
        },
        kubelet,
    };
    let elsewhere = client::in_other_namespace(&args.socket);
    let server = match plan.as_ref().map(|it| &it.view) {
        Some(View::Plan(it)) => it.client.clone(),
        Some(View::Agent(_)) => agent.as_ref().ok().and_then(view::followed),
        None => None,
    };
    // A plan of our own was just read from it.
    let asked = server.as_ref().filter(|_| !args.node.names_source());
    let unanswered = asked.and_then(|it| apiserver::ready(it).err());
    let of_policies = agent
        .as_ref()
        .ok()
        .and_then(|it: &Whole| it.network_policy.as_ref());
    let machine = Machine {
        policies: of_policies.map(ToString::to_string).unwrap_or_default(),
        agent,
        elsewhere,
        plan,
        client: server.filter(|_| unanswered.is_none()),
        unanswered: unanswered.map(|it| it.to_string()),
    };
    let findings = doctor::check(&question, &machine).map_err(anyhow::Error::msg)?;
    let report = Report {
        service: question.service,
        node: match (machine.plan.map(|it| it.view), machine.agent) {
            (Some(View::Plan(it)), _) => it.config.settings.node_name.to_string(),
            (_, Ok(it)) => it.status.agent.node,
            (_, Err(_)) => config::host_name(),
        },
        findings,
    };
    print(format(args.output, &report, ToString::to_string)?)?;
    Ok(exit_code(report.worst() != State::Fail))
}

/// The part of a KubeletConfiguration that decides what resolvers of pods are told.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletFile {
    #[serde(rename = "clusterDNS")]
    cluster_dns: Vec<IpAddr>,
    cluster_domain: Option<String>,
    resolv_conf: Option<String>,
}

/// The kubelet's configuration, and its domain of the cluster.
fn read_kubelet(path: &Path) -> (Kubelet, Option<String>) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let parsed = sluice_yaml::parse_yaml(&text, 0);
    let first = parsed.documents.first();
    let file: Option<KubeletFile> = first.and_then(|it| sluice_yaml::decode(it).0);
    let is_readable = file.is_some();
    let file = file.unwrap_or_default();
    let kubelet = Kubelet {
        path: path.to_owned(),
        cluster_dns: is_readable.then_some(file.cluster_dns),
        resolv_conf: file.resolv_conf,
    };
    (kubelet, file.cluster_domain)
}

/// This machine, and who answers here.
struct Machine<'a> {
    agent: Result<Whole, ClientError>,
    /// What the agent says about network policies.
    policies: String,
    /// The agent's process in another network namespace.
    elsewhere: Option<u32>,
    plan: Option<Asked<'a>>,
    /// The API server; `None` without one that answers.
    client: Option<Client>,
    /// Why the API server does not answer that the agent follows.
    unanswered: Option<String>,
}

impl Sources for Machine<'_> {
    fn agent(&self) -> Result<Agent<'_>, NoAgent> {
        let Whole {
            status,
            dns,
            network_policy,
        } = self.agent.as_ref().map_err(no_agent)?;
        let AgentStatus {
            version, mode, pid, ..
        } = &status.agent;
        Ok(Agent {
            version,
            mode,
            pid: *pid,
            failed: status.last_sync.as_ref().and_then(|it| it.error.as_deref()),
            source_synced: status.source_synced,
            unserved: status.unserved.as_deref(),
            stale: status.stale(),
            synced: status.synced,
            dns: dns.as_ref().map(|it| NodeDns {
                addresses: &it.addresses,
                service: &it.service,
            }),
            policies: network_policy.as_ref().map(|it| Enforcement {
                summary: &self.policies,
                error: &it.error,
                issues: &it.issues,
            }),
        })
    }

    fn unanswered(&self) -> Option<&str> {
        self.unanswered.as_deref()
    }

    fn elsewhere(&self) -> Option<u32> {
        self.elsewhere
    }

    fn plan(&self) -> Option<&dyn doctor::Plan> {
        self.plan.as_ref().map(|it| it as _)
    }

    fn pods(&self, service: &NamespacedName) -> Option<Result<ServicePods, String>> {
        Some(cluster::pods(self.client.as_ref()?, service))
    }

    fn pod(&self, name: &NamespacedName) -> Option<PodState> {
        cluster::pod(self.client.as_ref()?, name).ok()
    }

    fn first_of(&self, path: &str) -> Option<String> {
        cluster::first_of(self.client.as_ref()?, path)
    }

    fn beside(&self, mode: &str) -> Vec<(&'static str, String)> {
        planes::beside(mode)
    }

    fn has_rules(&self) -> bool {
        planes::present().is_some()
    }

    fn witness(&self, watched: Watched) -> Result<Option<Box<dyn Witness>>, String> {
        planes::witness(watched).map_err(|it| it.to_string())
    }

    fn resolv_conf(&self, path: &str) -> Result<doctor::ResolvConf, String> {
        let text = fs::read_to_string(path).map_err(|it| it.to_string())?;
        let file = ResolvConf::read(&text);
        Ok(doctor::ResolvConf {
            servers: resolver::servers(&file),
            search: file.search.into_iter().map(str::to_owned).collect(),
        })
    }

    fn local_dns(&self) -> Vec<IpAddr> {
        local_dns::addresses().unwrap_or_default()
    }

    fn takes_queries(&self) -> Result<bool, String> {
        local_dns::is_taken().map_err(|it| chain(&it))
    }
}

fn no_agent(error: &ClientError) -> NoAgent {
    let (mend, is_there) = match error {
        ClientError::Silent { process, .. } => (process.mend(), true),
        _ => (
            "start it: rules follow no change without it, and nobody repairs them".to_owned(),
            false,
        ),
    };
    NoAgent {
        why: error.to_string(),
        mend,
        is_there,
    }
}

/// Whoever answers about Services.
struct Asked<'a> {
    view: View,
    socket: &'a Path,
}

impl doctor::Plan for Asked<'_> {
    fn services(&self) -> Result<Vec<ServiceSummary>, String> {
        self.view.services().map_err(|it| chain(it.as_ref()))
    }

    fn service(&self, name: &NamespacedName) -> Result<ServiceDetail, String> {
        self.view.service(name).map_err(|it| it.to_string())
    }

    fn explain(&self, from: &str, to: &str) -> Result<Explanation, String> {
        let explained = self.view.explain(from, to, None);
        explained.map_err(|it| it.to_string())
    }

    fn live(&self, all: &[Explanation]) -> Result<Vec<Live>, String> {
        let read = || -> anyhow::Result<Vec<Live>> {
            let reader = Reader::new(&self.view, self.socket)?;
            all.iter().map(|it| reader.read(it)).collect()
        };
        read().map_err(|it| chain(it.as_ref()))
    }

    fn forbids(&self, client: IpAddr, endpoint: SocketAddr, protocol: &str) -> Option<String> {
        let answer = self.view.policy(client, endpoint, protocol)?;
        (!answer.allowed).then(|| format!("egress {}, ingress {}", answer.egress, answer.ingress))
    }
}
