//! ClusterNetworkPolicies.

use std::sync::LazyLock;

use serde::Deserialize;
use sluice_model::{Protocol, Selector};
use sluice_policy_plan as plan;
use sluice_policy_plan::{Action, Block, Namespaces, Peer, PodSelection, PortNumber, Rule, Tier};
use sluice_source::kind::{
    At, Converted, Faults, Fields, Identity, Interner, Kind, ObjectMeta, cluster_scoped, nullable,
};

use super::parts::{LabelSelector, Unknown, known, number, prefix};

/// A ClusterNetworkPolicy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterNetworkPolicy {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    tier: String,
    priority: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    subject: WrittenPods,
    #[serde(deserialize_with = "nullable")]
    ingress: Vec<WrittenRule>,
    #[serde(deserialize_with = "nullable")]
    egress: Vec<WrittenRule>,
}

/// `subject`, and the peers that both directions have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenPods {
    namespaces: Option<LabelSelector>,
    pods: Option<WrittenPodSelection>,
    networks: Option<Vec<String>>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenPodSelection {
    #[serde(deserialize_with = "nullable")]
    namespace_selector: LabelSelector,
    #[serde(deserialize_with = "nullable")]
    pod_selector: LabelSelector,
    #[serde(flatten)]
    unknown: Unknown,
}

/// An entry of `ingress` or `egress`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenRule {
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    action: String,
    #[serde(deserialize_with = "nullable")]
    from: Vec<WrittenPods>,
    #[serde(deserialize_with = "nullable")]
    to: Vec<WrittenPods>,
    #[serde(deserialize_with = "nullable")]
    protocols: Vec<WrittenProtocol>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenProtocol {
    tcp: Option<WrittenPort>,
    udp: Option<WrittenPort>,
    sctp: Option<WrittenPort>,
    destination_named_port: Option<String>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenPort {
    destination_port: Option<WrittenNumbers>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenNumbers {
    number: Option<i64>,
    range: Option<WrittenRange>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenRange {
    start: i64,
    end: i64,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: egress ingress priority subject tier
spec.subject: namespaces pods",
    )
});

impl Kind for ClusterNetworkPolicy {
    type Model = plan::ClusterNetworkPolicy;
    const VERSIONS: &'static [&'static str] = &[
        "policy.networking.k8s.io/v1beta1",
        "policy.networking.k8s.io/v1alpha2",
    ];
    const PLURAL: &'static str = "clusternetworkpolicies";
    const OBJECTS: &'static str = "ClusterNetworkPolicies";
    const IS_NAMESPACED: bool = false;

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut faults = Faults::new(names);
        let name = cluster_scoped(&self.metadata, &mut faults);
        let spec = &self.spec;
        let tier = faults.take(At::top("spec.tier"), tier(&spec.tier));
        let priority = faults.take(At::top("spec.priority"), priority(spec.priority));
        let subject = faults.take(At::top("spec.subject"), selection(&spec.subject));
        let [ingress, egress] = [
            (&spec.ingress, "spec.ingress"),
            (&spec.egress, "spec.egress"),
        ]
        .map(|(list, at)| rules(list, At::top(at), &mut faults));
        let fields = name.zip(tier).zip(priority.zip(subject));
        let policy = fields.map(
            |((name, tier), (priority, subject))| plan::ClusterNetworkPolicy {
                name,
                tier,
                priority,
                subject,
                ingress,
                egress,
            },
        );
        faults.finish(policy)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}

fn tier(text: &str) -> Result<Tier, String> {
    match text {
        "Admin" => Ok(Tier::Admin),
        "Baseline" => Ok(Tier::Baseline),
        other => Err(format!("{other:?} is not one of Admin, Baseline")),
    }
}

fn priority(number: Option<i64>) -> Result<u16, String> {
    let number = number.and_then(|it| u16::try_from(it).ok());
    let number = number.filter(|it| *it <= 1_000);
    number.ok_or_else(|| "is not in 0..=1000".to_owned())
}

/// The pods of a subject or peer.
fn selection(written: &WrittenPods) -> Result<PodSelection, String> {
    known(&written.unknown)?;
    match (&written.namespaces, &written.pods) {
        (Some(namespaces), None) => Ok(PodSelection {
            namespaces: Namespaces::Selected(namespaces.read()?),
            pods: Selector::default(),
        }),
        (None, Some(pods)) => {
            known(&pods.unknown)?;
            Ok(PodSelection {
                namespaces: Namespaces::Selected(pods.namespace_selector.read()?),
                pods: pods.pod_selector.read()?,
            })
        }
        _ => Err("one of namespaces, pods is required".to_owned()),
    }
}

/// The rules of one direction. One that is not understood closes (the standard, "unknown or unsupported fields"): what it
/// would accept is not accepted by it, and what it would deny or pass is denied, all of it.
fn rules(written: &[WrittenRule], at: At<'_>, faults: &mut Faults<'_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (index, rule) in written.iter().enumerate() {
        let at = at.index(index);
        let action = match &*rule.action {
            "Accept" => Action::Accept,
            "Deny" => Action::Deny,
            "Pass" => Action::Pass,
            other => {
                faults.refuse(
                    at.field("action"),
                    format!("{other:?} is not one of Accept, Deny, Pass"),
                );
                continue;
            }
        };
        match self::rule(rule, action) {
            Ok(rule) => rules.push(rule),
            Err(why) if action == Action::Accept => {
                faults.note(at, format!("{why}: this rule accepts nothing"));
                rules.push(everything(Action::Accept, Some(Vec::new())));
            }
            Err(why) => {
                faults.note(at, format!("{why}: this rule denies everything"));
                rules.push(everything(Action::Deny, None));
            }
        }
    }
    rules
}

const fn everything(action: Action, peers: Option<Vec<Peer>>) -> Rule {
    Rule {
        action,
        peers,
        ports: None,
    }
}

fn rule(written: &WrittenRule, action: Action) -> Result<Rule, String> {
    known(&written.unknown)?;
    let mut peers = Vec::new();
    for peer in written.from.iter().chain(&written.to) {
        match &peer.networks {
            None => peers.push(Peer::Pods(selection(peer)?)),
            Some(networks) => {
                known(&peer.unknown)?;
                for network in networks {
                    let cidr = prefix(network)?;
                    let except = Vec::new();
                    peers.push(Peer::Block(Block { cidr, except }));
                }
            }
        }
    }
    let mut ports = Vec::new();
    for protocol in &written.protocols {
        ports.extend(self::ports(protocol)?);
    }
    Ok(Rule {
        action,
        peers: Some(peers),
        ports: (!written.protocols.is_empty()).then_some(ports),
    })
}

fn ports(written: &WrittenProtocol) -> Result<Vec<plan::Port>, String> {
    known(&written.unknown)?;
    let of_protocol = [
        (Protocol::Tcp, &written.tcp),
        (Protocol::Udp, &written.udp),
        (Protocol::Sctp, &written.sctp),
    ];
    let mut ports = Vec::new();
    for (protocol, port) in of_protocol {
        if let Some(port) = port {
            let number = numbers(port)?;
            ports.push(plan::Port { protocol, number });
        }
    }
    if let Some(name) = &written.destination_named_port {
        ports.extend(Protocol::ALL.map(|protocol| plan::Port {
            protocol,
            number: PortNumber::Named(name.as_str().into()),
        }));
    }
    if ports.is_empty() {
        return Err("one of tcp, udp, sctp, destinationNamedPort is required".to_owned());
    }
    Ok(ports)
}

fn numbers(written: &WrittenPort) -> Result<PortNumber, String> {
    known(&written.unknown)?;
    let Some(port) = &written.destination_port else {
        return Ok(PortNumber::Any);
    };
    known(&port.unknown)?;
    let (first, last) = match (port.number, &port.range) {
        (Some(only), None) => (only, only),
        (None, Some(range)) => (range.start, range.end),
        _ => return Err("one of number, range is required".to_owned()),
    };
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("the range ends at {last}, before {first}"));
    }
    Ok(PortNumber::Range(first, last))
}

#[cfg(test)]
mod tests;
