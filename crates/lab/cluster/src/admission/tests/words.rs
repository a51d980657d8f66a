//! Services and EndpointSlices are refused in kube-apiserver's words, whichever table or function has the rule: the whole
//! list of what is wrong.

use super::*;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// What is said of an object after its name; empty if it is stored.
fn said(object: Value) -> String {
    let refused = store().create_with(object, Effect::DryRun).err();
    let text = refused.map(|it| it.to_string()).unwrap_or_default();
    let (_, why) = text.split_once(" is invalid: ").unwrap_or(("", &text));
    why.to_owned()
}

fn slice(sort: &str, endpoint: &Value, ports: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "web-1"}, "addressType": sort,
        "endpoints": [endpoint], "ports": ports,
    })
}

#[test]
fn of_slices() {
    let of = |sort: &str, address: &str| slice(sort, &json!({"addresses": [address]}), &json!([]));
    let with = |field: &str, value: Value| {
        slice(
            "IPv4",
            &json!({"addresses": ["10.244.0.9"], field: value}),
            &json!([]),
        )
    };
    let ports = |ports: Value| slice("IPv4", &json!({"addresses": ["10.244.0.9"]}), &ports);
    let at = "endpoints[0].addresses[0]: Invalid value";
    let many: Vec<_> = (0..101).map(|it| format!("10.1.0.{it}")).collect();
    let zones: Vec<_> = (0..9).map(|it| json!({"name": format!("z{it}")})).collect();
    let endpoints: Vec<_> = (0..1001)
        .map(|it| json!({"addresses": [format!("10.{}.1.{}", it / 250, it % 250 + 1)]}))
        .collect();
    let mut large = of("IPv4", "10.244.0.9");
    large["endpoints"] = json!(endpoints[..1000]);
    let mut larger = large.clone();
    larger["endpoints"] = endpoints.into();
    let mut untyped = of("IPv4", "10.244.0.9");
    untyped.as_object_mut().unwrap().remove("addressType");
    for (object, expected) in [
        (of("IPv4", "10.244.0.9"), String::new()),
        (of("FQDN", "db.example.org"), String::new()),
        (large, String::new()),
        (larger, "endpoints: Too many: 1001: must have at most 1000 items".to_owned()),
        (untyped, "addressType: Required value".to_owned()),
        (
            of("MAC", "10.244.0.9"),
            "addressType: Unsupported value: \"MAC\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"".to_owned(),
        ),
        (
            of("IPv4", "fd00::1"),
            "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address".to_owned(),
        ),
        (
            of("IPv6", "10.244.0.9"),
            "endpoints[0].addresses: Invalid value: \"10.244.0.9\": must be an IPv6 address".to_owned(),
        ),
        (of("IPv6", "fd00:0::1"), format!("{at}: \"fd00:0::1\": must be in canonical form (\"fd00::1\")")),
        (of("IPv4", "10.244.0.09"), format!("{at}: \"10.244.0.09\": must not have leading 0s")),
        (of("IPv4", "not-an-ip"), format!("{at}: \"not-an-ip\": {IP}")),
        (
            of("IPv4", "127.0.0.1"),
            format!("{at}: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ),
        (
            of("IPv4", "169.254.1.1"),
            format!("{at}: \"169.254.1.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ),
        (
            of("IPv4", "224.0.0.1"),
            format!("{at}: \"224.0.0.1\": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ),
        (of("IPv4", "0.0.0.0"), format!("{at}: \"0.0.0.0\": may not be unspecified (0.0.0.0)")),
        (of("FQDN", "not valid"), format!("{at}: \"not valid\": {SUBDOMAIN}")),
        (
            slice("IPv4", &json!({"addresses": []}), &json!([])),
            "endpoints[0].addresses: Required value: must contain at least 1 address".to_owned(),
        ),
        (
            slice("IPv4", &json!({"addresses": many}), &json!([])),
            "endpoints[0].addresses: Too many: 101: must have at most 100 items".to_owned(),
        ),
        (with("hostname", json!("a.b")), "endpoints[0].hostname: Invalid value: \"a.b\": must not contain dots".to_owned()),
        (with("hostname", json!("Db-0")), format!("endpoints[0].hostname: Invalid value: \"Db-0\": {LABEL}")),
        (with("nodeName", json!("node a")), format!("endpoints[0].nodeName: Invalid value: \"node a\": {SUBDOMAIN}")),
        (
            with("hints", json!({"forZones": zones})),
            "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items".to_owned(),
        ),
        (
            with("hints", json!({"forZones": [{"name": "z"}, {"name": "z"}]})),
            "endpoints[0].hints.forZones[1].name: Duplicate value: \"z\"".to_owned(),
        ),
        (
            ports(json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}])),
            "ports[1].name: Duplicate value: \"a\"".to_owned(),
        ),
        (ports(json!([{"name": "Http", "port": 80}])), format!("ports[0].name: Invalid value: \"Http\": {LABEL}")),
        (ports(json!([{"name": "a"}, {"port": 80}])), String::new()),
        (
            ports(json!([{"name": "a", "port": 0}])),
            "ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive".to_owned(),
        ),
        (
            ports(json!([{"name": "a", "port": 80, "protocol": "ICMP"}])),
            "ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"".to_owned(),
        ),
    ] {
        assert_eq!(said(object.clone()), expected, "{}", &object.to_string()[..200.min(object.to_string().len())]);
    }
}

#[test]
fn of_services() {
    let service = |spec: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec});
        if object["spec"]["ports"].is_null() {
            object["spec"]["ports"] = json!([{"name": "p", "port": 80}]);
        }
        object
    };
    let twice =
        r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#;
    let only_balanced = "Forbidden: may only be used when `type` is 'LoadBalancer'";
    for (spec, expected) in [
        (json!({}), String::new()),
        (json!({"type": "ExternalName", "externalName": "db.example.org."}), String::new()),
        (json!({"type": "ExternalName"}), "spec.externalName: Required value".to_owned()),
        (
            json!({"type": "ExternalName", "externalName": "not valid"}),
            format!("spec.externalName: Invalid value: \"not valid\": {SUBDOMAIN}"),
        ),
        (
            json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}),
            format!("spec.ports[1]: Duplicate value: {twice}"),
        ),
        (
            json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}]}),
            String::new(),
        ),
        (
            json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]}),
            format!("spec.LoadBalancerSourceRanges: {only_balanced}"),
        ),
        (
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0", " 192.0.2.0/24 ", "192.0.2.1/24"]}),
            format!(
                "[spec.LoadBalancerSourceRanges[0]: Invalid value: \"192.0.2.0\": {CIDR}, spec.LoadBalancerSourceRanges[2]: \
                 Invalid value: \"192.0.2.1/24\": must not have bits set beyond the prefix length]"
            ),
        ),
        (
            json!({"trafficDistribution": "Nearest"}),
            "spec.trafficDistribution: Unsupported value: \"Nearest\": supported values: \"PreferClose\", \
             \"PreferSameZone\", \"PreferSameNode\""
                .to_owned(),
        ),
        (
            json!({"selector": {"a b": "c"}}),
            "spec.selector: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
             validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        ),
        (
            json!({"type": "NodePort", "ports": [
                {"name": "a", "port": 80, "nodePort": 31502}, {"name": "b", "port": 81, "nodePort": 31502},
            ]}),
            "spec.ports[1].nodePort: Invalid value: 31502: provided port is already allocated".to_owned(),
        ),
        (
            json!({"clusterIP": "192.0.2.1"}),
            "spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: the provided network does not \
             match the current range"
                .to_owned(),
        ),
    ] {
        assert_eq!(said(service(spec.clone())), expected, "{spec}");
    }
    // Annotations that older versions had for fields.
    let mut ranges = service(json!({}));
    ranges["metadata"]["annotations"] =
        json!({"service.beta.kubernetes.io/load-balancer-source-ranges": "192.0.2.0"});
    let field = "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]";
    let expected =
        format!("[{field}: {only_balanced}, {field}: Invalid value: \"192.0.2.0\": {CIDR}]");
    assert_eq!(said(ranges), expected);
    let mut hints = service(json!({}));
    let (mode, old) = (
        "service.kubernetes.io/topology-mode",
        "service.kubernetes.io/topology-aware-hints",
    );
    hints["metadata"]["annotations"] = json!({mode: "Auto", old: "Disabled"});
    let expected = format!(
        "metadata.annotations[{mode}]: Invalid value: \"Auto\": must match annotations[{old}] when both are specified"
    );
    assert_eq!(said(hints), expected);
}

/// What a later version of a Service may have, although a new one may not.
#[test]
fn what_a_service_had_may_stay() {
    let mut admission = admission();
    let mut old = service("10.96.0.9");
    old["spec"]["type"] = "LoadBalancer".into();
    old["spec"]["externalIPs"] = json!(["010.0.0.1"]);
    old["spec"]["loadBalancerSourceRanges"] = json!(["192.0.2.1/24"]);
    let mut cidr = cidr("first", RANGE);
    admission.admit(None, &mut cidr).unwrap();
    let mut new = old.clone();
    new["spec"]["ports"][0]["port"] = 81.into();
    admission.admit(Some(&old), &mut new.clone()).unwrap();
    admission.admit(None, &mut new.clone()).unwrap_err();
}

/// A range that is full is no fault of the Service (`apierrors.NewInternalError` in
/// `pkg/registry/core/service/storage/alloc.go`).
#[test]
fn of_full_ranges() {
    let store = Store::new(Settings {
        admission: Box::new(admission()),
        ..Settings::default()
    });
    let service = |name: &str, spec: Value| {
        let mut made = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        made["spec"]["ports"] = json!([{"port": 80}]);
        store.create(made)
    };
    let said = |status: Status| {
        let body = status.body();
        let cause = &body["details"]["causes"][0]["message"];
        (
            status.code.as_u16(),
            status.reason(),
            format!("{} | {cause}", body["message"]),
        )
    };
    // Two addresses are for Services.
    store.create(cidr("first", "10.96.0.0/30")).unwrap();
    service("a", json!({})).unwrap();
    service("b", json!({})).unwrap();
    let why = r#"failed to allocate a serviceIP for Service \"c\": range is full"#;
    let expected = format!("\"Internal error occurred: {why}\" | \"{why}\"");
    let refused = service("c", json!({})).unwrap_err();
    assert_eq!(said(refused), (500, "InternalError", expected));
}
