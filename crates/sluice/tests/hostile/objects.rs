//! Manifests of the hostile tenant.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

/// Older than every other Service.
const OLD: &str = "2020-01-01T00:00:00Z";
/// Younger than every other Service.
pub(crate) const YOUNG: &str = "2026-01-01T00:00:00Z";

/// The address after `base`, `number` further.
pub(crate) fn ip(base: [u8; 4], number: usize) -> String {
    let number = u32::try_from(number).expect("few addresses");
    Ipv4Addr::from(u32::from(Ipv4Addr::from(base)) + number).to_string()
}

/// Addresses from `base` on.
pub(crate) fn ips(base: [u8; 4], count: usize) -> Vec<String> {
    (0..count).map(|it| ip(base, it)).collect()
}

/// Addresses of endpoints: no machine has them.
pub(crate) fn endpoints(count: usize) -> Vec<String> {
    ips([10, 245, 0, 1], count)
}

/// TCP ports 1 to `count`.
pub(crate) fn ports(count: usize) -> Value {
    let port = |it| json!({"name": format!("p{it}"), "port": it});
    (1..=count).map(port).collect()
}

/// One TCP port 80 without a name.
pub(crate) fn port_80() -> Value {
    json!([{"name": "", "port": 80}])
}

/// Ranges of 256 addresses, none beside another.
pub(crate) fn ranges(count: usize) -> Vec<String> {
    let range = |it| format!("{}/24", ip([11, 0, 0, 0], 512 * it));
    (0..count).map(range).collect()
}

/// The older Service of this name, with these fields besides.
pub(crate) fn service(name: &str, number: usize, ports: &Value, fields: Value) -> Value {
    let mut spec = json!({"clusterIP": ip([10, 96, 64, 0], number), "ports": ports});
    merge(&mut spec, fields);
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "hostile", "creationTimestamp": OLD},
        "spec": spec,
    })
}

/// A LoadBalancer with these addresses.
pub(crate) fn load_balancer(number: usize, ports: &Value, ips: &[String], fields: Value) -> Value {
    let mut service = service(&format!("lb-{number}"), number, ports, fields);
    service["spec"]["type"] = json!("LoadBalancer");
    let ingress: Value = ips.iter().map(|it| json!({"ip": it})).collect();
    service["status"] = json!({"loadBalancer": {"ingress": ingress}});
    service
}

/// The same Service, but younger.
pub(crate) fn younger(mut service: Value) -> Value {
    service["metadata"]["creationTimestamp"] = json!(YOUNG);
    service
}

/// A slice of a Service; it has the numbers and names of the Service's ports.
pub(crate) fn slice(service: &str, number: usize, ports: &Value, addresses: &[String]) -> Value {
    let endpoints: Value = addresses
        .iter()
        .map(|it| json!({"addresses": [it]}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("{service}-{number}"), "namespace": "hostile",
            "labels": {"kubernetes.io/service-name": service},
        },
        "ports": ports, "endpoints": endpoints,
    })
}

/// A Service and its slices of at most 1,000 endpoints.
pub(crate) fn served(service: Value, addresses: &[String]) -> Vec<Value> {
    let name = service["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let mut ports = service["spec"]["ports"].clone();
    for port in ports.as_array_mut().into_iter().flatten() {
        let port = port.as_object_mut().expect("a port");
        // Fields that the ports of slices do not have.
        port.remove("nodePort");
        port.remove("targetPort");
    }
    let slices = addresses.chunks(1000).enumerate();
    let slices = slices.map(|(number, it)| slice(&name, number, &ports, it));
    let slices: Vec<Value> = slices.collect();
    [service].into_iter().chain(slices).collect()
}

fn merge(into: &mut Value, fields: Value) {
    if let (Value::Object(into), Value::Object(fields)) = (into, fields) {
        into.extend(fields);
    }
}
