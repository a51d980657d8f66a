//! Services.

mod addresses;
mod ports;

use std::sync::Arc;

use sluice_model::{Algorithm, Forwarding, Service, ServiceKind, SessionAffinity, TrafficPolicy};

use super::address::{one_of, port};
use super::fault::{At, Converted, Faults};
use super::{Interner, name};
use crate::api;
use sluice_yaml::quoted;

/// Converts a Service.
///
/// A bad external IP or load balancer address is left out and reported. Anything else that is
/// wrong refuses the Service: above all a bad source range, which must not open access.
pub(crate) fn service(api: &api::Service, names: &mut Interner) -> Converted<Service> {
    let (mut collected, spec) = (Faults::new(names), &api.spec);
    let faults = &mut collected;
    let name = name::namespaced(&api.metadata, name::label, faults);
    let created = created(&api.metadata, faults);
    let proxy_name = api.metadata.labels.proxy_name.as_deref().and_then(|text| {
        let at = At::top("metadata.labels");
        let label = "service.kubernetes.io/service-proxy-name";
        faults.text(at.field(label), name::label_value(text))
    });
    let kind = kind(spec.kind.as_deref(), faults);
    let cluster_ips = addresses::cluster_ips(spec, kind, faults);
    let ports = ports::ports(spec, kind, &cluster_ips, faults);
    let external_name = external_name(spec, kind, faults);
    let external_ips = addresses::external_ips(&spec.external_ips, faults);
    let load_balancer = addresses::load_balancer(&api.status.load_balancer.ingress, faults);
    let source_ranges = addresses::source_ranges(&spec.load_balancer_source_ranges, faults);
    let at = At::top("spec.internalTrafficPolicy");
    let internal_policy = policy(spec.internal_traffic_policy.as_deref(), at, faults);
    let at = At::top("spec.externalTrafficPolicy");
    let external_policy = policy(spec.external_traffic_policy.as_deref(), at, faults);
    let affinity = affinity(spec, faults);
    let ipvs_scheduler = ipvs_scheduler(&api.metadata, faults);
    let annotations = &api.metadata.annotations;
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
    let object = name.zip(kind).map(|(name, kind)| Service {
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

fn created(meta: &api::ObjectMeta, faults: &mut Faults<'_>) -> Option<i64> {
    let text = meta.creation_timestamp.as_deref()?;
    let parsed = text.parse::<jiff::Timestamp>();
    let seconds = parsed.map(jiff::Timestamp::as_second);
    let checked = seconds.map_err(|_| format!("{} is not an RFC 3339 time", quoted(text)));
    faults.take(At::top("metadata.creationTimestamp"), checked)
}

/// The name that an ExternalName Service stands for. The API server allows a final dot
/// (`ValidateExternalName`).
fn external_name(
    spec: &api::ServiceSpec,
    kind: Option<ServiceKind>,
    faults: &mut Faults<'_>,
) -> Option<Arc<str>> {
    if kind != Some(ServiceKind::ExternalName) {
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
fn ipvs_scheduler(meta: &api::ObjectMeta, faults: &mut Faults<'_>) -> Option<Arc<str>> {
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

fn kind(text: Option<&str>, faults: &mut Faults<'_>) -> Option<ServiceKind> {
    let known = match text.unwrap_or_default() {
        "" | "ClusterIP" => Ok(ServiceKind::ClusterIp),
        "NodePort" => Ok(ServiceKind::NodePort),
        "LoadBalancer" => Ok(ServiceKind::LoadBalancer),
        "ExternalName" => Ok(ServiceKind::ExternalName),
        other => Err(one_of(
            other,
            "ClusterIP, NodePort, LoadBalancer, ExternalName",
        )),
    };
    faults.take(At::top("spec.type"), known)
}

fn policy(text: Option<&str>, at: At<'_>, faults: &mut Faults<'_>) -> TrafficPolicy {
    let known = match text.unwrap_or_default() {
        "" | "Cluster" => Ok(TrafficPolicy::Cluster),
        "Local" => Ok(TrafficPolicy::Local),
        other => Err(one_of(other, "Cluster, Local")),
    };
    faults.take(at, known).unwrap_or(TrafficPolicy::Cluster)
}

fn affinity(spec: &api::ServiceSpec, faults: &mut Faults<'_>) -> SessionAffinity {
    match spec.session_affinity.as_deref().unwrap_or_default() {
        "" | "None" => return SessionAffinity::None,
        "ClientIP" => {}
        other => {
            let why = one_of(other, "None, ClientIP");
            faults.refuse(At::top("spec.sessionAffinity"), why);
            return SessionAffinity::None;
        }
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
