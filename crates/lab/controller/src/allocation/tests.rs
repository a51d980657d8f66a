#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!()` reads better than `&json!()`"
)]

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Allocator, Pools};
use crate::{meta, set_defaults};

fn pools(cidrs: &[&str]) -> Pools {
    Pools {
        service_cidrs: cidrs.iter().map(|it| it.parse().unwrap()).collect(),
        node_ports: 30_000..=32_767,
        load_balancers: vec!["192.0.2.0/28".parse().unwrap()],
    }
}

fn dual() -> Allocator {
    Allocator::new(pools(&["10.96.0.0/24", "fd00:96::/112"]))
}

fn service(name: &str, spec: &Value) -> Service {
    let metadata = json!({"name": name, "namespace": "default"});
    let mut spec = spec.clone();
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"name": "http", "port": 80}]);
    }
    if spec["selector"].is_null() {
        spec["selector"] = json!({"app": name});
    }
    let mut service = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    set_defaults(&mut service);
    service
}

fn create(allocator: &mut Allocator, name: &str, spec: Value) -> Result<Service, String> {
    update(allocator, None, name, spec)
}

fn update(
    allocator: &mut Allocator,
    old: Option<&Service>,
    name: &str,
    spec: Value,
) -> Result<Service, String> {
    let mut service = service(name, &spec);
    let done = allocator.complete(&mut service, old);
    let text = |it: super::Refusal| {
        let lines: Vec<String> = it.fields().iter().map(ToString::to_string).collect();
        lines.join("; ")
    };
    done.map(|()| service).map_err(text)
}

fn ips(service: &Service) -> Vec<String> {
    service
        .spec
        .as_ref()
        .unwrap()
        .cluster_ips
        .clone()
        .unwrap_or_default()
}

fn node_ports(service: &Service) -> Vec<i32> {
    let ports = service.spec.as_ref().unwrap().ports.iter().flatten();
    ports.map(|it| it.node_port.unwrap_or_default()).collect()
}

/// The fields that depend on the type, as JSON.
fn given(service: &Service) -> Value {
    let spec = serde_json::to_value(service.spec.as_ref().unwrap()).unwrap();
    let fields = [
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "externalTrafficPolicy",
        "allocateLoadBalancerNodePorts",
        "loadBalancerClass",
        "healthCheckNodePort",
    ];
    let set = fields.iter().filter(|it| !spec[**it].is_null());
    let mut names: Vec<&str> = set.copied().collect();
    if !spec["ports"][0]["nodePort"].is_null() {
        names.push("nodePort");
    }
    json!(names)
}

#[test]
fn a_change_of_type_drops_what_the_old_type_was_given() {
    const IPS: [&str; 3] = ["clusterIPs", "ipFamilies", "ipFamilyPolicy"];
    let local = json!({"externalTrafficPolicy": "Local"});
    let class = json!({"loadBalancerClass": "example.com/a"});
    let cases: [(&str, Value, &str, Value, &[&str]); 8] = [
        ("NodePort", json!({}), "ClusterIP", json!({}), &IPS),
        ("LoadBalancer", json!({}), "ClusterIP", json!({}), &IPS),
        ("LoadBalancer", local.clone(), "ClusterIP", json!({}), &IPS),
        ("LoadBalancer", class, "ClusterIP", json!({}), &IPS),
        (
            "LoadBalancer",
            local.clone(),
            "NodePort",
            json!({}),
            &[
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "externalTrafficPolicy",
                "nodePort",
            ],
        ),
        (
            "ClusterIP",
            json!({}),
            "ExternalName",
            json!({"externalName": "a.example"}),
            &[],
        ),
        (
            "NodePort",
            json!({}),
            "ExternalName",
            json!({"externalName": "a.example"}),
            &[],
        ),
        (
            "LoadBalancer",
            local,
            "LoadBalancer",
            json!({"externalTrafficPolicy": "Cluster"}),
            &[
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "externalTrafficPolicy",
                "allocateLoadBalancerNodePorts",
                "nodePort",
            ],
        ),
    ];
    for (from, spec, to, change, left) in cases {
        let mut allocator = dual();
        let mut all = json!({"type": from});
        all.as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let old = create(&mut allocator, "web", all).unwrap();
        // As a patch sends it: everything that the server chose is still there.
        let mut new = serde_json::to_value(&old).unwrap();
        new["spec"]["type"] = json!(to);
        new["spec"]
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let mut new: Service = serde_json::from_value(new).unwrap();
        set_defaults(&mut new);
        allocator.complete(&mut new, Some(&old)).unwrap();
        assert_eq!(given(&new), json!(left), "{from} to {to}");
        // What was dropped is free again.
        let ports = node_ports(&old)
            .into_iter()
            .filter(|it| *it != 0 && !left.contains(&"nodePort"));
        for port in ports {
            let wanted = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
            create(&mut allocator, "other", wanted).unwrap();
        }
    }
}

#[test]
fn a_changed_node_port_stays_to_be_refused() {
    let mut allocator = dual();
    let old = create(&mut allocator, "web", json!({"type": "NodePort"})).unwrap();
    let ports = json!([{"name": "http", "port": 80, "nodePort": 31_999}]);
    let new = update(&mut allocator, Some(&old), "web", json!({"ports": ports})).unwrap();
    assert_eq!(node_ports(&new), [31_999]);
}

#[test]
fn the_health_check_port_is_no_node_port_of_the_service() {
    let ports = json!([{"name": "http", "port": 80, "nodePort": 31_500}]);
    let spec = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31_500, "ports": ports,
    });
    let refused = create(&mut dual(), "web", spec).unwrap_err();
    assert_eq!(
        refused,
        "spec.healthCheckNodePort: Invalid value: 31500: provided port is already allocated"
    );
}

#[test]
fn families_follow_policy_and_cluster() {
    // Policy and families of the request, and of the result.
    for (cidrs, asked, policy, families) in [
        (
            &["10.96.0.0/24", "fd00:96::/112"][..],
            json!({}),
            "SingleStack",
            &["IPv4"][..],
        ),
        (
            &["fd00:96::/112", "10.96.0.0/24"],
            json!({}),
            "SingleStack",
            &["IPv6"],
        ),
        (
            &["10.96.0.0/24", "fd00:96::/112"],
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack",
            &["IPv4", "IPv6"],
        ),
        (
            &["10.96.0.0/24"],
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack",
            &["IPv4"],
        ),
        (
            &["10.96.0.0/24", "fd00:96::/112"],
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            "RequireDualStack",
            &["IPv6", "IPv4"],
        ),
        (
            &["10.96.0.0/24", "fd00:96::/112"],
            json!({"clusterIP": "fd00:96::7"}),
            "SingleStack",
            &["IPv6"],
        ),
        (
            &["10.96.0.0/24"],
            json!({"clusterIP": "None", "selector": {}}),
            "RequireDualStack",
            &["IPv4", "IPv6"],
        ),
        (
            &["10.96.0.0/24", "fd00:96::/112"],
            json!({"clusterIP": "None"}),
            "SingleStack",
            &["IPv4"],
        ),
    ] {
        let made = create(&mut Allocator::new(pools(cidrs)), "web", asked.clone()).unwrap();
        let spec = made.spec.as_ref().unwrap();
        assert_eq!(spec.ip_family_policy.as_deref(), Some(policy), "{asked}");
        assert_eq!(spec.ip_families.as_deref().unwrap(), families, "{asked}");
        if spec.cluster_ip.as_deref() != Some("None") {
            assert_eq!(ips(&made).len(), families.len(), "{asked}");
            assert_eq!(spec.cluster_ip, ips(&made).first().cloned(), "{asked}");
        }
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_its_field() {
    let mut allocator = Allocator::new(pools(&["10.96.0.0/24"]));
    create(&mut allocator, "first", json!({"clusterIP": "10.96.0.7", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30_080}]})).unwrap();
    for (asked, refusal) in [
        (
            json!({"clusterIP": "10.96.0.7"}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.7\"]: failed to allocate IP 10.96.0.7: provided IP is already \
             allocated",
        ),
        (
            json!({"clusterIP": "10.97.0.7"}),
            "spec.clusterIPs: Invalid value: [\"10.97.0.7\"]: failed to allocate IP 10.97.0.7: the provided network does \
             not match the current range",
        ),
        (
            json!({"clusterIP": "10.96.0.0"}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.0\"]: failed to allocate IP 10.96.0.0: the provided IP (10.96.0.0) \
             is not in the valid range. The range of valid IPs is 10.96.0.0/24",
        ),
        (
            json!({"clusterIP": "10.96.0.255"}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.255\"]: failed to allocate IP 10.96.0.255: the provided IP \
             (10.96.0.255) is not in the valid range. The range of valid IPs is 10.96.0.0/24",
        ),
        (
            json!({"clusterIP": "x"}),
            "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            json!({"clusterIP": "10.96.0.08"}),
            "spec.clusterIPs[0]: Invalid value: \"10.96.0.08\": must not have leading 0s",
        ),
        (
            json!({"clusterIP": "::ffff:10.96.0.8"}),
            "spec.clusterIPs[0]: Invalid value: \"::ffff:10.96.0.8\": must not be an IPv4-mapped IPv6 address",
        ),
        (
            json!({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.9"]}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.9\"]: first value must match `clusterIP`",
        ),
        (
            json!({"clusterIPs": ["10.96.0.9"]}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.9\"]: must be empty when `clusterIP` is not specified",
        ),
        (
            json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "10.96.0.8"]}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.9\",\"10.96.0.8\"]: may specify no more than one IP for each IP \
             family",
        ),
        (
            json!({"clusterIP": "None", "clusterIPs": ["None", "10.96.0.8"]}),
            "spec.clusterIPs: Invalid value: [\"None\",\"10.96.0.8\"]: 'None' must be the first and only value",
        ),
        (
            json!({"clusterIP": "10.96.0.8", "ipFamilies": ["IPv6"]}),
            "spec.clusterIPs[0]: Invalid value: \"10.96.0.8\": expected an IPv6 value as indicated by `ipFamilies[0]`",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ipFamilies": ["ipv4", "ipv4"], "ipFamilyPolicy": "Both"}),
            "spec.ipFamilies[0]: Unsupported value: \"ipv4\": supported values: \"IPv4\", \"IPv6\"; spec.ipFamilies[1]: \
             Unsupported value: \"ipv4\": supported values: \"IPv4\", \"IPv6\"; spec.ipFamilies[1]: Duplicate value: \
             \"ipv4\"; spec.ipFamilyPolicy: Unsupported value: \"Both\": supported values: \"PreferDualStack\", \
             \"RequireDualStack\", \"SingleStack\"",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack \
             services",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when \
             multiple IP families are specified",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_080}]}),
            "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [
                {"name": "a", "port": 80, "nodePort": 30_081}, {"name": "b", "port": 81, "nodePort": 30_081},
            ]}),
            "spec.ports[1].nodePort: Invalid value: 30081: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid \
             ports is 30000-32767",
        ),
        (
            json!({"type": "LoadBalancer", "loadBalancerIP": "198.51.100.1"}),
            "spec.loadBalancerIP: Invalid value: \"198.51.100.1\": failed to allocate IP 198.51.100.1: the provided \
             network does not match the current range",
        ),
    ] {
        let before = allocator.clone();
        assert_eq!(
            create(&mut allocator, "second", asked.clone()).unwrap_err(),
            refusal,
            "{asked}"
        );
        assert_eq!(before.claims, allocator.claims, "{asked}");
    }
}

#[test]
fn who_asks_for_nothing_gets_none_of_the_static_band() {
    let mut allocator = dual();
    let last = |it: &Service| {
        ips(it)[0]
            .rsplit('.')
            .next()
            .unwrap()
            .parse::<u8>()
            .unwrap()
    };
    let numbers: Vec<u8> = (0..254)
        .map(|it| last(&create(&mut allocator, &format!("s{it}"), json!({})).unwrap()))
        .collect();
    // A /24 keeps 16 addresses for requests, until no other is free (KEP-3070).
    assert!(numbers[..238].iter().all(|it| *it > 16), "{numbers:?}");
    assert!(numbers[238..].iter().all(|it| *it <= 16), "{numbers:?}");
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 254);
    assert_eq!(
        create(&mut allocator, "more", json!({})).unwrap_err(),
        "spec: failed to allocate a serviceIP for Service \"more\": range is full"
    );
    allocator.release(&meta::key(&service("s7", &json!({})).metadata));
    create(&mut allocator, "more", json!({})).unwrap();
    // 86 of 2,768 NodePorts are for requests (KEP-3668).
    let port = node_ports(&create(&mut dual(), "p", json!({"type": "NodePort"})).unwrap())[0];
    assert!(port >= 30_086, "{port}");
}

#[test]
fn node_ports_come_to_an_end() {
    let mut allocator = Allocator::new(Pools {
        node_ports: 30_000..=30_000,
        ..pools(&["10.96.0.0/24"])
    });
    let spec = json!({"type": "NodePort"});
    create(&mut allocator, "a", spec.clone()).unwrap();
    assert_eq!(
        create(&mut allocator, "b", spec).unwrap_err(),
        "spec: failed to allocate a nodePort: range is full"
    );
}

#[test]
fn names_choose_addresses() {
    let one = create(&mut dual(), "web", json!({"type": "NodePort"})).unwrap();
    let other = create(&mut dual(), "web", json!({"type": "NodePort"})).unwrap();
    assert_eq!(one, other);
}

#[test]
fn ports_of_two_protocols_share_a_number() {
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        {"name": "metrics", "port": 9153},
    ]);
    let made = create(
        &mut dual(),
        "dns",
        json!({"type": "NodePort", "ports": ports}),
    )
    .unwrap();
    let numbers = node_ports(&made);
    assert!(
        numbers[0] == numbers[1] && numbers[1] != numbers[2],
        "{numbers:?}"
    );
    let none = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    assert_eq!(node_ports(&create(&mut dual(), "lb", none).unwrap()), [0]);
}

#[test]
fn a_manifest_can_be_applied_again() {
    let mut allocator = dual();
    let asked = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let made = create(&mut allocator, "web", asked.clone()).unwrap();
    let again = update(&mut allocator, Some(&made), "web", asked).unwrap();
    assert_eq!(made.spec, again.spec);
    let health = made.spec.as_ref().unwrap().health_check_node_port.unwrap();
    assert!(health >= 30_000 && !node_ports(&made).contains(&health));
    // One more port; the first one keeps its NodePort.
    let two = json!({"type": "NodePort", "ports": [{"name": "http", "port": 80}, {"name": "more", "port": 81}]});
    let wider = update(&mut allocator, Some(&made), "web", two).unwrap();
    assert_eq!(node_ports(&wider)[0], node_ports(&made)[0]);
    assert_eq!(ips(&wider), ips(&made));
    // The NodePorts are free again.
    let port = node_ports(&made)[0];
    update(&mut allocator, Some(&wider), "web", json!({})).unwrap();
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    create(&mut allocator, "other", taken).unwrap();
    // With the list of the stored Service too: a patch of `clusterIP` alone.
    for mut moved in [json!({}), json!({"clusterIPs": ips(&made)})] {
        moved["clusterIP"] = "10.96.0.99".into();
        let moved = update(&mut allocator, Some(&made), "web", moved);
        assert_eq!(
            moved.unwrap_err(),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.99\"]: may not change once set"
        );
    }
}

/// What may not change, and how a second family comes and goes.
#[test]
fn addresses_and_families_stay() {
    let (first, second) = (
        json!(["10.96.0.9", "fd00:96::9"]),
        json!(["10.96.0.8", "fd00:96::9"]),
    );
    let dual_stack = json!({"ipFamilyPolicy": "RequireDualStack", "clusterIP": "10.96.0.9", "clusterIPs": first});
    let plain = json!({"clusterIP": "10.96.0.9"});
    let none = json!({"clusterIP": "None"});
    for (old, new, said) in [
        (
            &plain,
            json!({"clusterIP": "None"}),
            "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
        ),
        (
            &none,
            plain.clone(),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.9\"]: may not change once set",
        ),
        (
            &none,
            json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}),
            "",
        ),
        (
            &plain,
            json!({"clusterIP": "fd00:96::9"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00:96::9\"]: may not change once set; spec.ipFamilies[0]: Invalid \
             value: [\"IPv6\"]: may not change once set",
        ),
        (&plain, json!({"ipFamilyPolicy": "RequireDualStack"}), ""),
        (
            &plain,
            json!({"ipFamilyPolicy": "RequireDualStack", "clusterIP": "10.96.0.8", "clusterIPs": second}),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\",\"fd00:96::9\"]: may not change once set",
        ),
        (&dual_stack, json!({"ipFamilyPolicy": "SingleStack"}), ""),
        (&dual_stack, json!({}), ""),
        (
            &dual_stack,
            json!({"ipFamilies": ["IPv6", "IPv4"]}),
            "spec.clusterIPs[0]: Invalid value: \"10.96.0.9\": expected an IPv6 value as indicated by `ipFamilies[0]`; \
             spec.clusterIPs[1]: Invalid value: \"fd00:96::9\": expected an IPv4 value as indicated by `ipFamilies[1]`",
        ),
        (
            &dual_stack,
            json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"]}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary \
             cluster IP; spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the \
             secondary IP family",
        ),
        (
            &dual_stack,
            json!({"type": "ExternalName", "externalName": "a.example"}),
            "",
        ),
    ] {
        let mut allocator = dual();
        let made = create(&mut allocator, "web", old.clone()).unwrap();
        let changed = update(&mut allocator, Some(&made), "web", new.clone());
        assert_eq!(changed.err().unwrap_or_default(), said, "{old} to {new}");
    }
}

#[test]
fn a_port_that_comes_first_leaves_the_others_theirs() {
    let mut allocator = dual();
    let spec = |ports: Value| json!({"type": "NodePort", "ports": ports});
    let one = spec(json!([{"name": "b", "port": 81}]));
    let made = create(&mut allocator, "web", one).unwrap();
    let held = node_ports(&made)[0];
    let two = json!([{"name": "a", "port": 70}, {"name": "b", "port": 81, "nodePort": held}]);
    let wider = update(&mut allocator, Some(&made), "web", spec(two.clone())).unwrap();
    assert_eq!(node_ports(&wider)[1], held);
    assert_ne!(node_ports(&wider)[0], held);
    // Nor does a new Service get one number twice, of which it names one.
    let new = create(&mut dual(), "web", spec(two)).unwrap();
    assert_eq!(node_ports(&new), node_ports(&wider));
}

#[test]
fn a_second_family_comes_and_goes() {
    let mut allocator = dual();
    let single = create(&mut allocator, "web", json!({})).unwrap();
    let both = json!({"ipFamilyPolicy": "PreferDualStack"});
    let dual = update(&mut allocator, Some(&single), "web", both).unwrap();
    assert_eq!((ips(&dual).len(), &ips(&dual)[0]), (2, &ips(&single)[0]));
    let back = json!({"ipFamilyPolicy": "SingleStack"});
    let back = update(&mut allocator, Some(&dual), "web", back).unwrap();
    assert_eq!(ips(&back), ips(&single));
    create(&mut allocator, "other", json!({"clusterIP": ips(&dual)[1]})).unwrap();
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    update(&mut allocator, Some(&back), "web", external).unwrap();
    create(
        &mut allocator,
        "third",
        json!({"clusterIP": ips(&single)[0]}),
    )
    .unwrap();
}

#[test]
fn load_balancers_get_addresses_of_the_pool() {
    let mut allocator = dual();
    let ingress =
        |it: &Service| -> Vec<String> { super::ingress_ips(it).map(|it| it.to_string()).collect() };
    let asked = json!({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.5"});
    let made = create(&mut allocator, "web", asked).unwrap();
    assert_eq!(ingress(&made), ["192.0.2.5"]);
    let any = create(&mut allocator, "any", json!({"type": "LoadBalancer"})).unwrap();
    assert!(ingress(&any)[0].starts_with("192.0.2.") && ingress(&any) != ingress(&made));
    let other = json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/lb"});
    assert_eq!(
        ingress(&create(&mut allocator, "class", other).unwrap()),
        [""; 0]
    );
    let mut plain = service("web", &json!({}));
    plain.status = made.status.clone();
    allocator.complete(&mut plain, Some(&made)).unwrap();
    assert_eq!(ingress(&plain), [""; 0]);
    let again = json!({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.5"});
    create(&mut allocator, "next", again).unwrap();
}

#[test]
fn an_earlier_run_is_taken_over_and_repaired() {
    let mut allocator = dual();
    let made = create(&mut allocator, "web", json!({"type": "NodePort"})).unwrap();
    let mut twin = made.clone();
    twin.metadata.name = Some("zwin".to_owned());
    let mut restarted = dual();
    let problems = restarted.recover([&twin, &made]);
    let problems: Vec<String> = problems
        .iter()
        .map(|(key, it)| format!("{key} {it}"))
        .collect();
    let (ip, port) = (&ips(&made)[0], node_ports(&made)[0]);
    assert_eq!(
        problems,
        [
            format!(
                "default/zwin spec.clusterIPs: {ip} is Service default/web's: delete one of the two Services"
            ),
            format!(
                "default/zwin spec.ports[].nodePort: {port} is Service default/web's: delete one of the two Services"
            ),
        ]
    );
    let web = meta::key(&made.metadata);
    let addresses: Vec<String> = restarted
        .ip_addresses_of(&web)
        .into_iter()
        .map(|it| {
            let parent = it.spec.parent_ref;
            format!(
                "{} {}/{}",
                it.metadata.name.unwrap(),
                parent.namespace.unwrap(),
                parent.name
            )
        })
        .collect();
    assert_eq!(addresses, [format!("{ip} default/web")]);
}

fn ip_address(name: &str, manager: &str, parent: Value) -> IPAddress {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"ipaddress.kubernetes.io/managed-by": manager}},
        "spec": {"parentRef": parent},
    }))
    .unwrap()
}

#[test]
fn an_address_of_somebody_else_is_no_service_s() {
    let mut allocator = Allocator::new(pools(&["10.96.0.0/29"]));
    let edge = json!({"group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "infra", "name": "edge"});
    let web = json!({"group": "", "resource": "services", "namespace": "default", "name": "web"});
    // An IPAddress of an allocator whose Service is gone reserves nothing.
    let kept = [
        ip_address("10.96.0.2", "gateways", edge.clone()),
        ip_address("10.96.0.3", "gateways", web),
        ip_address("10.96.0.4", "ipallocator.k8s.io", edge.clone()),
    ];
    assert_eq!(allocator.set_reserved(&kept), []);
    let asked = |ip: &str| json!({"clusterIP": ip});
    assert_eq!(
        create(&mut allocator, "other", asked("10.96.0.2")).unwrap_err(),
        "spec.clusterIPs: Invalid value: [\"10.96.0.2\"]: failed to allocate IP 10.96.0.2: provided IP is already allocated"
    );
    let owners = allocator.owners(&service("other", &asked("10.96.0.2")));
    assert_eq!(
        owners.into_iter().collect::<Vec<_>>(),
        ["10.96.0.2 is kept for gateways infra/edge by an IPAddress"]
    );
    create(&mut allocator, "other", asked("10.96.0.3")).unwrap_err();
    create(&mut allocator, "web", asked("10.96.0.3")).unwrap();
    create(&mut allocator, "fourth", asked("10.96.0.4")).unwrap();
    let mut given = BTreeSet::new();
    for name in ["a", "b", "c"] {
        given.extend(ips(&create(&mut allocator, name, json!({})).unwrap()));
    }
    assert_eq!(
        given,
        ["10.96.0.1", "10.96.0.5", "10.96.0.6"]
            .map(str::to_owned)
            .into()
    );
    let full = create(&mut allocator, "d", json!({})).unwrap_err();
    assert!(full.contains("range is full"), "{full}");
    // The Service keeps the address; a person must decide.
    let late = allocator.set_reserved(&[ip_address("10.96.0.4", "gateways", edge)]);
    assert_eq!(late.len(), 1);
    assert!(
        late[0]
            .1
            .to_string()
            .contains("delete the Service or the IPAddress")
    );
    let had = service("fourth", &asked("10.96.0.4"));
    update(&mut allocator, Some(&had), "fourth", asked("10.96.0.4")).unwrap();
}

proptest! {
    /// Two Services never have the same address or port, and a deleted Service has none.
    #[test]
    fn nothing_is_given_twice(steps in prop::collection::vec((0..12_u8, 0..6_u8), 1..80)) {
        let mut allocator = Allocator::new(pools(&["10.96.0.0/28", "fd00:96::/124"]));
        let mut services = std::collections::BTreeMap::new();
        for (name, what) in steps {
            let name = format!("s{name}");
            let spec = match what {
                0 => json!({}),
                1 => json!({"type": "NodePort"}),
                2 => json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ipFamilyPolicy": "PreferDualStack"}),
                3 => json!({"type": "ExternalName"}),
                4 => json!({"clusterIP": "10.96.0.3"}),
                _ => {
                    allocator.release(&meta::key(&service(&name, &json!({})).metadata));
                    services.remove(&name);
                    continue;
                }
            };
            if let Ok(made) = update(&mut allocator, services.get(&name), &name, spec) {
                services.insert(name, made);
            }
            let mut seen = BTreeSet::new();
            for service in services.values() {
                let claims = super::claims_of(service);
                for ip in claims.ips {
                    prop_assert!(seen.insert(ip.to_string()), "{ip}");
                }
                for port in claims.ports {
                    prop_assert!(seen.insert(port.to_string()), "{port}");
                }
            }
            prop_assert_eq!(allocator.ips.len() + allocator.ports.len(), seen.len());
        }
    }
}
