//! Converts objects that differ in one field, and compares the model with the expected text.

use sluice_model::{AddressType, ClusterIps, Conditions, Endpoint, SessionAffinity, TrafficPolicy};

use super::service::ServiceSpec;
use super::*;
use crate::convert::{Converted, Fault, Interner};
use crate::kind::{Kind as _, ObjectMeta};

/// Converts a Service given as JSON; `name` and one port are there already.
fn a_service(spec: &str) -> Converted<sluice_model::Service> {
    let json = format!(
        r#"{{"metadata": {{"name": "web"}}, "spec": {{"ports": [{{"port": 80}}], {spec}}},
            "status": {{"loadBalancer": {{"ingress": null}}}}, "unknown": 1}}"#
    );
    let api: Service = serde_json::from_str(&json).unwrap();
    api.convert(&mut Interner::default())
}

#[track_caller]
fn check<T: std::fmt::Debug>(spec: &str, pick: fn(sluice_model::Service) -> T, expected: &str) {
    let converted = a_service(spec);
    assert_eq!(converted.faults, [], "{spec}");
    assert_eq!(format!("{:?}", pick(converted.object.unwrap())), expected);
}

#[track_caller]
fn check_faults(spec: &str, refused: bool, expected: &[&str]) {
    let converted = a_service(spec);
    let faults: Vec<String> = converted.faults.iter().map(Fault::to_string).collect();
    assert_eq!(faults, expected);
    assert_eq!(converted.object.is_none(), refused);
}

#[test]
fn defaults_of_a_service() {
    let service = a_service(r#""clusterIP": """#).object.unwrap();
    assert_eq!(service.name.to_string(), "default/web");
    assert_eq!(service.cluster_ips, ClusterIps::Unassigned);
    assert_eq!(service.affinity, SessionAffinity::None);
    assert_eq!(service.internal_policy, TrafficPolicy::Cluster);
    assert_eq!(service.external_policy, TrafficPolicy::Cluster);
    assert_eq!((service.created, service.proxy_name), (None, None));
    assert_eq!(&*service.ports[0].name, "");
    assert_eq!(service.ports[0].protocol.as_str(), "tcp");
    assert_eq!(service.ports[0].node_port, None);
}

#[test]
fn cluster_ips() {
    check(r#""clusterIP": "None""#, |it| it.cluster_ips, "Headless");
    check(r#""clusterIPs": ["None"]"#, |it| it.cluster_ips, "Headless");
    check(
        r#""clusterIP": "010.0.0.09""#,
        |it| it.cluster_ips,
        "Assigned([10.0.0.9])",
    );
    check(
        r#""clusterIPs": ["fd00::1", "10.0.0.1"], "ipFamilies": ["IPv6", "IPv4"]"#,
        |it| it.cluster_ips,
        "Assigned([fd00::1, 10.0.0.1])",
    );
    check(
        r#""type": "ExternalName", "externalName": "a.example", "clusterIP": "x""#,
        |it| it.cluster_ips,
        "Unassigned",
    );
    let both = r#""clusterIPs": ["10.0.0.1", "10.0.0.2"]"#;
    check_faults(
        both,
        true,
        &["spec.clusterIPs[1]: 10.0.0.2 is a second IPv4 address"],
    );
}

#[test]
fn external_names() {
    let spec = |name: &str| format!(r#""type": "ExternalName", "externalName": {name}"#);
    for (name, expected) in [
        (r#""a.example""#, r#"Some("a.example")"#),
        (r#""a.example.""#, r#"Some("a.example")"#),
        (r#""192.0.2.1""#, r#"Some("192.0.2.1")"#),
    ] {
        check(&spec(name), |it| it.external_name, expected);
    }
    check(r#""externalName": "A b""#, |it| it.external_name, "None");
    for name in ["null", r#""""#, r#"".""#] {
        check_faults(&spec(name), true, &["spec.externalName: is required"]);
    }
    let long = "a".repeat(254);
    for name in [
        "A.example",
        "a..example",
        "*.example",
        "a b",
        "a\\u0000b",
        &long,
    ] {
        let converted = a_service(&spec(&format!(r#""{name}""#)));
        let fault = converted.faults[0].to_string();
        assert!(fault.starts_with("spec.externalName: "), "{fault}");
        assert!(fault.contains("is not a DNS subdomain"), "{fault}");
        assert_eq!((converted.object, converted.faults.len()), (None, 1));
    }
}

#[test]
fn affinity() {
    let none = r#""sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}"#;
    check(none, |it| it.affinity, "None");
    let short = r#""sessionAffinity": "ClientIP""#;
    check(
        short,
        |it| it.affinity,
        "ClientIp { timeout_seconds: 10800 }",
    );
    let zero = r#""sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}"#;
    let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    check_faults(zero, true, &[&format!("{field}: 0 is not in 1..=86400")]);
}

/// A value that a later Kubernetes may have.
#[test]
fn unknown_values_count_as_the_default() {
    let cases = [
        (
            "type",
            "ClusterIP, NodePort, LoadBalancer, ExternalName",
            "ClusterIP",
        ),
        ("internalTrafficPolicy", "Cluster, Local", "Cluster"),
        ("externalTrafficPolicy", "Cluster, Local", "Cluster"),
        ("sessionAffinity", "None, ClientIP", "None"),
    ];
    let served = a_service(r#""clusterIP": "10.0.0.1""#).object.unwrap();
    for (field, known, default) in cases {
        let spec = format!(r#""clusterIP": "10.0.0.1", "{field}": "Nearest""#);
        let why = format!("spec.{field}: \"Nearest\" is not one of {known}: served as {default}");
        check_faults(&spec, false, &[&why]);
        assert_eq!(a_service(&spec).object.unwrap(), served, "{field}");
    }
}

/// A protocol that a later Kubernetes may have: the other ports are served.
#[test]
fn a_port_of_an_unknown_protocol_is_left_out() {
    let json = r#"{"metadata": {"name": "web"}, "spec": {"clusterIP": "10.0.0.1", "ports": [
        {"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "QUIC"}]}}"#;
    let api: Service = serde_json::from_str(json).unwrap();
    let converted = api.convert(&mut Interner::default());
    let faults: Vec<String> = converted.faults.iter().map(Fault::to_string).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].starts_with("spec.ports[1].protocol: \"QUIC\" is not"),
        "{faults:?}"
    );
    assert!(
        faults[0].ends_with(": this port is not served"),
        "{faults:?}"
    );
    let names: Vec<&str> = converted
        .object
        .as_ref()
        .unwrap()
        .ports
        .iter()
        .map(|it| &*it.name)
        .collect();
    assert_eq!(names, ["a"]);
}

#[test]
fn source_ranges() {
    let ranges = |list: &str| format!(r#""loadBalancerSourceRanges": [{list}]"#);
    let pick = |it: sluice_model::Service| it.source_ranges;
    check(
        &ranges(r#"" 10.1.2.3/8\t", "fd00::/8""#),
        pick,
        "[10.0.0.0/8, fd00::/8]",
    );
    check(
        &ranges(r#""10.0.0.0/8", "0.0.0.0/0", "fd00::/8""#),
        pick,
        "[fd00::/8]",
    );
    check(
        &ranges(r#""::/0", "fd00::/8", "10.0.0.0/8""#),
        pick,
        "[10.0.0.0/8]",
    );
    let bad = "is not an address range like 10.0.0.0/8";
    for text in [
        "",
        "0.0.0.0/",
        "0.0.0.0/+0",
        "/0",
        "0.0.0.0/0000",
        "1.2.3/0",
        "::ffff:0.0.0.0/0",
    ] {
        let fault = format!("spec.loadBalancerSourceRanges[0]: {text:?} {bad}");
        check_faults(&ranges(&format!("{text:?}")), true, &[&fault]);
    }
}

#[test]
fn bad_external_ips_are_dropped() {
    let spec = r#""externalIPs": ["192.0.2.1", "fe80::1", "192.0.2.1", "fd00::1"]"#;
    check_faults(
        spec,
        false,
        &["spec.externalIPs[1]: fe80::1 is a link-local address: ignored"],
    );
    let service = a_service(spec).object.unwrap();
    assert_eq!(
        format!("{:?}", service.external_ips),
        "[192.0.2.1, fd00::1]"
    );
}

#[test]
fn creation_time() {
    let read = |text: &str| {
        let meta = ObjectMeta {
            name: Some("x".into()),
            creation_timestamp: Some(text.into()),
            ..Default::default()
        };
        let spec = ServiceSpec {
            cluster_ip: Some("None".into()),
            ..Default::default()
        };
        let api = Service {
            metadata: meta,
            spec,
            ..Default::default()
        };
        api.convert(&mut Interner::default())
            .object
            .and_then(|it| it.created)
    };
    assert_eq!(read("1970-01-01T00:01:00Z"), Some(60));
    assert_eq!(read("1970-01-01T02:00:00+01:00"), Some(3600));
    assert_eq!(read("1970-01-01"), None);
}

#[test]
fn ports_may_share_a_number_across_protocols() {
    let spec = r#""clusterIP": "10.0.0.1""#;
    let json = |ports: &str| {
        let json =
            format!(r#"{{"metadata": {{"name": "x"}}, "spec": {{"ports": [{ports}], {spec}}}}}"#);
        let api: Service = serde_json::from_str(&json).unwrap();
        api.convert(&mut Interner::default()).object.is_some()
    };
    assert!(json(
        r#"{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}"#
    ));
    assert!(!json(
        r#"{"name": "a", "port": 53}, {"name": "a", "port": 53, "protocol": "UDP"}"#
    ));
    assert!(!json(
        r#"{"name": "a", "port": 53}, {"name": "b", "port": 53}"#
    ));
    assert!(!json(r#"{"port": 53}, {"name": "b", "port": 54}"#));
}

/// Each of 80,000 values is checked once; duplicates are left out, and bad values are counted.
#[test]
fn many_addresses_of_one_service() {
    let ip = |i: u32| format!("\"10.{}.{}.{}\"", i >> 16, (i >> 8) & 255, i & 255);
    let all: Vec<String> = (0..80_000).map(|i| ip(i / 2)).collect();
    let converted = a_service(&format!(r#""externalIPs": [{}]"#, all.join(",")));
    assert_eq!(converted.faults, []);
    assert_eq!(converted.object.unwrap().external_ips.len(), 40_000);

    let bad = vec![r#""127.0.0.1""#; 80_000];
    let converted = a_service(&format!(r#""externalIPs": [{}]"#, bad.join(",")));
    assert!(converted.object.unwrap().external_ips.is_empty());
    let faults: Vec<String> = converted.faults.iter().map(Fault::to_string).collect();
    let last = "spec.externalIPs[19]: 127.0.0.1 is a loopback address: ignored";
    assert_eq!(faults[19..], [last, "79980 further problems"]);
}

#[test]
fn defaults_of_a_slice() {
    let json = r#"{"metadata": {"name": "s.x"}, "addressType": "IPv6", "ports": [{"name": "", "port": 1}],
        "endpoints": [{"addresses": ["fd00::1", "fd00::2"], "conditions": {"terminating": null}},
                      {"addresses": null}, {"addresses": ["fd00::3"], "conditions": {"ready": false}}]}"#;
    let api: EndpointSlice = serde_json::from_str(json).unwrap();
    let converted = api.convert(&mut Interner::default());
    assert_eq!(converted.faults, []);
    let slice = converted.object.unwrap();
    assert_eq!(
        (slice.address_type, slice.service, slice.headless),
        (AddressType::Ipv6, None, false)
    );
    let addresses: Vec<String> = slice
        .endpoints
        .iter()
        .flat_map(Endpoint::addresses)
        .map(|it| it.to_string())
        .collect();
    assert_eq!(addresses, ["fd00::1", "fd00::2", "fd00::3"]);
    assert_eq!(slice.endpoints[0].conditions, Conditions::READY);
    assert!(!slice.endpoints[1].conditions.ready && slice.endpoints[1].conditions.serving);
}

#[test]
fn limits_of_a_slice() {
    let endpoint = endpoint_slice::Endpoint {
        addresses: vec!["10.0.0.1".into()],
        ..Default::default()
    };
    let slice = |endpoints: usize, addresses: usize| {
        let mut endpoint = endpoint.clone();
        endpoint.addresses = vec!["10.0.0.1".into(); addresses];
        let api = EndpointSlice {
            metadata: ObjectMeta {
                name: Some("x".into()),
                ..Default::default()
            },
            address_type: Some("IPv4".into()),
            endpoints: vec![endpoint; endpoints],
            ports: Vec::new(),
        };
        api.convert(&mut Interner::default()).object.is_some()
    };
    assert!(slice(1_000, 1) && slice(1, 100));
    assert!(!slice(1_001, 1) && !slice(1, 101));
}

#[test]
fn hostnames_of_endpoints() {
    let long = "a".repeat(64);
    let json = format!(
        r#"{{"metadata": {{"name": "x"}}, "addressType": "IPv4", "endpoints": [
            {{"addresses": ["10.0.0.1"], "hostname": "web-0"}},
            {{"addresses": ["10.0.0.2"], "hostname": ""}},
            {{"addresses": ["10.0.0.3"]}},
            {{"addresses": ["10.0.0.4"], "hostname": "Web"}},
            {{"addresses": ["10.0.0.5"], "hostname": "a.b"}},
            {{"addresses": ["10.0.0.6"], "hostname": "{long}"}}]}}"#
    );
    let api: EndpointSlice = serde_json::from_str(&json).unwrap();
    let converted = api.convert(&mut Interner::default());
    let endpoints = converted.object.unwrap().endpoints;
    let names: Vec<_> = endpoints.iter().map(|it| it.hostname.as_deref()).collect();
    assert_eq!(names, [Some("web-0"), None, None, None, None, None]);
    let faults: Vec<_> = converted.faults.iter().map(Fault::field).collect();
    let expected = [3, 4, 5].map(|it| format!("endpoints[{it}].hostname"));
    assert_eq!(faults, expected);
}

#[test]
fn weights_of_endpoints() {
    let json = r#"{"metadata": {"name": "x", "annotations": {"sluice.dev/endpoint-weights":
        "10.0.0.1=5, 10.0.0.2 = 0,,10.0.0.3=-1,10.0.0.9=2,nonsense"}}, "addressType": "IPv4", "endpoints": [
        {"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.3"]}]}"#;
    let api: EndpointSlice = serde_json::from_str(json).unwrap();
    let converted = api.convert(&mut Interner::default());
    let weights: Vec<u16> = converted
        .object
        .unwrap()
        .endpoints
        .iter()
        .map(|it| it.weight)
        .collect();
    assert_eq!(weights, [5, 0, 1]);
    let field = "metadata.annotations[sluice.dev/endpoint-weights]";
    let faults: Vec<String> = converted.faults.iter().map(Fault::to_string).collect();
    let wrong = "is not ADDRESS=WEIGHT with a weight in 0..=65535: ignored";
    assert_eq!(
        faults,
        [
            format!("{field}: \"10.0.0.3=-1\" {wrong}"),
            format!("{field}: \"nonsense\" {wrong}"),
            format!("{field}: 10.0.0.9 is no endpoint of the slice: ignored"),
        ]
    );
}

#[test]
fn a_scheduler_is_a_word() {
    for (text, expected) in [
        ("wlc", Some("wlc")),
        ("W;c", None),
        ("", None),
        ("sixteencharacter", None),
    ] {
        let json = serde_json::json!({
            "metadata": {"name": "x", "annotations": {"sluice.dev/ipvs-scheduler": text}},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
        });
        let api: Service = serde_json::from_value(json).unwrap();
        let converted = api.convert(&mut Interner::default());
        assert_eq!(
            converted.object.unwrap().ipvs_scheduler.as_deref(),
            expected
        );
        assert_eq!(
            converted.faults.is_empty(),
            expected.is_some(),
            "{:?}",
            converted.faults
        );
    }
}

#[test]
fn words_of_annotations() {
    let converted = |algorithm: &str, forwarding: &str| {
        let json = serde_json::json!({
            "metadata": {"name": "x", "annotations": {
                "sluice.dev/lb-algorithm": algorithm, "sluice.dev/forwarding": forwarding,
            }},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
        });
        let api: Service = serde_json::from_value(json).unwrap();
        let converted = api.convert(&mut Interner::default());
        let object = converted.object.unwrap();
        let faults = converted.faults.iter().map(ToString::to_string);
        let faults: Vec<_> = faults.collect();
        (object.algorithm, object.forwarding, faults.join("\n"))
    };
    use sluice_model::{Algorithm, Forwarding};
    let good = converted("maglev", "dsr");
    let (maglev, dsr) = (Some(Algorithm::Maglev), Some(Forwarding::Dsr));
    assert_eq!(good, (maglev, dsr, String::new()));
    let (algorithm, forwarding, faults) = converted("Maglev", "direct");
    assert_eq!((algorithm, forwarding), (None, None));
    assert!(faults.contains("snat, dsr"), "{faults}");
    assert!(faults.contains("random, maglev"), "{faults}");
    assert!(faults.contains("sluice.dev/lb-algorithm"), "{faults}");
}

#[test]
fn fqdn_slices_have_no_endpoints() {
    let json = r#"{"metadata": {"name": "x"}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}"#;
    let api: EndpointSlice = serde_json::from_str(json).unwrap();
    let slice = api.convert(&mut Interner::default()).object.unwrap();
    assert_eq!(slice.endpoints, []);
}

#[test]
fn node_addresses_are_internal_first() {
    let json = r#"{"metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.0.0/24"}, "status": {"addresses": [
        {"type": "ExternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "fd00::1"}]}}"#;
    let api: Node = serde_json::from_str(json).unwrap();
    let node = api.convert(&mut Interner::default()).object.unwrap();
    assert_eq!(
        format!("{:?}", node.addresses),
        "[10.0.0.1, fd00::1, 192.0.2.1]"
    );
    assert_eq!(format!("{:?}", node.pod_cidrs), "[10.244.0.0/24]");
}

#[test]
fn names_are_shared() {
    let mut names = Interner::default();
    let (a, b) = (names.share("zone-1"), names.share("zone-1"));
    assert!(std::sync::Arc::ptr_eq(&a, &b));
    for i in 0..5_000 {
        names.share(&i.to_string());
    }
    assert!(std::sync::Arc::ptr_eq(&a, &names.share("zone-1")));
}

/// Endpoints as their slices: `name addressType: address ready?, ...; ports`.
#[track_caller]
fn check_endpoints(json: &str, expected: &[&str]) {
    let api: Endpoints = serde_json::from_str(json).unwrap();
    let converted = endpoints(&api, &mut Interner::default());
    assert_eq!(converted.faults, []);
    let slices = converted.object.unwrap();
    let text = |it: &sluice_model::EndpointSlice| {
        let members = it.endpoints.iter().map(|it| {
            let (conditions, node) = (it.conditions, it.node.as_deref().unwrap_or("-"));
            assert!(conditions.serving && !conditions.terminating);
            let mark = if conditions.ready { "" } else { "!" };
            format!("{}{mark}@{node}*{}", it.address, it.weight)
        });
        let members = members.collect::<Vec<_>>().join(" ");
        let ports = it.ports.iter();
        let ports: Vec<_> = ports
            .map(|it| format!("{}:{}/{}", it.name, it.port, it.protocol))
            .collect();
        let service = it.service.as_deref().unwrap_or_default();
        let headless = if it.headless { " headless" } else { "" };
        format!(
            "{service}{headless} {}: {members}; {}",
            it.name,
            ports.join(" ")
        )
    };
    assert_eq!(slices.iter().map(text).collect::<Vec<_>>(), expected);
}

#[test]
fn endpoints_become_slices_of_one_family_each() {
    check_endpoints(
        r#"{"metadata": {"name": "web", "namespace": "a",
                "annotations": {"sluice.dev/endpoint-weights": "10.0.0.1=3"}},
            "subsets": [
            {"addresses": [{"ip": "10.0.0.1", "nodeName": "n1"}, {"ip": "fd00::1"}],
             "notReadyAddresses": [{"ip": "10.0.0.2"}],
             "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]},
            {"addresses": [], "ports": [{"name": "x", "port": 1}]}]}"#,
        &[
            "web a/web-endpoints-0-ipv4: 10.0.0.1@n1*3 10.0.0.2!@-*1; http:80/tcp dns:53/udp",
            "web a/web-endpoints-0-ipv6: fd00::1@-*1; http:80/tcp dns:53/udp",
        ],
    );
    let labelled = |meta: &str| {
        format!(
            r#"{{"metadata": {{"name": "web", {meta}}},
                "subsets": [{{"addresses": [{{"ip": "10.0.0.1"}}]}}]}}"#
        )
    };
    let headless = labelled(r#""labels": {"service.kubernetes.io/headless": ""}"#);
    let expected = ["web headless default/web-endpoints-0-ipv4: 10.0.0.1@-*1; "];
    check_endpoints(&headless, &expected);
    let skipped = r#""labels": {"endpoints.kubernetes.io/skip-mirror": "true"}"#;
    check_endpoints(&labelled(skipped), &[]);
    let lock = r#""annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}"#;
    check_endpoints(&labelled(lock), &[]);
}

#[test]
fn subset_has_at_most_a_thousand_endpoints() {
    let all: Vec<String> = (0..1_100)
        .map(|it| format!(r#"{{"ip": "10.0.{}.{}"}}"#, it / 200, it % 200))
        .collect();
    let json = format!(
        r#"{{"metadata": {{"name": "web"}}, "subsets": [{{"addresses": [{}]}}]}}"#,
        all.join(", ")
    );
    let api: Endpoints = serde_json::from_str(&json).unwrap();
    let converted = endpoints(&api, &mut Interner::default());
    let fault = converted.faults[0].to_string();
    let limit = "1100 addresses, the limit is 1000: the others are ignored";
    assert_eq!(fault, format!("subsets[0].addresses: {limit}"));
    assert_eq!(converted.object.unwrap()[0].endpoints.len(), 1_000);
}
