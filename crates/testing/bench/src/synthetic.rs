//! Clusters of any size, always with the same objects.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

use sluice_model::{
    Change, EndpointPort, EndpointSlice, Protocol, Service, ServiceKind, ServicePort,
};
use sluice_plan::Event;

/// Endpoints of each Service.
pub(super) const ENDPOINTS: u32 = 10;

/// Port that endpoints listen on.
pub(super) const ENDPOINT_PORT: u16 = 8080;

/// Port of every Service.
pub(super) const SERVICE_PORT: u16 = 80;

/// First ClusterIP: 10.96.0.0 + 1.
const FIRST_CLUSTER_IP: u32 = 0x0a60_0001;

/// First endpoint address: 100.64.0.1, in a range without addresses of the lab.
const FIRST_ENDPOINT: u32 = 0x6440_0001;

/// The ClusterIP of Service `index`.
pub(super) fn cluster_ip(index: u32) -> IpAddr {
    Ipv4Addr::from(FIRST_CLUSTER_IP + index).into()
}

/// Endpoint `number` of Service `index`.
pub(super) fn endpoint(index: u32, number: u32) -> IpAddr {
    Ipv4Addr::from(FIRST_ENDPOINT + index * 16 + number).into()
}

/// Service `index`: one TCP port 80.
pub(super) fn service(index: u32) -> Event {
    Event::Service(Change::Set(Arc::new(service_object(index))))
}

/// The same as an object, to be changed.
pub(super) fn service_object(index: u32) -> Service {
    let ip = cluster_ip(index);
    sluice_objects::service(&format!("svc-{index} {ip} http:{SERVICE_PORT}"))
}

/// The slice of Service `index`, with these addresses.
pub(super) fn slice(index: u32, addresses: &[IpAddr]) -> Event {
    Event::EndpointSlice(Change::Set(Arc::new(slice_object(index, addresses))))
}

/// The same as an object, to be changed.
pub(super) fn slice_object(index: u32, addresses: &[IpAddr]) -> EndpointSlice {
    let endpoints: Vec<String> = addresses
        .iter()
        .enumerate()
        .map(|(number, address)| format!("{address}@node-b*web-{index}-{number}"))
        .collect();
    let (name, port) = (format!("svc-{index}"), format!("http:{ENDPOINT_PORT}"));
    sluice_objects::slice(&name, &name, &port, &endpoints.join(" "))
}

/// Service `index` with a port of TCP and one of UDP, also on every node, and its slice with one endpoint.
pub(super) fn exposed(
    index: u32,
    node_port: NonZeroU16,
    endpoint: IpAddr,
    node: &str,
) -> [Event; 2] {
    let mut service = service_object(index);
    service.kind = ServiceKind::NodePort;
    service.ports[0].node_port = Some(node_port);
    let datagrams = ServicePort {
        name: "datagrams".into(),
        protocol: Protocol::Udp,
        ..service.ports[0].clone()
    };
    service.ports.push(datagrams);
    let mut slice = slice_object(index, &[endpoint]);
    slice.endpoints[0].node = Some(node.into());
    let datagrams = EndpointPort {
        name: "datagrams".into(),
        protocol: Protocol::Udp,
        ..slice.ports[0].clone()
    };
    slice.ports.push(datagrams);
    [
        Event::Service(Change::Set(Arc::new(service))),
        Event::EndpointSlice(Change::Set(Arc::new(slice))),
    ]
}

/// The addresses of the first `count` endpoints of Service `index`.
pub(super) fn addresses(index: u32, count: u32) -> Vec<IpAddr> {
    (0..count).map(|number| endpoint(index, number)).collect()
}

/// All Services and slices of a cluster, and the end of the first list.
pub(super) fn cluster(services: u32) -> Vec<Event> {
    let all = (0..services).flat_map(|index| {
        let addresses = addresses(index, ENDPOINTS);
        [service(index), slice(index, &addresses)]
    });
    all.chain([Event::SYNCED]).collect()
}

/// A manifest of Service `index` and its slice. The first endpoint is that of number `first`.
pub(super) fn manifest(index: u32, first: u32) -> String {
    let name = format!("svc-{index}");
    let mut text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  clusterIP: {ip}\n  clusterIPs: [{ip}]\n  ports: [{{name: http, port: 80}}]\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata:\n  name: {name}\n  namespace: default\n  \
         labels: {{kubernetes.io/service-name: {name}}}\n\
         addressType: IPv4\nports: [{{name: http, port: {ENDPOINT_PORT}}}]\nendpoints:\n",
        ip = cluster_ip(index),
    );
    for number in [first].into_iter().chain(1..ENDPOINTS) {
        text += &format!(
            "- {{addresses: [{}], nodeName: node-b, conditions: {{ready: true}}}}\n",
            endpoint(index, number)
        );
    }
    text + "---\n"
}
