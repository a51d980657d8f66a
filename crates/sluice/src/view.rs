//! Who answers a command's questions about Services: the running agent, or a plan of our own.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use sluice_model::NamespacedName;
use sluice_node::client::{self, ClientError};
use sluice_plan::Planner;
use sluice_plan::explain::{self, Explanation};
use sluice_plan::inventory::{self, ServiceDetail, ServiceSummary};

use crate::cli::NodeArgs;
use crate::planned;

/// The source of answers.
pub(crate) enum View {
    /// The agent behind this socket.
    Agent(PathBuf),
    /// The plan of manifests or of an API server's objects.
    Plan(Box<Planner>),
}

impl View {
    /// The plan that the flags ask for; without any of them the agent's.
    pub(crate) fn of(args: &NodeArgs, socket: &Path) -> anyhow::Result<Self> {
        match args.names_source() {
            true => Ok(Self::Plan(Box::new(planned::plan(args)?.planner))),
            false => Ok(Self::Agent(socket.to_owned())),
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
            Self::Plan(planner) => Ok(explain::answer(planner, from, to, interface)?),
            Self::Agent(socket) => {
                let mut query = vec![("from", from), ("to", to)];
                query.extend(interface.map(|it| ("interface", it)));
                client::ask(socket, "/explain", &query).map_err(with_hint)
            }
        }
    }
}

impl View {
    /// A line for each Service.
    pub(crate) fn services(&self) -> anyhow::Result<Vec<ServiceSummary>> {
        match self {
            Self::Plan(planner) => Ok(inventory::services(planner, "")),
            Self::Agent(socket) => client::ask(socket, "/services", &[]).map_err(with_hint),
        }
    }

    /// One Service with every endpoint.
    pub(crate) fn service(&self, name: &NamespacedName) -> anyhow::Result<ServiceDetail> {
        match self {
            Self::Plan(planner) => {
                inventory::service(planner, name).with_context(|| explain::unknown(name, planner))
            }
            Self::Agent(socket) => {
                let query = [("name", &*name.to_string())];
                client::ask(socket, "/service", &query).map_err(with_hint)
            }
        }
    }
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
