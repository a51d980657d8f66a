//! Services (`ValidateService`, `ValidateServiceUpdate` in `pkg/apis/core/validation/validation.go`). Their addresses and
//! families are checked where they are allocated.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use crate::allocation::{is_external, needs_health_check};
use crate::field::Problems;
use crate::{FieldError, Format};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

const AFFINITIES: [&str; 2] = ["ClientIP", "None"];

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

const POLICIES: [&str; 2] = ["Cluster", "Local"];

/// Longest timeout of session affinity in seconds (`MaxClientIPServiceAffinitySeconds`).
const LONGEST_AFFINITY: i32 = 86_400;

/// In the order of Kubernetes' words.
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

/// The annotations that older versions had for fields: source ranges, and the two names of topology hints.
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

/// The errors in a Service that has its defaults, addresses and ports; `old` is the version that it replaces.
#[must_use]
pub fn validate_service(service: &Service, old: Option<&Service>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let Some(spec) = &service.spec else {
        return problems.found;
    };
    let before = old.and_then(|it| it.spec.as_ref());
    if let Some(before) = before {
        unchanged(spec, before, &mut problems);
    }
    if let (Some(mode), Some(hints)) = (annotation(service, MODE), annotation(service, HINTS))
        && mode != hints
    {
        let why = format!("must match annotations[{HINTS}] when both are specified");
        let field = format!("metadata.annotations[{MODE}]");
        problems.invalid(field, format!("{mode:?}"), &why);
    }
    by_type(spec, &mut problems);
    ports(spec, &mut problems);
    affinity(spec, &mut problems);
    external_ips(spec, before, &mut problems);
    problems.one_of("spec.type", spec.type_.as_deref(), &TYPES);
    node_ports(spec, &mut problems);
    source_ranges(service, old, &mut problems);
    balanced(spec, &mut problems);
    traffic(spec, &mut problems);
    problems.found
}

fn annotation<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    let all = service.metadata.annotations.as_ref()?;
    all.get(name).map(String::as_str)
}

fn is_balanced(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("LoadBalancer")
}

fn given<T>(list: &Option<Vec<T>>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

/// What a type demands, and what it cannot have.
fn by_type(spec: &ServiceSpec, problems: &mut Problems) {
    let kind = spec.type_.as_deref().unwrap_or_default();
    let is_headless = *given(&spec.cluster_ips) == ["None"];
    if given(&spec.ports).is_empty() && !is_headless && kind != "ExternalName" {
        problems.required("spec.ports", "");
    }
    if matches!(kind, "NodePort" | "LoadBalancer") && is_headless {
        let why = format!("may not be set to 'None' for {kind} services");
        problems.invalid("spec.clusterIPs[0]", "\"None\"", &why);
    }
    if kind != "ExternalName" {
        return;
    }
    for (field, is_given) in [
        ("clusterIPs", !given(&spec.cluster_ips).is_empty()),
        ("ipFamilies", !given(&spec.ip_families).is_empty()),
        ("ipFamilyPolicy", spec.ip_family_policy.is_some()),
    ] {
        if is_given {
            let why = "may not be set for ExternalName services";
            problems.forbidden(format!("spec.{field}"), why);
        }
    }
    let name = spec.external_name.as_deref().unwrap_or_default();
    // A dot at the end says that the name is complete.
    match name.strip_suffix('.').unwrap_or(name) {
        "" => problems.required("spec.externalName", ""),
        name => problems.format("spec.externalName", name, Format::Subdomain),
    }
}

fn ports(spec: &ServiceSpec, problems: &mut Problems) {
    let ports = given(&spec.ports);
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
        if let Some(name) = &port.app_protocol {
            problems.format(format!("{path}.appProtocol"), name, Format::Qualified);
        }
    }
}

fn affinity(spec: &ServiceSpec, problems: &mut Problems) {
    let kind = spec.session_affinity.as_deref();
    problems.one_of("spec.sessionAffinity", kind, &AFFINITIES);
    let config = spec.session_affinity_config.as_ref();
    let timeout = config.and_then(|it| it.client_ip.as_ref()?.timeout_seconds);
    if let Some(it) = timeout.filter(|it| !(1..=LONGEST_AFFINITY).contains(it)) {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
        problems.invalid(field, it, &why);
    }
}

/// `externalIPs`. Those that the Service had may stay.
fn external_ips(spec: &ServiceSpec, old: Option<&ServiceSpec>, problems: &mut Problems) {
    let before = old.map(|it| given(&it.external_ips)).unwrap_or_default();
    for (at, text) in given(&spec.external_ips).iter().enumerate() {
        let field = format!("spec.externalIPs[{at}]");
        let is_address = Format::Ip.problems(text).is_empty();
        if is_address {
            problems.format(field, text, Format::EndpointIp);
        } else if !before.contains(text) {
            problems.format(field, text, Format::Ip);
        }
    }
}

/// What is wrong with NodePorts, and with ports that are there twice.
fn node_ports(spec: &ServiceSpec, problems: &mut Problems) {
    let ports = given(&spec.ports);
    let each = || ports.iter().enumerate();
    let number = |it: &ServicePort| it.node_port.unwrap_or_default();
    for (at, _) in each().filter(|(_, it)| number(it) != 0) {
        if spec.type_.as_deref() == Some("ClusterIP") {
            let why = "may not be used when `type` is 'ClusterIP'";
            problems.forbidden(format!("spec.ports[{at}].nodePort"), why);
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in each().filter(|(_, it)| number(it) != 0) {
        if !seen.insert((&port.protocol, number(port))) {
            problems.duplicate_of(format!("spec.ports[{at}].nodePort"), number(port));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in each() {
        if !seen.insert((&port.protocol, port.port)) {
            // The key of the comparison, as Go writes it.
            let key = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                json!(port.protocol),
                port.port
            );
            problems.duplicate_of(format!("spec.ports[{at}]"), key);
        }
    }
}

/// `loadBalancerSourceRanges`, or else the annotation. Spaces around a range do not count.
fn source_ranges(service: &Service, old: Option<&Service>, problems: &mut Problems) {
    let spec = |it: &Service| it.spec.clone().unwrap_or_default();
    let ranges = spec(service).load_balancer_source_ranges;
    let ranges = given(&ranges);
    let is_balanced = is_balanced(&spec(service));
    if !ranges.is_empty() {
        // Kubernetes writes this path with a capital letter.
        let field = "spec.LoadBalancerSourceRanges";
        if !is_balanced {
            problems.forbidden(field, ONLY_BALANCED);
        }
        let before = old.and_then(|it| spec(it).load_balancer_source_ranges);
        for (at, range) in ranges.iter().enumerate() {
            let known = |it: &String| it.trim() == range.trim();
            if !given(&before).iter().any(known) {
                problems.format(format!("{field}[{at}]"), range.trim(), Format::Cidr);
            }
        }
    } else if let Some(ranges) = annotation(service, RANGES) {
        let field = format!("metadata.annotations[{RANGES}]");
        if !is_balanced {
            problems.forbidden(&*field, ONLY_BALANCED);
        }
        let is_new = old.and_then(|it| annotation(it, RANGES)) != Some(ranges);
        if is_new && !ranges.trim().is_empty() {
            for range in ranges.split(',') {
                problems.format(&*field, range.trim(), Format::Cidr);
            }
        }
    }
}

/// The fields of load balancers.
fn balanced(spec: &ServiceSpec, problems: &mut Problems) {
    let class = spec.load_balancer_class.as_deref();
    if is_balanced(spec) {
        for class in class.iter().copied() {
            problems.format("spec.loadBalancerClass", class, Format::Qualified);
        }
        return;
    }
    if spec.allocate_load_balancer_node_ports.is_some() {
        problems.forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED);
    }
    if class.is_some() {
        problems.forbidden("spec.loadBalancerClass", ONLY_BALANCED);
    }
}

/// The policies of traffic, `healthCheckNodePort` and `trafficDistribution`.
fn traffic(spec: &ServiceSpec, problems: &mut Problems) {
    let external = spec.external_traffic_policy.as_deref();
    if is_external(spec) {
        problems.one_of("spec.externalTrafficPolicy", external, &POLICIES);
    } else if let Some(it) = external {
        let why = "may only be set for externally-accessible services";
        problems.invalid("spec.externalTrafficPolicy", format!("\"{it}\""), why);
    }
    let health = spec.health_check_node_port.filter(|it| *it != 0);
    if let Some(it) = health.filter(|_| !needs_health_check(spec)) {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        problems.invalid("spec.healthCheckNodePort", it, why);
    }
    let internal = spec.internal_traffic_policy.as_deref();
    problems.one_of("spec.internalTrafficPolicy", internal, &POLICIES);
    let distribution = spec.traffic_distribution.as_deref();
    problems.one_of("spec.trafficDistribution", distribution, &DISTRIBUTIONS);
}

/// The fields of a load balancer that never change.
fn unchanged(new: &ServiceSpec, old: &ServiceSpec, problems: &mut Problems) {
    if is_balanced(new) && is_balanced(old) && new.load_balancer_class != old.load_balancer_class {
        let class = json!(new.load_balancer_class);
        problems.invalid("spec.loadBalancerClass", class, "may not change once set");
    }
    let both_need = needs_health_check(new) && needs_health_check(old);
    if both_need && new.health_check_node_port != old.health_check_node_port {
        problems.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
}
