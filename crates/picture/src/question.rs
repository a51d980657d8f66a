//! The question of a picture: which client connects to which Service, and at which node.

use std::net::IpAddr;

use serde_json::Value;
use sluice_model::NamespacedName;
use sluice_plan::Planner;
use sluice_plan::inventory::{self, PortDetail, ServiceDetail};

use crate::objects::{Kind, Objects, name, text};

/// A question that names nothing that exists. One line for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub(crate) String);

/// The client and the Service that it connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub service: NamespacedName,
    /// Name or number of its port; `None` for the first.
    pub port: Option<String>,
    /// A node, a pod as `NAME` or `NAMESPACE/NAME`, or anything else for a machine outside the cluster with
    /// the addresses [`outside`](Self::outside).
    pub from: String,
    /// The addresses of the machine outside.
    pub outside: Vec<IpAddr>,
    /// The node that is dialled, at its NodePort.
    pub via: Option<String>,
}

/// The client, found among the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) addresses: Vec<IpAddr>,
    /// The node that it is, or is on.
    pub(crate) node: Option<String>,
}

/// The frontend that the client connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialled {
    /// As `explain` takes it: `10.96.0.10:80/tcp`.
    pub(crate) target: String,
    /// Why the frontend exists: `ClusterIP`, `NodePort`.
    pub(crate) role: String,
    /// Where in [`ServiceDetail::ports`].
    pub(crate) port: usize,
}

impl Question {
    /// The node whose rules the packet meets: that of `via`, or the client's, or the first one.
    ///
    /// # Errors
    ///
    /// There is no such node, or none at all.
    pub fn node(&self, objects: &Objects) -> Result<String, Unknown> {
        let via = match &self.via {
            Some(via) => Some(via.clone()),
            None => self.sender(objects)?.node,
        };
        match via {
            Some(via) if objects.node(&via).is_some() => Ok(via),
            Some(via) => Err(Unknown(format!("there is no node {via}"))),
            None => {
                let first = objects
                    .all(Kind::Node)
                    .first()
                    .map(|it| name(it).to_owned());
                first.ok_or_else(|| Unknown("there is no node".to_owned()))
            }
        }
    }

    pub(crate) fn sender(&self, objects: &Objects) -> Result<Sender, Unknown> {
        if let Some(node) = objects.node(&self.from) {
            return Ok(Sender {
                addresses: ips(&node["status"]["addresses"], "address"),
                node: Some(self.from.clone()),
            });
        }
        let default = (&*self.service.namespace, &*self.from);
        let (namespace, pod) = self.from.split_once('/').unwrap_or(default);
        let is_it =
            |it: &&Value| name(it) == pod && text(&it["metadata"]["namespace"]) == namespace;
        match objects.all(Kind::Pod).into_iter().find(is_it) {
            Some(pod) => Ok(Sender {
                addresses: ips(&pod["status"]["podIPs"], "ip"),
                node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
            }),
            None if self.outside.is_empty() => Err(Unknown(format!(
                "there is no node and no pod {}",
                self.from
            ))),
            None => Ok(Sender {
                addresses: self.outside.clone(),
                node: None,
            }),
        }
    }

    /// The Service with every endpoint, as the planner's node sees it.
    pub(crate) fn detail(&self, planner: &Planner) -> Result<ServiceDetail, Unknown> {
        inventory::service(planner, &self.service)
            .ok_or_else(|| Unknown(format!("there is no Service {}", self.service)))
    }

    /// The frontend that the client connects to: the NodePort of `via`; from outside the load balancer, an external IP
    /// or a NodePort before the ClusterIP; from inside the ClusterIP. Of the port's first family that the client has.
    pub(crate) fn dialled(
        &self,
        detail: &ServiceDetail,
        sender: &Sender,
        node: &Value,
    ) -> Result<Dialled, Unknown> {
        let order: &[&str] = match (&self.via, &sender.node) {
            (Some(_), _) => &["NodePort"],
            (None, Some(_)) => &["ClusterIP", "NodePort", "LoadBalancer", "ExternalIP"],
            (None, None) => &["LoadBalancer", "ExternalIP", "NodePort", "ClusterIP"],
        };
        let is_asked = |it: &PortDetail| match &self.port {
            None => it.number == detail.ports[0].number,
            Some(port) => it.port == *port || it.number.to_string() == *port,
        };
        for role in order {
            for (at, port) in detail
                .ports
                .iter()
                .enumerate()
                .filter(|(_, it)| is_asked(it))
            {
                let position = port.roles.iter().position(|it| it == role);
                let Some(frontend) = position.and_then(|it| port.frontends.get(it)) else {
                    continue;
                };
                let is_v4 = port.family == "IPv4";
                if !sender.addresses.iter().any(|it| it.is_ipv4() == is_v4) {
                    continue;
                }
                let target = match (*role, port.node_port) {
                    ("NodePort", Some(number)) => {
                        let ips = ips(&node["status"]["addresses"], "address");
                        let ip = ips.into_iter().find(|it| it.is_ipv4() == is_v4);
                        ip.map(|it| std::net::SocketAddr::new(it, number))
                            .map(|it| format!("{it}/{}", port.protocol))
                    }
                    _ => Some(frontend.clone()),
                };
                if let Some(target) = target {
                    return Ok(Dialled {
                        target,
                        role: (*role).to_owned(),
                        port: at,
                    });
                }
            }
        }
        let what = match &self.port {
            Some(port) => format!("port {port} that {} can dial", self.from),
            None => format!("address that {} can dial", self.from),
        };
        Err(Unknown(format!("Service {} has no {what}", self.service)))
    }
}

/// The addresses in a field of a list's items.
pub(crate) fn ips(list: &Value, field: &str) -> Vec<IpAddr> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|it| text(&it[field]).parse().ok())
        .collect()
}
