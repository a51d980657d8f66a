//! NetworkPolicies.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use sluice_model::{NamespacedName, Selector};
use sluice_policy_plan as plan;
use sluice_policy_plan::{Action, Block, Mode, Namespaces, Peer, PodSelection, PortNumber, Rule};
use sluice_source::kind::{
    At, Converted, Faults, Fields, Identity, Interner, Kind, ObjectMeta, namespaced, nullable,
};

use super::parts::{
    Annotations, LabelSelector, Labels, Part, Unknown, known, nothing, number, prefix, protocol,
};

/// A NetworkPolicy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NetworkPolicy {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta<Labels, Annotations>,
    spec: Part<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a mapping")]
struct Spec {
    pod_selector: Part<LabelSelector>,
    policy_types: Part<Vec<String>>,
    ingress: Part<Vec<Part<WrittenRule>>>,
    egress: Part<Vec<Part<WrittenRule>>>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// An entry of `ingress` or `egress`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "a mapping")]
struct WrittenRule {
    #[serde(deserialize_with = "nullable")]
    ports: Vec<WrittenPort>,
    #[serde(deserialize_with = "nullable")]
    from: Vec<WrittenPeer>,
    #[serde(deserialize_with = "nullable")]
    to: Vec<WrittenPeer>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenPort {
    protocol: Option<String>,
    port: Option<NumberOrName>,
    end_port: Option<i64>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum NumberOrName {
    Number(i64),
    Name(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenPeer {
    pod_selector: Option<LabelSelector>,
    namespace_selector: Option<LabelSelector>,
    ip_block: Option<WrittenBlock>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenBlock {
    #[serde(deserialize_with = "nullable")]
    cidr: String,
    #[serde(deserialize_with = "nullable")]
    except: Vec<String>,
    #[serde(flatten)]
    unknown: Unknown,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec",
    )
});

impl Kind for NetworkPolicy {
    type Model = plan::NetworkPolicy;
    const PLURAL: &'static str = "networkpolicies";
    const OBJECTS: &'static str = "NetworkPolicies";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    /// A peer or port that cannot be used is left out of its rule, which then allows less. Where it is unknown what the policy
    /// is about, it allows nothing: it is there, and pods that it may be about must not be open.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut faults = Faults::new(names);
        let name = namespaced(&self.metadata, name, &mut faults);
        let policy = name.map(|name| {
            let policy = match self.spec.read() {
                Ok(spec) => policy(spec, &name, &mut faults),
                Err(why) => Err((Selector::default(), "spec", why)),
            };
            let policy = policy.unwrap_or_else(|(pods, at, why)| {
                let policy = isolating(name, pods);
                faults.note(At::top(at), format!("{why}: {}", isolates(&policy)));
                policy
            });
            plan::NetworkPolicy {
                mode: self.metadata.annotations.mode(&mut faults),
                connections: self.metadata.annotations.connections(&mut faults),
                version: self.metadata.resource_version.as_deref().map(Arc::from),
                ..policy
            }
        });
        faults.finish(policy)
    }

    fn unread(name: NamespacedName) -> Option<(Self::Model, &'static str)> {
        let policy = isolating(name, Selector::default());
        let what = isolates(&policy);
        Some((policy, what))
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}

/// Names of NetworkPolicies are DNS subdomains.
fn name(text: &str) -> Result<&str, String> {
    let is_name = sluice_model::is_subdomain(text);
    is_name
        .then_some(text)
        .ok_or_else(|| "is not a DNS subdomain (RFC 1123)".to_owned())
}

/// The pods that a policy may be about, the field that cannot be read, and why.
type Unread = (Selector, &'static str, String);

fn policy(
    spec: &Spec,
    name: &NamespacedName,
    faults: &mut Faults<'_>,
) -> Result<plan::NetworkPolicy, Unread> {
    let pods = spec.pod_selector.read().and_then(LabelSelector::read);
    let pods = pods.map_err(|why| (Selector::default(), "spec.podSelector", why))?;
    // It may be podSelector, misspelt. An API server has removed what it does not know, and refuses it in a file.
    known(&spec.unknown).map_err(|why| (pods.clone(), "spec", why))?;
    let types = types(spec).map_err(|why| (pods.clone(), "spec.policyTypes", why))?;
    Ok(plan::NetworkPolicy {
        name: name.clone(),
        pods,
        ingress: (types.0).then(|| rules(&spec.ingress, "spec.ingress", name, faults)),
        egress: (types.1).then(|| rules(&spec.egress, "spec.egress", name, faults)),
        mode: Mode::Enforce,
        connections: None,
        version: None,
    })
}

/// A policy that isolates these pods in both directions, and allows nothing.
const fn isolating(name: NamespacedName, pods: Selector) -> plan::NetworkPolicy {
    plan::NetworkPolicy {
        name,
        pods,
        ingress: Some(Vec::new()),
        egress: Some(Vec::new()),
        mode: Mode::Enforce,
        connections: None,
        version: None,
    }
}

/// What a policy of [`isolating`] does.
fn isolates(policy: &plan::NetworkPolicy) -> &'static str {
    if policy.pods.is_empty() {
        "the policy isolates all pods of its namespace and allows nothing"
    } else {
        "the policy isolates its pods and allows nothing"
    }
}

/// Whether the policy is about ingress and about egress. Without `policyTypes` it is about ingress, and about egress if
/// it has rules for it (`SetDefaults_NetworkPolicy`).
fn types(spec: &Spec) -> Result<(bool, bool), String> {
    let types = spec.policy_types.read()?;
    if types.is_empty() {
        // Rules that cannot be read are rules.
        return Ok((true, spec.egress.read().map_or(true, |it| !it.is_empty())));
    }
    for text in types {
        if !matches!(&**text, "Ingress" | "Egress") {
            return Err(format!("{text:?} is not one of Ingress, Egress"));
        }
    }
    let has = |word: &str| types.iter().any(|it| it == word);
    Ok((has("Ingress"), has("Egress")))
}

fn rules(
    written: &Part<Vec<Part<WrittenRule>>>,
    list: &'static str,
    policy: &NamespacedName,
    faults: &mut Faults<'_>,
) -> Vec<Rule> {
    let is_ingress = list == "spec.ingress";
    let at = At::top(list);
    let written = match written.read() {
        Ok(it) => &it[..],
        Err(why) => {
            faults.note(at, format!("{why}: these rules allow nothing"));
            &[]
        }
    };
    let rules = written.iter().enumerate().map(|(index, rule)| {
        let at = at.index(index);
        let rule = match rule.read() {
            Ok(it) => it,
            Err(why) => {
                faults.note(at, format!("{why}: this rule allows nothing"));
                return nothing();
            }
        };
        let (field, peers, foreign, others) = if is_ingress {
            ("from", &rule.from, "to", &rule.to)
        } else {
            ("to", &rule.to, "from", &rule.from)
        };
        let is_known = if others.is_empty() {
            known(&rule.unknown)
        } else {
            Err(format!("unknown field {foreign:?}"))
        };
        if let Err(why) = is_known {
            faults.note(at, format!("{why}: this rule allows nothing"));
            return nothing();
        }
        Rule {
            action: Action::Accept,
            peers: list_of(peers, at.field(field), faults, |it| {
                peer(it, &policy.namespace)
            }),
            ports: list_of(&rule.ports, at.field("ports"), faults, port),
        }
    });
    rules.collect()
}

/// `None` for an empty list, which means everything; what cannot be read is left out of any other.
fn list_of<W, T>(
    written: &[W],
    at: At<'_>,
    faults: &mut Faults<'_>,
    read: impl Fn(&W) -> Result<T, String>,
) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for (index, entry) in written.iter().enumerate() {
        match read(entry) {
            Ok(it) => all.push(it),
            Err(why) => faults.note(at.index(index), format!("{why}: it allows nothing")),
        }
    }
    (!written.is_empty()).then_some(all)
}

fn peer(written: &WrittenPeer, namespace: &Arc<str>) -> Result<Peer, String> {
    known(&written.unknown)?;
    let pods = written.pod_selector.as_ref().map(LabelSelector::read);
    let namespaces = written.namespace_selector.as_ref().map(LabelSelector::read);
    let (pods, namespaces) = (pods.transpose()?, namespaces.transpose()?);
    if let Some(block) = &written.ip_block {
        return match (pods, namespaces) {
            (None, None) => self::block(block),
            _ => Err("ipBlock stands alone, without podSelector and namespaceSelector".to_owned()),
        };
    }
    if pods.is_none() && namespaces.is_none() {
        return Err("one of podSelector, namespaceSelector, ipBlock is required".to_owned());
    }
    let namespaces = match namespaces {
        Some(selector) => Namespaces::Selected(selector),
        None => Namespaces::Named(namespace.clone()),
    };
    let pods = pods.unwrap_or_default();
    Ok(Peer::Pods(PodSelection { namespaces, pods }))
}

/// One bad exception closes the whole block: without it more would be allowed.
fn block(written: &WrittenBlock) -> Result<Peer, String> {
    known(&written.unknown)?;
    let cidr = prefix(&written.cidr)?;
    let except = written.except.iter().map(|text| {
        let net = prefix(text)?;
        let is_inside = cidr.contains(&net) && cidr != net;
        is_inside
            .then_some(net)
            .ok_or_else(|| format!("except {text:?} is not a part of {cidr}"))
    });
    let except = except.collect::<Result<_, _>>()?;
    Ok(Peer::Block(Block { cidr, except }))
}

fn port(written: &WrittenPort) -> Result<plan::Port, String> {
    known(&written.unknown)?;
    let protocol = protocol(written.protocol.as_deref())?;
    let number = match (&written.port, written.end_port) {
        (None, None) => PortNumber::Any,
        (None | Some(NumberOrName::Name(_)), Some(_)) => {
            return Err("endPort needs a port that is a number".to_owned());
        }
        (Some(NumberOrName::Name(name)), None) => PortNumber::Named(name.as_str().into()),
        (Some(NumberOrName::Number(first)), last) => {
            let first = number(*first)?;
            let last = number(last.unwrap_or(first.into()))?;
            if last < first {
                return Err(format!("endPort {last} is before port {first}"));
            }
            PortNumber::Range(first, last)
        }
    };
    Ok(plan::Port { protocol, number })
}

#[cfg(test)]
mod tests;
