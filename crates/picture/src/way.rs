//! The way of a connection to one Service: client, frontend, the rules of one node, endpoints.

mod draw;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use sluice_plan::Planner;
use sluice_plan::explain::{self, Decision, Explanation};
use sluice_plan::inventory::ServiceDetail;

use crate::objects::Objects;
use crate::question::{Question, Sender, Unknown};

/// The way to one Service in one picture. Scripts read it: fields are added, not changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    /// `namespace/name`.
    pub service: String,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `Headless`.
    pub kind: String,
    /// The client's name.
    pub client: String,
    /// The client's address.
    pub address: IpAddr,
    /// The frontend `10.96.0.10:80/tcp`, or the DNS name of a headless Service.
    pub dialled: String,
    /// Why that exists: `ClusterIP`, `NodePort`, `LoadBalancer`, `ExternalIP`, `DNS`.
    pub role: String,
    /// The rules that the packet meets; `None` for a headless Service, which has none.
    pub rules: Option<Rules>,
    /// Every endpoint, those of each node together.
    pub endpoints: Vec<Target>,
    /// The Service's ports by name, or by number where they have none: each has a way of its own.
    pub ports: Vec<String>,
    /// The results of real connections, if any were made.
    pub measured: Option<Measured>,
}

/// The rules of a node for the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    pub node: String,
    /// The reasons, a sentence each: policy, client, affinity, hints.
    pub sentences: Vec<String>,
    pub verdict: Decision,
    /// The verdict with its reason.
    pub reason: String,
}

/// An endpoint and what it gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its pod, if known.
    pub pod: Option<String>,
    /// The node that it runs on; `None` outside the cluster.
    pub node: Option<String>,
    /// Its zone, if known.
    pub zone: Option<String>,
    /// It gets connections of this client.
    pub included: bool,
    /// It gets connections, and refuses them.
    pub refuses: bool,
    /// Why it gets nothing, why it gets something though it is not ready, or why it refuses; else empty.
    pub reason: String,
    /// Its part of the connections, 0 to 1: measured, or else planned. `None` where it gets nothing, and where
    /// the client chooses.
    pub share: Option<f64>,
    /// The client that the endpoint sees: the client's address, or the node whose address replaces it. `None` when it
    /// gets no connection.
    pub sees: Option<String>,
}

/// The results of real connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Answers by the name of the pod.
    pub answered: BTreeMap<String, u64>,
    /// Answers by the client's address that the pod saw.
    pub seen_from: BTreeMap<String, u64>,
    /// Connections without an answer, by what happened.
    pub failed: BTreeMap<String, u64>,
}

impl Measured {
    /// Number of connections.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.answered.values().chain(self.failed.values()).sum()
    }
}

impl Way {
    /// The answer to a question. `planner` has the plan of [`Question::node`].
    ///
    /// # Errors
    ///
    /// Client or Service do not exist, or the Service has no address that the client can dial.
    pub fn of(objects: &Objects, planner: &Planner, question: &Question) -> Result<Self, Unknown> {
        let sender = question.sender(objects)?;
        let detail = question.detail(planner)?;
        if detail.summary.kind == "Headless" {
            return headless(planner, question, &sender, &detail);
        }
        let here = &*planner.settings().node_name;
        let node = objects.node(here);
        let node = node.ok_or_else(|| Unknown(format!("there is no node {here}")))?;
        let dialled = question.dialled(&detail, &sender, node)?;
        let is_v4 = detail.ports[dialled.port].family == "IPv4";
        let address = sender.addresses.iter().find(|it| it.is_ipv4() == is_v4);
        let address = *address.ok_or_else(|| has_no_address(question))?;
        let answer = explain::answer(planner, &address.to_string(), &dialled.target, None);
        let answer = answer.map_err(|it| Unknown(it.to_string()))?;
        Ok(Self {
            service: question.service.to_string(),
            kind: detail.summary.kind.clone(),
            client: question.from.clone(),
            address,
            dialled: dialled.target,
            role: dialled.role,
            endpoints: targets(&answer, &detail),
            rules: Some(rules(answer)),
            ports: ports(&detail),
            measured: None,
        })
    }

    /// The address of what is dialled, for a probe; `None` for a DNS name.
    #[must_use]
    pub fn target(&self) -> Option<SocketAddr> {
        let (address, _) = self.dialled.rsplit_once('/')?;
        address.parse().ok()
    }

    /// Whether it is dialled with datagrams.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        self.dialled.ends_with("/udp")
    }

    /// Replaces the shares by those of real connections.
    #[must_use]
    pub fn measured(mut self, measured: Measured) -> Self {
        let all: u64 = measured.requests().max(1);
        for target in &mut self.endpoints {
            let of_pod = target.pod.as_ref().and_then(|it| measured.answered.get(it));
            let count = of_pod.copied().unwrap_or_default();
            // An answer of an endpoint that should get nothing is shown as well.
            target.share = (target.included || count > 0).then(|| count as f64 / all as f64);
        }
        self.measured = Some(measured);
        self
    }

    /// Marks the endpoints that get connections and refuse them: `refuses` says whether nothing listens at an address. Only
    /// TCP does.
    #[must_use]
    pub fn refused(mut self, refuses: impl Fn(SocketAddr) -> bool) -> Self {
        let is_tcp = self.dialled.ends_with("/tcp");
        let refusing = |it: &&mut Target| is_tcp && it.included && refuses(it.address);
        for target in self.endpoints.iter_mut().filter(refusing) {
            target.refuses = true;
            target.reason = "nothing listens at its port".to_owned();
        }
        self
    }

    /// Notes about the shares, a sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Some(measured) = &self.measured else {
            let gets = self.endpoints.iter().any(|it| it.included);
            return match (gets, &self.rules) {
                (true, Some(_)) => vec![
                    "Planned: each endpoint gets an equal part of the connections of many clients."
                        .to_owned(),
                ],
                (true, None) => vec![
                    "The client chooses, and dials the endpoint's own port. Nothing is rewritten."
                        .to_owned(),
                ],
                (false, _) => Vec::new(),
            };
        };
        let listed = |counts: &BTreeMap<String, u64>| {
            let all = counts
                .iter()
                .map(|(what, count)| format!("{what} ({count})"));
            all.collect::<Vec<_>>().join(", ")
        };
        let mut notes = vec![format!(
            "Measured with {} connections.",
            measured.requests()
        )];
        if !measured.seen_from.is_empty() {
            notes.push(format!("The pods saw {}.", listed(&measured.seen_from)));
        }
        if !measured.failed.is_empty() {
            notes.push(format!("Without an answer: {}.", listed(&measured.failed)));
        }
        notes
    }
}

/// The ports of a Service, once for both families.
fn ports(detail: &ServiceDetail) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for it in &detail.ports {
        let name = match &*it.port {
            "" => it.number.to_string(),
            name => name.to_owned(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn has_no_address(question: &Question) -> Unknown {
    Unknown(format!("{} has no address yet", question.from))
}

fn rules(answer: Explanation) -> Rules {
    let mut sentences = Vec::new();
    if let Some(hit) = answer.service {
        sentences.push(hit.policy);
        sentences.push(format!("client {}", hit.masquerade_reason));
        let affinity = hit.affinity_seconds;
        sentences.extend(affinity.map(|it| format!("a client stays with its endpoint for {it} s")));
        sentences.extend(hit.topology);
        sentences.extend(hit.source_ranges.map(|it| {
            if it.admitted {
                "source ranges admit the client".to_owned()
            } else {
                format!("source ranges admit only {}", it.allowed.join(", "))
            }
        }));
    }
    Rules {
        node: answer.node,
        sentences,
        verdict: answer.verdict,
        reason: answer.reason,
    }
}

fn targets(answer: &Explanation, detail: &ServiceDetail) -> Vec<Target> {
    let members = answer.service.iter().flat_map(|it| &it.endpoints);
    let included = members.clone().filter(|it| it.included).count().max(1);
    let known = || detail.ports.iter().flat_map(|it| &it.endpoints);
    let targets = members.map(|it| Target {
        address: it.address,
        pod: it.pod.clone(),
        node: it.node.clone(),
        zone: known()
            .find(|known| known.address == it.address)
            .and_then(|it| it.zone.clone()),
        included: it.included,
        refuses: false,
        reason: it.reason.clone(),
        share: it.included.then(|| 1.0 / included as f64),
        sees: it.included.then(|| {
            if it.masqueraded {
                answer.node.clone()
            } else {
                answer.source.to_string()
            }
        }),
    });
    sorted(targets.collect())
}

/// The endpoints of each node together, those outside the cluster last.
fn sorted(mut targets: Vec<Target>) -> Vec<Target> {
    targets.sort_by(|a, b| {
        let key = |it: &Target| (it.node.is_none(), it.node.clone(), it.address);
        key(a).cmp(&key(b))
    });
    targets
}

/// DNS answers with the endpoints that are ready, and there are no rules.
fn headless(
    planner: &Planner,
    question: &Question,
    sender: &Sender,
    detail: &ServiceDetail,
) -> Result<Way, Unknown> {
    let address = sender
        .addresses
        .first()
        .ok_or_else(|| has_no_address(question))?;
    let entry = planner.state().service(&question.service);
    let slices: Vec<_> = entry
        .into_iter()
        .flat_map(|it| it.slices.values())
        .collect();
    let of_family = slices.iter().flat_map(|slice| {
        let port = slice.ports.first();
        let endpoints = slice.endpoints.iter();
        let endpoints = endpoints.filter(|it| it.address.is_ipv4() == address.is_ipv4());
        endpoints.filter_map(move |it| Some((SocketAddr::new(it.address, port?.port.get()), it)))
    });
    let targets = of_family.map(|(of_target, it)| Target {
        address: of_target,
        pod: it.target.as_deref().map(str::to_owned),
        node: it.node.as_deref().map(str::to_owned),
        zone: it.zone.as_deref().map(str::to_owned),
        included: it.conditions.ready,
        refuses: false,
        reason: match (it.conditions.ready, it.conditions.terminating) {
            (true, _) => String::new(),
            (false, true) => "terminating".to_owned(),
            (false, false) => "not ready: not in DNS".to_owned(),
        },
        share: None,
        sees: it.conditions.ready.then(|| address.to_string()),
    });
    Ok(Way {
        service: question.service.to_string(),
        kind: detail.summary.kind.clone(),
        client: question.from.clone(),
        address: *address,
        dialled: format!(
            "{}.{}.svc.cluster.local",
            question.service.name, question.service.namespace
        ),
        role: "DNS".to_owned(),
        rules: None,
        endpoints: sorted(targets.collect()),
        ports: ports(detail),
        measured: None,
    })
}
