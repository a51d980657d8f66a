//! Services (`ValidateService`, `ValidateServiceUpdate` in `pkg/apis/core/validation/validation.go`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::allocation::{is_external, needs_health_check};
use crate::field::Problems;
use crate::{FieldError, Format};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

const AFFINITIES: [&str; 2] = ["ClientIP", "None"];

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Longest timeout of session affinity in seconds (`MaxClientIPServiceAffinitySeconds`).
const LONGEST_AFFINITY: i32 = 86_400;

const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];

const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

/// The errors in a Service that has its defaults, addresses and ports; `old` is the version that it replaces.
#[must_use]
pub fn validate_service(service: &Service, old: Option<&Service>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    if let Some(spec) = &service.spec {
        values(spec, &mut problems);
        by_type(spec, &mut problems);
        external_ips(spec, &mut problems);
        traffic(spec, &mut problems);
        ports(spec, &mut problems);
        if let Some(old) = old.and_then(|it| it.spec.as_ref()) {
            unchanged(spec, old, &mut problems);
        }
    }
    problems.found
}

/// The fields that have one of a few values, and the timeout of session affinity.
fn values(spec: &ServiceSpec, problems: &mut Problems) {
    let (policies, internal) = (&["Cluster", "Local"][..], &spec.internal_traffic_policy);
    let external = spec.external_traffic_policy.as_ref();
    let external = external.filter(|_| is_external(spec));
    for (field, value, all) in [
        ("type", spec.type_.as_ref(), &TYPES[..]),
        (
            "sessionAffinity",
            spec.session_affinity.as_ref(),
            &AFFINITIES[..],
        ),
        ("internalTrafficPolicy", internal.as_ref(), policies),
        ("externalTrafficPolicy", external, policies),
    ] {
        problems.one_of(format!("spec.{field}"), value.map(String::as_str), all);
    }
    let config = spec.session_affinity_config.as_ref();
    let timeout = config.and_then(|it| it.client_ip.as_ref()?.timeout_seconds);
    if let Some(it) = timeout.filter(|it| !(1..=LONGEST_AFFINITY).contains(it)) {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
        problems.invalid(field, it, &why);
    }
}

/// `externalIPs` (`ValidateEndpointIP`).
fn external_ips(spec: &ServiceSpec, problems: &mut Problems) {
    for (at, text) in spec.external_ips.iter().flatten().enumerate() {
        let unspecified = format!("may not be unspecified ({text})");
        let why: &str = match text.parse::<IpAddr>() {
            Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            Ok(it) if it.is_unspecified() => &unspecified,
            Ok(it) if it.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
            Ok(it) if is_link_local(it) => {
                "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
            }
            Ok(_) => continue,
        };
        problems.invalid(format!("spec.externalIPs[{at}]"), format!("{text:?}"), why);
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    }
}

/// The fields that only some types have.
fn by_type(spec: &ServiceSpec, problems: &mut Problems) {
    let kind = spec.type_.as_deref().unwrap_or_default();
    if matches!(kind, "NodePort" | "LoadBalancer") && spec.cluster_ip.as_deref() == Some("None") {
        let why = format!("may not be set to 'None' for {kind} services");
        problems.invalid("spec.clusterIPs[0]", "\"None\"", &why);
    }
    let is_set = |it: &Option<Vec<String>>| it.as_ref().is_some_and(|it| !it.is_empty());
    let (external, balanced) = (kind == "ExternalName", kind == "LoadBalancer");
    let no_external = "may not be set for ExternalName services";
    for (field, is_wrong, why) in [
        (
            "clusterIPs",
            external && is_set(&spec.cluster_ips),
            no_external,
        ),
        (
            "ipFamilies",
            external && is_set(&spec.ip_families),
            no_external,
        ),
        (
            "ipFamilyPolicy",
            external && spec.ip_family_policy.is_some(),
            no_external,
        ),
        (
            "loadBalancerSourceRanges",
            !balanced && is_set(&spec.load_balancer_source_ranges),
            ONLY_BALANCED,
        ),
        (
            "allocateLoadBalancerNodePorts",
            !balanced && spec.allocate_load_balancer_node_ports.is_some(),
            ONLY_BALANCED,
        ),
        (
            "loadBalancerClass",
            !balanced && spec.load_balancer_class.is_some(),
            ONLY_BALANCED,
        ),
    ] {
        if is_wrong {
            problems.forbidden(format!("spec.{field}"), why);
        }
    }
}

/// `externalTrafficPolicy`, `healthCheckNodePort` and `trafficDistribution`.
fn traffic(spec: &ServiceSpec, problems: &mut Problems) {
    if let Some(it) = spec
        .external_traffic_policy
        .as_ref()
        .filter(|_| !is_external(spec))
    {
        let why = "may only be set for externally-accessible services";
        problems.invalid("spec.externalTrafficPolicy", format!("\"{it}\""), why);
    }
    let health = spec.health_check_node_port.filter(|it| *it != 0);
    if let Some(it) = health.filter(|_| !needs_health_check(spec)) {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        problems.invalid("spec.healthCheckNodePort", it, why);
    }
    let distribution = spec.traffic_distribution.as_deref();
    problems.one_of("spec.trafficDistribution", distribution, &DISTRIBUTIONS);
}

fn ports(spec: &ServiceSpec, problems: &mut Problems) {
    let kind = spec.type_.as_deref().unwrap_or_default();
    let ports = spec.ports.as_deref().unwrap_or_default();
    let is_headless = spec.cluster_ip.as_deref() == Some("None");
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        problems.required("spec.ports", "");
    }
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        match port.name.as_deref().unwrap_or_default() {
            "" if ports.len() > 1 => problems.required(format!("{path}.name"), ""),
            "" => {}
            name => {
                problems.format(format!("{path}.name"), name, Format::Label);
                if !names.insert(name) {
                    problems.duplicate(format!("{path}.name"), name);
                }
            }
        }
        problems.port(format!("{path}.port"), port.port);
        let protocol = port.protocol.as_deref();
        problems.one_of(format!("{path}.protocol"), protocol, &PROTOCOLS);
        let target = format!("{path}.targetPort");
        match &port.target_port {
            Some(IntOrString::String(name)) => problems.format(target, name, Format::PortName),
            Some(IntOrString::Int(it)) => problems.port(target, *it),
            None => {}
        }
        if kind == "ClusterIP" && port.node_port.is_some_and(|it| it != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            problems.forbidden(format!("{path}.nodePort"), why);
        }
    }
}

/// The fields of a load balancer that never change.
fn unchanged(new: &ServiceSpec, old: &ServiceSpec, problems: &mut Problems) {
    let is_balanced = |it: &ServiceSpec| it.type_.as_deref() == Some("LoadBalancer");
    if is_balanced(new) && is_balanced(old) && new.load_balancer_class != old.load_balancer_class {
        let class = new.load_balancer_class.as_ref();
        let class = class.map_or("null".to_owned(), |it| format!("\"{it}\""));
        problems.invalid("spec.loadBalancerClass", class, "may not change once set");
    }
    let both_need = needs_health_check(new) && needs_health_check(old);
    if both_need && new.health_check_node_port != old.health_check_node_port {
        problems.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
}
