//! ClusterNetworkPolicies.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use sluice_model::{NamespacedName, Protocol, Selector};
use sluice_policy_plan as plan;
use sluice_policy_plan::{
    Action, Block, Direction, Mode, Namespaces, Peer, PodSelection, PortNumber, Rule, Tier,
};
use sluice_source::kind::{
    At, Converted, Faults, Fields, Identity, Interner, Kind, ObjectMeta, cluster_scoped, nullable,
};

use super::parts::{
    Annotations, LabelSelector, Labels, Part, Unknown, known, nothing, number, prefix,
};

/// A ClusterNetworkPolicy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterNetworkPolicy {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta<Labels, Annotations>,
    spec: Part<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "a mapping")]
struct Spec {
    tier: Part<String>,
    priority: Part<Option<i64>>,
    subject: Part<WrittenPods>,
    ingress: Part<Vec<Part<WrittenRule>>>,
    egress: Part<Vec<Part<WrittenRule>>>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// `subject`, and the peers that both directions have.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "a mapping")]
struct WrittenPods {
    namespaces: Option<LabelSelector>,
    pods: Option<WrittenPodSelection>,
    /// No part of a subject.
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
#[serde(default, expecting = "a mapping")]
struct WrittenRule {
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    action: String,
    from: Option<Vec<WrittenPods>>,
    to: Option<Vec<WrittenPods>>,
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
: apiVersion kind metadata spec status",
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

    /// A policy is there even if it is unknown about what: see `policy`.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut faults = Faults::new(names);
        let name = cluster_scoped(&self.metadata, &mut faults);
        let policy = name.map(|name| {
            let policy = match self.spec.read() {
                Ok(spec) => policy(spec, name, &mut faults),
                Err(why) => {
                    faults.note(At::top("spec"), format!("{why}: {DENIES_ALL}"));
                    closed(name)
                }
            };
            plan::ClusterNetworkPolicy {
                mode: self.metadata.annotations.mode(&mut faults),
                connections: self.metadata.annotations.connections(&mut faults),
                version: self.metadata.resource_version.as_deref().map(Arc::from),
                ..policy
            }
        });
        faults.finish(policy)
    }

    fn unread(name: NamespacedName) -> Option<(Self::Model, &'static str)> {
        Some((closed(name.name), DENIES_ALL))
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}

/// What [`closed`] does.
const DENIES_ALL: &str = "the policy denies everything to every pod";

/// A policy of which nothing can be read.
fn closed(name: Arc<str>) -> plan::ClusterNetworkPolicy {
    plan::ClusterNetworkPolicy {
        name,
        tier: Tier::Admin,
        priority: 0,
        subject: PodSelection::everywhere(),
        ingress: vec![everything()],
        egress: vec![everything()],
        mode: Mode::Enforce,
        connections: None,
        version: None,
    }
}

/// Where it is unknown whom the policy is about or when it is asked, its rules that deny count, before all others and for
/// every pod that it may be about; those that accept or pass do not.
fn policy(spec: &Spec, name: Arc<str>, faults: &mut Faults<'_>) -> plan::ClusterNetworkPolicy {
    let mut is_closed = false;
    let mut unread = |at: &'static str, why: String, faults: &mut Faults<'_>| {
        is_closed = true;
        let message = format!("{why}: of this policy only the rules that deny count");
        faults.note(At::top(at), message);
    };
    if let Err(why) = known(&spec.unknown) {
        unread("spec", why, faults);
    }
    let tier = spec.tier.read().and_then(|it| tier(it));
    let tier = tier.unwrap_or_else(|why| {
        unread("spec.tier", why, faults);
        Tier::Admin
    });
    let priority = spec.priority.read().and_then(|it| priority(*it));
    let priority = priority.unwrap_or_else(|why| {
        unread("spec.priority", why, faults);
        0
    });
    let subject = spec.subject.read().and_then(selection);
    let subject = subject.unwrap_or_else(|why| {
        unread("spec.subject", why, faults);
        spec.subject
            .read()
            .map_or_else(|_| PodSelection::everywhere(), certain)
    });
    let [mut ingress, mut egress] = Direction::ALL.map(|it| rules(spec, it, faults));
    if is_closed {
        for rule in ingress.iter_mut().chain(&mut egress) {
            if rule.action != Action::Deny {
                *rule = nothing();
            }
        }
    }
    plan::ClusterNetworkPolicy {
        name,
        tier,
        priority,
        subject,
        ingress,
        egress,
        mode: Mode::Enforce,
        connections: None,
        version: None,
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
    match (&written.namespaces, &written.pods, &written.networks) {
        (Some(namespaces), None, None) => Ok(PodSelection {
            namespaces: Namespaces::Selected(namespaces.read()?),
            pods: Selector::default(),
        }),
        (None, Some(pods), None) => {
            known(&pods.unknown)?;
            Ok(PodSelection {
                namespaces: Namespaces::Selected(pods.namespace_selector.read()?),
                pods: pods.pod_selector.read()?,
            })
        }
        _ => Err("exactly one of namespaces, pods is required".to_owned()),
    }
}

/// The pods that a subject which cannot be read may have.
fn certain(written: &WrittenPods) -> PodSelection {
    let mut all = PodSelection::everywhere();
    if let (None, Some(pods)) = (&written.namespaces, &written.pods)
        && let Ok(namespaces) = pods.namespace_selector.read()
    {
        all.namespaces = Namespaces::Selected(namespaces);
    }
    all
}

/// The rules of one direction. One that is not understood closes (the standard, "unknown or unsupported fields"): what it
/// would accept is not accepted by it, and what it would deny or pass is denied, all of it.
fn rules(spec: &Spec, direction: Direction, faults: &mut Faults<'_>) -> Vec<Rule> {
    let (written, at) = match direction {
        Direction::Ingress => (&spec.ingress, At::top("spec.ingress")),
        Direction::Egress => (&spec.egress, At::top("spec.egress")),
    };
    let written = match written.read() {
        Ok(it) => it,
        Err(why) => {
            faults.note(at, format!("{why}: the policy denies everything"));
            return vec![everything()];
        }
    };
    let mut rules = Vec::new();
    for (index, rule) in written.iter().enumerate() {
        let at = at.index(index);
        let rule = match rule.read() {
            Ok(it) => it,
            Err(why) => {
                faults.note(at, format!("{why}: this rule denies everything"));
                rules.push(everything());
                continue;
            }
        };
        let action = match &*rule.action {
            "Accept" => Action::Accept,
            "Deny" => Action::Deny,
            "Pass" => Action::Pass,
            other => {
                let why = format!("{other:?} is not one of Accept, Deny, Pass: this rule denies");
                faults.note(at.field("action"), why);
                Action::Deny
            }
        };
        rules.push(match self::rule(rule, action, direction) {
            Ok(rule) => rule,
            Err(why) if action == Action::Accept => {
                faults.note(at, format!("{why}: this rule accepts nothing"));
                nothing()
            }
            Err(why) => {
                faults.note(at, format!("{why}: this rule denies everything"));
                everything()
            }
        });
    }
    rules
}

/// A rule that denies everything.
const fn everything() -> Rule {
    Rule {
        action: Action::Deny,
        peers: None,
        ports: None,
    }
}

fn rule(written: &WrittenRule, action: Action, direction: Direction) -> Result<Rule, String> {
    known(&written.unknown)?;
    let [(field, list), (foreign, others)] = match direction {
        Direction::Ingress => [("from", &written.from), ("to", &written.to)],
        Direction::Egress => [("to", &written.to), ("from", &written.from)],
    };
    if others.is_some() {
        return Err(format!("unknown field {foreign:?}"));
    }
    let list = list.as_deref().unwrap_or_default();
    if list.is_empty() {
        return Err(format!("{field} is required"));
    }
    let mut peers = Vec::new();
    for peer in list {
        match &peer.networks {
            Some(_) if direction == Direction::Ingress => {
                return Err("unknown field \"networks\"".to_owned());
            }
            Some(networks) => peers.extend(blocks(peer, networks)?),
            None => peers.push(Peer::Pods(selection(peer)?)),
        }
    }
    let mut ports = Vec::new();
    for protocol in &written.protocols {
        ports.extend(self::ports(protocol)?);
    }
    let is_block = |it: &Peer| matches!(it, Peer::Block(_));
    let is_named = |it: &plan::Port| matches!(it.number, PortNumber::Named(_));
    if peers.iter().any(is_block) && ports.iter().any(is_named) {
        return Err("addresses of networks have no port for destinationNamedPort".to_owned());
    }
    Ok(Rule {
        action,
        peers: Some(peers),
        ports: (!written.protocols.is_empty()).then_some(ports),
    })
}

/// The peers of `networks`. Version v1beta1 wants no bits beyond the prefix.
fn blocks(peer: &WrittenPods, networks: &[String]) -> Result<Vec<Peer>, String> {
    known(&peer.unknown)?;
    if peer.namespaces.is_some() || peer.pods.is_some() || networks.is_empty() {
        return Err("exactly one of namespaces, pods, networks is required".to_owned());
    }
    let block = |text: &String| {
        let cidr = prefix(text)?;
        if text.parse() != Ok(cidr) {
            return Err(format!(
                "{text:?} has bits beyond its prefix: write {cidr}, or a longer prefix"
            ));
        }
        let except = Vec::new();
        Ok(Peer::Block(Block { cidr, except }))
    };
    networks.iter().map(block).collect()
}

fn ports(written: &WrittenProtocol) -> Result<Vec<plan::Port>, String> {
    known(&written.unknown)?;
    let of_protocol = [
        (Protocol::Tcp, &written.tcp),
        (Protocol::Udp, &written.udp),
        (Protocol::Sctp, &written.sctp),
    ];
    let mut of_protocol = of_protocol
        .into_iter()
        .filter_map(|(protocol, port)| Some((protocol, port.as_ref()?)));
    let named = written.destination_named_port.as_deref();
    match (of_protocol.next(), of_protocol.next(), named) {
        (Some((protocol, port)), None, None) => {
            let number = numbers(port)?;
            Ok(vec![plan::Port { protocol, number }])
        }
        (None, None, Some(name)) => Ok(Protocol::ALL
            .map(|protocol| plan::Port {
                protocol,
                number: PortNumber::Named(name.into()),
            })
            .into()),
        _ => Err("exactly one of tcp, udp, sctp, destinationNamedPort is required".to_owned()),
    }
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
