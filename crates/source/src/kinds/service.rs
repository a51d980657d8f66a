//! Services: the wire type, its conversion, and what the API server would refuse.

mod addresses;
mod ports;

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use sluice_model as model;
use sluice_model::{Algorithm, Forwarding, ServiceKind, SessionAffinity, TrafficPolicy};
use sluice_yaml::quoted;

use crate::api::{Identity, ObjectMeta, nullable};
use crate::convert::Step::{Field, Index};
use crate::convert::address::{one_of, port};
use crate::convert::{At, Converted, Fault, Faults, Interner, name};
use crate::kind::Kind;
use crate::manifest::Fields;

/// A Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: ServiceSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: ServiceStatus,
}

/// `spec` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    /// `type`, default ClusterIP.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// `clusterIP`: an address, `None` (headless) or empty.
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    pub(crate) cluster_ips: Vec<String>,
    pub(crate) external_name: Option<String>,
    /// `ipFamilies`, in the order of `clusterIPs`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) ip_families: Vec<String>,
    /// `loadBalancerIP`: the address that a load balancer is asked for.
    #[serde(rename = "loadBalancerIP")]
    pub(crate) load_balancer_ip: Option<String>,
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    pub(crate) external_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) load_balancer_source_ranges: Vec<String>,
    pub(crate) internal_traffic_policy: Option<String>,
    pub(crate) external_traffic_policy: Option<String>,
    pub(crate) session_affinity: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) session_affinity_config: AffinityConfig,
    /// `healthCheckNodePort`; 0 is none.
    pub(crate) health_check_node_port: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<ServicePort>,
}

/// `sessionAffinityConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AffinityConfig {
    #[serde(rename = "clientIP", deserialize_with = "nullable")]
    pub(crate) client_ip: ClientIpConfig,
}

/// `sessionAffinityConfig.clientIP`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClientIpConfig {
    pub(crate) timeout_seconds: Option<i64>,
}

/// One of `spec.ports`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServicePort {
    pub(crate) name: Option<String>,
    /// `protocol`, default TCP.
    pub(crate) protocol: Option<String>,
    pub(crate) port: Option<i64>,
    /// `nodePort`; 0 is none.
    pub(crate) node_port: Option<i64>,
}

/// `status` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) load_balancer: LoadBalancerStatus,
}

/// `status.loadBalancer`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadBalancerStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) ingress: Vec<Ingress>,
}

/// One of `status.loadBalancer.ingress`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ingress {
    /// `ip`; `None` where the load balancer has only a host name.
    pub(crate) ip: Option<String>,
    /// `ipMode`, default VIP.
    pub(crate) ip_mode: Option<String>,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: allocateLoadBalancerNodePorts clusterIP clusterIPs externalIPs externalName externalTrafficPolicy healthCheckNodePort internalTrafficPolicy ipFamilies ipFamilyPolicy loadBalancerClass loadBalancerIP loadBalancerSourceRanges ports publishNotReadyAddresses selector sessionAffinity sessionAffinityConfig trafficDistribution type
spec.ports[]: appProtocol name nodePort port protocol targetPort
spec.sessionAffinityConfig: clientIP
spec.sessionAffinityConfig.clientIP: timeoutSeconds
status: conditions loadBalancer
status.conditions[]: lastTransitionTime message observedGeneration reason status type
status.loadBalancer: ingress
status.loadBalancer.ingress[]: hostname ip ipMode ports
status.loadBalancer.ingress[].ports[]: error port protocol",
    )
});

impl Kind for Service {
    type Model = sluice_model::Service;
    const PLURAL: &'static str = "services";
    const OBJECTS: &'static str = "Services";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    /// A bad external IP or load balancer address is left out and reported, and so is an unknown value of an enum.
    /// Anything else that is wrong refuses the Service: above all a bad source range, which must not open access.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let (mut collected, spec) = (Faults::new(names), &self.spec);
        let faults = &mut collected;
        let name = name::namespaced(&self.metadata, name::label, faults);
        let created = created(&self.metadata, faults);
        let proxy_name = self.metadata.labels.proxy_name.as_deref().and_then(|text| {
            let at = At::top("metadata.labels");
            let label = "service.kubernetes.io/service-proxy-name";
            faults.text(at.field(label), name::label_value(text))
        });
        let kind = value(&spec.kind, At::top("spec.type"), TYPES, faults);
        let cluster_ips = addresses::cluster_ips(spec, kind, faults);
        let ports = ports::ports(spec, kind, &cluster_ips, faults);
        let external_name = external_name(spec, kind, faults);
        let external_ips = addresses::external_ips(&spec.external_ips, faults);
        let load_balancer = addresses::load_balancer(&self.status.load_balancer.ingress, faults);
        let source_ranges = addresses::source_ranges(&spec.load_balancer_source_ranges, faults);
        let at = At::top("spec.internalTrafficPolicy");
        let internal_policy = value(&spec.internal_traffic_policy, at, POLICIES, faults);
        let at = At::top("spec.externalTrafficPolicy");
        let external_policy = value(&spec.external_traffic_policy, at, POLICIES, faults);
        let affinity = affinity(spec, faults);
        let ipvs_scheduler = ipvs_scheduler(&self.metadata, faults);
        let annotations = &self.metadata.annotations;
        let algorithm = word(
            annotations.lb_algorithm.as_deref(),
            "sluice.dev/lb-algorithm",
            Algorithm::ALL.map(|it| (it.name(), it)),
            faults,
        );
        let forwarding = word(
            annotations.forwarding.as_deref(),
            "sluice.dev/forwarding",
            Forwarding::ALL.map(|it| (it.name(), it)),
            faults,
        );
        let health_check_node_port = match spec.health_check_node_port {
            None | Some(0) => None,
            Some(number) => faults.take(At::top("spec.healthCheckNodePort"), port(number)),
        };
        let object = name.map(|name| model::Service {
            name,
            created,
            kind,
            cluster_ips,
            external_name,
            external_ips,
            load_balancer,
            source_ranges,
            internal_policy,
            external_policy,
            affinity,
            ipvs_scheduler,
            algorithm,
            forwarding,
            health_check_node_port,
            proxy_name,
            ports,
        });
        collected.finish(object)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }

    fn advice(&self) -> Vec<Fault> {
        let spec = &self.spec;
        let kind = spec.kind.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        if self.metadata.labels.proxy_name.is_some() || kind == "ExternalName" {
            return found;
        }
        let is_empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        if spec.cluster_ips.is_empty() && is_empty(&spec.cluster_ip) {
            let why = "is not set and nothing here allocates one, so the Service is not served: \
                       write an address, or None for a headless Service";
            found.push(Fault::at([Field("spec"), Field("clusterIP")], why));
        } else if let Some(family) = spec.ip_families.get(spec.cluster_ips.len().max(1))
            && !is_headless(spec)
        {
            let why = format!(
                "{} has no address and nothing here allocates one: write it in clusterIPs",
                quoted(family)
            );
            found.push(Fault::at([Field("spec"), Field("ipFamilies")], why));
        }
        for (i, port) in spec.ports.iter().enumerate() {
            if kind == "NodePort" && matches!(port.node_port, None | Some(0)) {
                let why = "is not set and nothing here allocates one: write a port that is free on \
                           every node, such as one of 30000-32767";
                let path = [Field("spec"), Field("ports"), Index(i), Field("nodePort")];
                found.push(Fault::at(path, why));
            }
        }
        let has_address = !self.status.load_balancer.ingress.is_empty();
        if !is_empty(&spec.load_balancer_ip) && !has_address {
            let why = "asks a load balancer for an address, and there is none here: write the \
                       address as ip in status.loadBalancer.ingress";
            found.push(Fault::at([Field("spec"), Field("loadBalancerIP")], why));
        }
        found
    }
}

fn is_headless(spec: &ServiceSpec) -> bool {
    let first = spec.cluster_ips.first().or(spec.cluster_ip.as_ref());
    first.is_some_and(|it| it == "None")
}

fn created(meta: &ObjectMeta, faults: &mut Faults<'_>) -> Option<i64> {
    let text = meta.creation_timestamp.as_deref()?;
    let parsed = text.parse::<jiff::Timestamp>();
    let seconds = parsed.map(jiff::Timestamp::as_second);
    let checked = seconds.map_err(|_| format!("{} is not an RFC 3339 time", quoted(text)));
    faults.take(At::top("metadata.creationTimestamp"), checked)
}

/// The name that an ExternalName Service stands for. The API server allows a final dot
/// (`ValidateExternalName`).
fn external_name(
    spec: &ServiceSpec,
    kind: ServiceKind,
    faults: &mut Faults<'_>,
) -> Option<Arc<str>> {
    if kind != ServiceKind::ExternalName {
        return None;
    }
    let text = spec.external_name.as_deref().unwrap_or_default();
    let checked = match text.strip_suffix('.').unwrap_or(text) {
        "" => Err("is required".to_owned()),
        text => name::subdomain(text),
    };
    faults.text(At::top("spec.externalName"), checked)
}

/// A name of a scheduler, which the kernel may not have. A bad name is left out, since the Service
/// works without it.
fn ipvs_scheduler(meta: &ObjectMeta, faults: &mut Faults<'_>) -> Option<Arc<str>> {
    /// `IP_VS_SCHEDNAME_MAXLEN` without the final zero byte (`linux/ip_vs.h`).
    const LONGEST: usize = 15;
    let text = meta.annotations.ipvs_scheduler.as_deref()?;
    let is_name = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    if (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_name) {
        return Some(faults.share(text));
    }
    let at = At::top("metadata.annotations");
    let why = format!("{} is no name of a scheduler: ignored", quoted(text));
    faults.note(at.field("sluice.dev/ipvs-scheduler"), why);
    None
}

/// The meaning of an annotation that is one of a few words. Another word is left out, since the
/// Service works without it.
fn word<T: Copy, const N: usize>(
    text: Option<&str>,
    annotation: &'static str,
    known: [(&'static str, T); N],
    faults: &mut Faults<'_>,
) -> Option<T> {
    let text = text?;
    let found = known.iter().find(|(name, _)| *name == text);
    if found.is_none() {
        let names = known.map(|(name, _)| name).join(", ");
        let why = format!("{}: ignored", one_of(text, &names));
        faults.note(At::top("metadata.annotations").field(annotation), why);
    }
    found.map(|(_, meaning)| *meaning)
}

const TYPES: [(&str, ServiceKind); 4] = [
    ("ClusterIP", ServiceKind::ClusterIp),
    ("NodePort", ServiceKind::NodePort),
    ("LoadBalancer", ServiceKind::LoadBalancer),
    ("ExternalName", ServiceKind::ExternalName),
];

const POLICIES: [(&str, TrafficPolicy); 2] = [
    ("Cluster", TrafficPolicy::Cluster),
    ("Local", TrafficPolicy::Local),
];

/// The meaning of an enum's value; the first of `known` is the default. A value that is not known counts as the
/// default, as in kube-proxy, which compares with the values that it knows: it may be one of a later Kubernetes.
fn value<T: Copy, const N: usize>(
    text: &Option<String>,
    at: At<'_>,
    known: [(&'static str, T); N],
    faults: &mut Faults<'_>,
) -> T {
    let (default, meaning) = known[0];
    let text = match text.as_deref() {
        None | Some("") => default,
        Some(text) => text,
    };
    let found = known.iter().find(|(name, _)| *name == text);
    found.map_or_else(
        || {
            let names = known.map(|(name, _)| name).join(", ");
            let why = one_of(text, &names);
            faults.note(at, format!("{why}: served as {default}"));
            meaning
        },
        |(_, meaning)| *meaning,
    )
}

fn affinity(spec: &ServiceSpec, faults: &mut Faults<'_>) -> SessionAffinity {
    let at = At::top("spec.sessionAffinity");
    let known = [("None", false), ("ClientIP", true)];
    if !value(&spec.session_affinity, at, known, faults) {
        return SessionAffinity::None;
    }
    let seconds = spec.session_affinity_config.client_ip.timeout_seconds;
    let seconds = seconds.unwrap_or(10_800);
    let in_range = u32::try_from(seconds)
        .ok()
        .filter(|it| (1..=86_400).contains(it));
    let at = At::top("spec.sessionAffinityConfig.clientIP.timeoutSeconds");
    let checked = in_range.ok_or_else(|| format!("{seconds} is not in 1..=86400"));
    match faults.take(at, checked) {
        Some(timeout_seconds) => SessionAffinity::ClientIp { timeout_seconds },
        None => SessionAffinity::None,
    }
}
