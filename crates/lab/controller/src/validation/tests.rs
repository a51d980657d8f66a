use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::{validate_service, validate_slice};
use crate::{FieldError, set_defaults};

fn text(errors: &[FieldError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// A Service with its defaults and a port, but without addresses.
fn service(spec: &Value) -> Service {
    let mut spec = spec.clone();
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    let mut service = serde_json::from_value(json!({"spec": spec})).unwrap();
    set_defaults(&mut service);
    service
}

#[test]
fn services_are_refused_in_the_words_of_the_api() {
    let port = |it: Value| json!({"ports": [it]});
    let local = |kind: &str, more: Value| {
        let mut spec = json!({"type": kind, "externalTrafficPolicy": "Local"});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec
    };
    for (spec, expected) in [
        (
            local("ClusterIP", json!({"externalIPs": ["203.0.113.9"]})),
            "",
        ),
        (
            local("ClusterIP", json!({})),
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ),
        (
            local("LoadBalancer", json!({"healthCheckNodePort": 31000})),
            "",
        ),
        (
            local("NodePort", json!({"healthCheckNodePort": 31000})),
            "spec.healthCheckNodePort: Invalid value: 31000: may only be set when `type` is 'LoadBalancer' and \
             `externalTrafficPolicy` is 'Local'",
        ),
        (json!({"trafficDistribution": "PreferSameNode"}), ""),
        (
            json!({"trafficDistribution": "Nearest"}),
            "spec.trafficDistribution: Unsupported value: \"Nearest\": supported values: \"PreferClose\", \
             \"PreferSameZone\", \"PreferSameNode\"",
        ),
        (
            json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]}),
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"type": "NodePort", "loadBalancerClass": "example.com/a"}),
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"allocateLoadBalancerNodePorts": true}),
            "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"type": "NodePort", "clusterIPs": ["None"]}),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
        (
            json!({"type": "ExternalName", "externalName": "a.example", "ipFamilies": ["IPv4"]}),
            "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
        ),
        (
            port(json!({"port": 80, "nodePort": 31000})),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (port(json!({"port": 80, "targetPort": 65535})), ""),
        (
            port(json!({"port": 80, "targetPort": 70000})),
            "spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            port(json!({"port": 80, "targetPort": -1})),
            "spec.ports[0].targetPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"sessionAffinity": "Clientip"}),
            "spec.sessionAffinity: Unsupported value: \"Clientip\": supported values: \"ClientIP\", \"None\"",
        ),
        (
            json!({"type": "Nodeport"}),
            "spec.type: Unsupported value: \"Nodeport\": supported values: \"ClusterIP\", \"ExternalName\", \
             \"LoadBalancer\", \"NodePort\"",
        ),
        (
            json!({"internalTrafficPolicy": "local"}),
            "spec.internalTrafficPolicy: Unsupported value: \"local\": supported values: \"Cluster\", \"Local\"",
        ),
        (
            json!({"type": "NodePort", "externalTrafficPolicy": "local"}),
            "spec.externalTrafficPolicy: Unsupported value: \"local\": supported values: \"Cluster\", \"Local\"",
        ),
        (
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than \
             86400",
        ),
        (
            json!({"externalIPs": ["192.0.2.1", "1.2.3", "127.0.0.1", "fe80::1", "::"]}),
            "spec.externalIPs[1]: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or \
             2001:db8::ffff); spec.externalIPs[2]: Invalid value: \"127.0.0.1\": may not be in the loopback range \
             (127.0.0.0/8, ::1/128); spec.externalIPs[3]: Invalid value: \"fe80::1\": may not be in the link-local range \
             (169.254.0.0/16, fe80::/10); spec.externalIPs[4]: Invalid value: \"::\": may not be unspecified (::)",
        ),
        (json!({"ports": []}), "spec.ports: Required value"),
        (json!({"ports": [], "clusterIPs": ["None"]}), ""),
        (
            json!({"ports": [], "type": "ExternalName", "externalName": "a.example"}),
            "",
        ),
        (
            json!({"ports": [{"port": 80}, {"port": 81, "name": "a"}, {"port": 82, "name": "a"}]}),
            "spec.ports[0].name: Required value; spec.ports[2].name: Duplicate value: \"a\"",
        ),
        (
            port(json!({"port": 0, "targetPort": 8080})),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            port(json!({"port": 80, "targetPort": 70_000, "protocol": "tcp"})),
            "spec.ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"; \
             spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            port(json!({"port": 80, "targetPort": "abcdefghijklmno"})),
            "",
        ),
        (
            port(json!({"port": 80, "targetPort": "abcdefghijklmnop"})),
            "spec.ports[0].targetPort: Invalid value: \"abcdefghijklmnop\": must be no more than 15 \
             characters",
        ),
    ] {
        assert_eq!(
            text(&validate_service(&service(&spec), None)),
            expected,
            "{spec}"
        );
    }
}

#[test]
fn what_a_load_balancer_was_given_never_changes() {
    let balanced = |class: Value, port: u16| {
        service(&json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": class,
            "healthCheckNodePort": port,
        }))
    };
    let class = "may not change once set";
    for (old, new, expected) in [
        (json!("a/b"), json!("a/b"), String::new()),
        (
            json!("a/b"),
            json!("a/c"),
            format!("spec.loadBalancerClass: Invalid value: \"a/c\": {class}"),
        ),
        (
            json!(null),
            json!("a/c"),
            format!("spec.loadBalancerClass: Invalid value: \"a/c\": {class}"),
        ),
        (
            json!("a/b"),
            json!(null),
            format!("spec.loadBalancerClass: Invalid value: null: {class}"),
        ),
    ] {
        let errors = validate_service(&balanced(new, 31000), Some(&balanced(old, 31000)));
        assert_eq!(text(&errors), expected);
    }
    let errors = validate_service(
        &balanced(json!(null), 31001),
        Some(&balanced(json!(null), 31000)),
    );
    assert_eq!(
        text(&errors),
        "spec.healthCheckNodePort: Forbidden: field is immutable"
    );
}

fn slice(kind: &str, endpoint: &Value) -> EndpointSlice {
    let slice = json!({"addressType": kind, "endpoints": [endpoint]});
    serde_json::from_value(slice).unwrap()
}

#[test]
fn slices_are_refused_in_the_words_of_the_api() {
    let zones = |names: &[&str]| {
        let zones: Vec<Value> = names.iter().map(|it| json!({"name": it})).collect();
        json!({"addresses": ["10.244.0.9"], "hints": {"forZones": zones}})
    };
    let name = |it: &str| json!({"addresses": [it]});
    for (kind, endpoint, expected) in [
        ("IPv4", name("10.244.0.9"), ""),
        (
            "IPv4",
            json!({"addresses": []}),
            "endpoints[0].addresses: Required value: must contain at least 1 address",
        ),
        ("IPv4", zones(&["a", "b", "c", "d", "e", "f", "g", "h"]), ""),
        (
            "IPv4",
            zones(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
            "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items",
        ),
        (
            "IPv4",
            zones(&["a", "a"]),
            "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
        ),
        ("FQDN", name("db.example.org"), ""),
        ("FQDN", name("db.example.org."), ""),
        (
            "FQDN",
            name("db"),
            "endpoints[0].addresses[0]: Invalid value: \"db\": should be a domain with at least two segments \
             separated by dots",
        ),
        (
            "FQDN",
            name("not valid"),
            "endpoints[0].addresses[0]: Invalid value: \"not valid\": a lowercase RFC 1123 subdomain must consist of \
             lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
             (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
    ] {
        assert_eq!(
            text(&validate_slice(&slice(kind, &endpoint), None)),
            expected
        );
    }
    let (old, new) = (
        slice("IPv4", &name("10.244.0.9")),
        slice("FQDN", &name("a.b")),
    );
    let changed = text(&validate_slice(&new, Some(&old)));
    assert_eq!(
        changed,
        "addressType: Invalid value: \"FQDN\": field is immutable"
    );
}
