//! What the checks ask of others.

use std::net::{IpAddr, SocketAddr};

use sluice_model::NamespacedName;
use sluice_plan::explain::Explanation;
use sluice_plan::inventory::{ServiceDetail, ServiceSummary};
use sluice_plane::{Live, Watched, Witness};

use super::pods::{PodState, ServicePods};
use super::proxy::{Agent, NoAgent};

/// The agent and the rules of this machine. An error is its text.
pub trait Sources {
    /// The running agent, or why none answers.
    fn agent(&self) -> Result<Agent<'_>, NoAgent>;

    /// Why the API server that the agent follows does not answer now; `None` when it does, and without one to ask.
    fn unanswered(&self) -> Option<&str>;

    /// The agent's process, where it is in another network namespace than this one.
    fn elsewhere(&self) -> Option<u32>;

    /// The plan that is asked; `None` without an agent and another source.
    fn plan(&self) -> Option<&dyn Plan>;

    /// The pods behind a Service; `None` without an API server to ask.
    fn pods(&self, service: &NamespacedName) -> Option<Result<ServicePods, String>>;

    /// A pod by name; `None` without an API server to ask, and where it knows no such pod.
    fn pod(&self, name: &NamespacedName) -> Option<PodState>;

    /// The first object of the API server's list at this path, as `NAMESPACE/NAME` or its name; `None` without one, and where no
    /// API server can be asked.
    fn first_of(&self, path: &str) -> Option<String>;

    /// The modes whose rules are here beside those of `mode`, with one object each.
    fn beside(&self, mode: &str) -> Vec<(&'static str, String)>;

    /// Whether rules of any mode are here, Sluice's or a kube-proxy's.
    fn has_rules(&self) -> bool;

    /// Watches what programs do with packets; see [`DataPlane::witness`](sluice_plane::DataPlane::witness).
    ///
    /// # Errors
    ///
    /// Programs cannot be told, or somebody else watches.
    fn witness(&self, watched: Watched) -> Result<Option<Box<dyn Witness>>, String>;

    /// What a resolver's configuration file says.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn resolv_conf(&self, path: &str) -> Result<ResolvConf, String>;

    /// The addresses of the node's DNS server on this machine.
    fn local_dns(&self) -> Vec<IpAddr>;

    /// Whether the kernel leads queries to the node's DNS server.
    ///
    /// # Errors
    ///
    /// The kernel cannot be asked.
    fn takes_queries(&self) -> Result<bool, String>;
}

/// Answers about Services: the agent's, or those of a plan of manifests or of an API server's objects.
pub trait Plan {
    /// A line for each Service.
    ///
    /// # Errors
    ///
    /// The agent does not answer.
    fn services(&self) -> Result<Vec<ServiceSummary>, String>;

    /// One Service with every endpoint.
    ///
    /// # Errors
    ///
    /// There is none, or the agent does not answer.
    fn service(&self, name: &NamespacedName) -> Result<ServiceDetail, String>;

    /// What happens to a packet.
    ///
    /// # Errors
    ///
    /// The question names no packet, or the agent does not answer.
    fn explain(&self, from: &str, to: &str) -> Result<Explanation, String>;

    /// What the kernel of this machine does with these packets.
    ///
    /// # Errors
    ///
    /// The kernel cannot be read.
    fn live(&self, all: &[Explanation]) -> Result<Vec<Live>, String>;

    /// Why network policies drop what a client sends to an endpoint; `None` where they allow it, and without an agent that
    /// enforces them.
    fn forbids(&self, client: IpAddr, endpoint: SocketAddr, protocol: &str) -> Option<String>;
}

/// The file of a resolver.
#[derive(Clone, Debug, Default)]
pub struct ResolvConf {
    pub servers: Vec<IpAddr>,
    /// The search path.
    pub search: Vec<String>,
}
