//! Services (`ValidateService`, `ValidateServiceUpdate` in `pkg/apis/core/validation/validation.go`).

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::allocation::{is_external, needs_health_check};
use crate::field::Problems;
use crate::{FieldError, Format};

const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];

const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

/// The errors in a Service that has its defaults, addresses and ports; `old` is the version that it replaces.
#[must_use]
pub fn validate_service(service: &Service, old: Option<&Service>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    if let Some(spec) = &service.spec {
        by_type(spec, &mut problems);
        traffic(spec, &mut problems);
        ports(spec, &mut problems);
        if let Some(old) = old.and_then(|it| it.spec.as_ref()) {
            unchanged(spec, old, &mut problems);
        }
    }
    problems.found
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
    let has_none = spec.type_.as_deref() == Some("ClusterIP");
    for (at, port) in spec.ports.iter().flatten().enumerate() {
        if has_none && port.node_port.is_some_and(|it| it != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            problems.forbidden(format!("spec.ports[{at}].nodePort"), why);
        }
        let field = format!("spec.ports[{at}].targetPort");
        match &port.target_port {
            Some(IntOrString::String(name)) => problems.format(field, name, Format::PortName),
            // Where it is the default, the port itself is refused.
            Some(IntOrString::Int(it)) if *it != port.port && !(1..=65535).contains(it) => {
                problems.invalid(field, it, "must be between 1 and 65535, inclusive");
            }
            _ => {}
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
