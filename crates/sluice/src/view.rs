//! Who answers a command's questions about Services: the running agent, or a plan of our own.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use sluice_model::NamespacedName;
use sluice_node::client::{self, ClientError};
use sluice_node::privileges::is_secure_execution;
use sluice_plan::explain::{self, Explanation};
use sluice_plan::inventory::{self, ServiceDetail, ServiceSummary};
use sluice_policy_agent::PolicyAnswer;
use sluice_source::apiserver::{self, Access, Client, Plugins};
use sluice_zone::Resolution;

use crate::cli::NodeArgs;
use crate::planned::{self, Planned};
use crate::resolution::Asked;
use crate::status::Whole;

/// The source of answers.
pub(crate) enum View {
    /// The agent behind this socket.
    Agent(PathBuf),
    /// The plan of manifests or of an API server's objects.
    Plan(Box<Planned>),
}

impl View {
    /// The plan that the flags ask for; without any of them the agent's.
    pub(crate) fn of(args: &NodeArgs, socket: &Path) -> anyhow::Result<Self> {
        if args.names_source() {
            Ok(Self::Plan(Box::new(planned::plan(args)?)))
        } else {
            Ok(Self::Agent(socket.to_owned()))
        }
    }

    /// The same, for questions about DNS names, too.
    pub(crate) fn with_names(args: &NodeArgs, socket: &Path) -> anyhow::Result<Self> {
        if args.names_source() {
            Ok(Self::Plan(Box::new(planned::plan_with_names(args)?)))
        } else {
            Ok(Self::Agent(socket.to_owned()))
        }
    }

    /// The API server: that of the plan, or the one that the agent follows, where this process may read the agent's
    /// kubeconfig. `None` without one.
    pub(crate) fn api_server(&self) -> Option<Client> {
        match self {
            Self::Plan(planned) => planned.client.clone(),
            Self::Agent(socket) => {
                let status: Whole = client::get(socket, "/status").ok()?;
                followed(&status)
            }
        }
    }

    /// The addresses of a pod; none where no API server is there, or it does not know the pod.
    fn addresses_of_pod(&self, name: &NamespacedName) -> Vec<IpAddr> {
        let server = self.api_server();
        let found = server.and_then(|it| apiserver::pod_addresses(&it, name).ok());
        found.unwrap_or_default()
    }

    /// Whether names can be asked for: an agent knows them when it has a DNS server.
    pub(crate) fn has_names(&self) -> anyhow::Result<bool> {
        match self {
            Self::Plan(planned) => Ok(planned.names.is_some()),
            Self::Agent(socket) => {
                let whole: Whole = client::get(socket, "/status").map_err(with_hint)?;
                Ok(whole.dns.is_some())
            }
        }
    }

    /// What the records of a name are, for a pod as NAMESPACE/NAME or its address.
    pub(crate) fn resolve(
        &self,
        name: &str,
        types: &str,
        from: Option<&str>,
    ) -> anyhow::Result<Resolution> {
        match self {
            Self::Plan(planned) => {
                let asked = Asked::of(name, types, from)?;
                let names = planned.names.as_ref();
                let names = names.context("the names were not read")?;
                asked.in_objects(&names.objects, &names.zone)
            }
            Self::Agent(socket) => {
                let mut query = vec![("name", name), ("type", types)];
                query.extend(from.map(|it| ("from", it)));
                client::ask(socket, "/name", &query).map_err(with_hint)
            }
        }
    }

    /// What happens to a packet.
    pub(crate) fn explain(
        &self,
        from: &str,
        to: &str,
        interface: Option<&str>,
    ) -> anyhow::Result<Explanation> {
        match self {
            Self::Plan(planned) => explain_plan(planned, from, to, interface),
            Self::Agent(socket) => {
                let mut query = vec![("from", from), ("to", to)];
                query.extend(interface.map(|it| ("interface", it)));
                match client::ask(socket, "/explain", &query) {
                    Err(ClientError::Unclear(why)) => self.explain_pods(&query, why),
                    answer => answer.map_err(with_hint),
                }
            }
        }
    }

    /// What network policies say about a connection; `None` without an agent that enforces them.
    pub(crate) fn policy(
        &self,
        source: IpAddr,
        destination: SocketAddr,
        protocol: &str,
    ) -> Option<PolicyAnswer> {
        let Self::Agent(socket) = self else {
            return None;
        };
        let (from, to) = (source.to_string(), destination.to_string());
        let query = [("from", &*from), ("to", &to), ("protocol", protocol)];
        client::ask(socket, "/policy", &query).ok()
    }

    /// Asks the agent again, where FROM is a pod that is in no EndpointSlice, or says that TO is a pod. `why`: what the
    /// agent did not understand.
    fn explain_pods(&self, query: &[(&str, &str)], why: String) -> anyhow::Result<Explanation> {
        let Self::Agent(socket) = self else {
            bail!(why);
        };
        let [(_, from), (_, to), rest @ ..] = query else {
            bail!(why);
        };
        let named = explain::sender_pod(from);
        let addresses = named.map_or_else(Vec::new, |it| self.addresses_of_pod(&it));
        // The family of the destination decides which of them sends.
        for ip in addresses {
            let ip = ip.to_string();
            let mut query = vec![("from", &*ip), ("to", *to)];
            query.extend(rest);
            if let Ok(answer) = client::ask(socket, "/explain", &query) {
                return Ok(answer);
            }
        }
        let service = explain::service_of(to).ok().flatten();
        let pod = service.map_or_else(Vec::new, |it| self.addresses_of_pod(&it));
        match pod.first() {
            Some(ip) => {
                let to = SocketAddr::new(*ip, 80);
                bail!("{why}; a pod has this name: give its address with the port, as in {to}")
            }
            None => bail!(why),
        }
    }

    /// A line for each Service.
    pub(crate) fn services(&self) -> anyhow::Result<Vec<ServiceSummary>> {
        match self {
            Self::Plan(planned) => Ok(inventory::services(&planned.planner, "")),
            Self::Agent(socket) => client::ask(socket, "/services", &[]).map_err(with_hint),
        }
    }

    /// One Service with every endpoint.
    pub(crate) fn service(&self, name: &NamespacedName) -> anyhow::Result<ServiceDetail> {
        match self {
            Self::Plan(planned) => {
                let planner = &planned.planner;
                inventory::service(planner, name).with_context(|| explain::unknown(name, planner))
            }
            Self::Agent(socket) => {
                let query = [("name", &*name.to_string())];
                client::ask(socket, "/service", &query).map_err(with_hint)
            }
        }
    }
}

/// The API server that an agent follows, where this process may read the agent's kubeconfig.
pub(crate) fn followed(status: &Whole) -> Option<Client> {
    let access = Access {
        kubeconfig: Some(status.status.agent.kubeconfig.clone()?),
        plugins: if is_secure_execution() {
            Plugins::Refuse
        } else {
            Plugins::Run
        },
        ..Access::default()
    };
    apiserver::connect(&access).ok()
}

/// Answers from a plan. A pod that is no endpoint has its addresses from the API server.
fn explain_plan(
    planned: &Planned,
    from: &str,
    to: &str,
    interface: Option<&str>,
) -> anyhow::Result<Explanation> {
    let planner = &planned.planner;
    let pod = explain::pod_of(from, planner);
    let Some((pod, client)) = pod.zip(planned.client.as_ref()) else {
        return Ok(explain::answer(planner, from, to, interface)?);
    };
    let mut answer = Err(anyhow!("pod {pod} has no address yet"));
    for ip in apiserver::pod_addresses(client, &pod)? {
        // The family of the destination decides which of them sends.
        answer = explain::answer(planner, &ip.to_string(), to, interface).map_err(Into::into);
        if answer.is_ok() {
            break;
        }
    }
    answer
}

/// Where no agent runs, other flags help.
fn with_hint(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Absent(_) => {
            anyhow!("{error} (without an agent, give --kubeconfig or --manifests)")
        }
        error => error.into(),
    }
}
