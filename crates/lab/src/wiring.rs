//! Devices, addresses and routes, as batches for `ip`: pure text, one batch per namespace.
//!
//! The two ends of a veth pair must have different interface indexes, so host ends have high ones.
//! With equal indexes the kernel takes the veth for a device without a peer, whose carrier changes
//! are not urgent (`linkwatch_urgent_event`), and drops its packets for up to one second.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{
    Attach, Client, Netns, Node, Pod, PodNetwork,
    address::{
        BLACK_HOLE, LOAD_BALANCER_CIDR_V4, LOAD_BALANCER_CIDR_V6, SERVICE_CIDR_V4, SERVICE_CIDR_V6,
        lan_v4, lan_v6, pod_cidr_v4, pod_cidr_v6, pod_v4, pod_v6,
    },
    batch::Batch,
};

/// The MAC address of every host end of a routed pod, as in Calico, and of each node's `cni0`.
///
/// A bridge without a fixed MAC address changes it with its ports, and neighbour entries go stale.
const HOST_MAC: &str = "ee:ee:ee:ee:ee:ee";
/// The MAC address of the nodes' default gateway; no machine has it.
const GATEWAY_MAC: &str = "02:00:00:00:00:01";
/// Interface index of the first port of the LAN, and of the first host end in a node.
const FIRST_PORT: u32 = 100;
/// The overlay's number and port: those of flannel.
const VXLAN_ID: u32 = 1;
const VXLAN_PORT: u16 = 8472;
/// What fits into 1,500 bytes with the outer headers.
const VXLAN_MTU: u32 = 1450;
const BRIDGE_OPTIONS: &str = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0";

/// Names of the first `count` ports of the LAN.
pub(crate) fn lan_ports(count: usize) -> Vec<String> {
    (0..count)
        .map(|position| format!("port{position}"))
        .collect()
}

/// The bridge, and a port for each of `netnses`, where the other end is `eth0`.
pub(crate) fn lan<'a>(netnses: impl Iterator<Item = &'a str>) -> Batch {
    let mut batch = Batch::default();
    batch.push("link set lo up");
    batch.push(format!("link add br0 {BRIDGE_OPTIONS}"));
    batch.push("link set br0 up");
    for (position, netns) in (0..).zip(netnses) {
        lan_port(&mut batch, position, netns);
    }
    batch
}

/// One port of the LAN; the other end is `eth0` of `netns`.
pub(crate) fn lan_port(batch: &mut Batch, position: u32, netns: &str) {
    let index = FIRST_PORT + position;
    batch.push(format!(
        "link add port{position} index {index} type veth peer name eth0 netns {netns}"
    ));
    batch.push(format!("link set port{position} master br0 up"));
}

pub(crate) fn node(node: &Node, others: &[Node], attach: Attach, network: PodNetwork) -> Batch {
    let mut batch = on_lan(node.host());
    let (void_v4, void_v6) = (lan_v4(BLACK_HOLE), lan_v6(BLACK_HOLE));
    for gateway in [IpAddr::from(void_v4), void_v6.into()] {
        batch.push(format!(
            "neigh add {gateway} lladdr {GATEWAY_MAC} dev eth0 nud permanent"
        ));
        batch.push(format!("route add default via {gateway} dev eth0"));
    }
    if network == PodNetwork::Vxlan {
        let mac = vxlan_mac(node.position);
        batch.push(format!(
            "link add vxlan0 address {mac} mtu {VXLAN_MTU} type vxlan external dstport {VXLAN_PORT}"
        ));
        batch.push("link set vxlan0 up");
    }
    for other in others
        .iter()
        .filter(|other| other.position != node.position)
    {
        to_node_pods(other, network, &mut batch);
    }
    if attach == Attach::Bridged {
        batch.push(format!("link add cni0 address {HOST_MAC} {BRIDGE_OPTIONS}"));
        batch.push("link set cni0 up");
        batch.push(format!("addr add {}/24 dev cni0", pod_v4(node.position, 1)));
        batch.push(format!(
            "addr add {}/64 dev cni0 nodad",
            pod_v6(node.position, 1)
        ));
    }
    batch
}

/// The route from another node, or a route of the overlay, to the pods of `node`.
pub(crate) fn to_node_pods(node: &Node, network: PodNetwork, batch: &mut Batch) {
    if network == PodNetwork::HostGw {
        return to_pods_of(node, batch);
    }
    let (outer, mac) = (node.ipv4(), vxlan_mac(node.position));
    // The first address of the pods stands for the node's end of the tunnel, as in flannel.
    let (v4, v6) = (pod_v4(node.position, 0), pod_v6(node.position, 0));
    let (cidr_v4, cidr_v6) = (pod_cidr_v4(node.position), pod_cidr_v6(node.position));
    for (cidr, gateway) in [
        (IpNet::from(cidr_v4), IpAddr::from(v4)),
        (cidr_v6.into(), v6.into()),
    ] {
        batch.push(format!(
            "neigh replace {gateway} lladdr {mac} dev vxlan0 nud permanent"
        ));
        batch.push(format!(
            "route replace {cidr} encap ip id {VXLAN_ID} dst {outer} via {gateway} dev vxlan0 onlink"
        ));
    }
}

/// Different on each node: a VXLAN device drops what carries its own.
fn vxlan_mac(position: u8) -> String {
    format!("0e:00:00:00:00:{position:02x}")
}

/// Adds the veth pair of a pod and configures the node's end; nothing with the host network.
pub(crate) fn host_end(batch: &mut Batch, node: &Node, pod: &Pod, attach: Attach) {
    let (Some(name), Some(host)) = (pod.host_interface(), pod.host) else {
        return;
    };
    let netns = pod.netns().name();
    let mac = match attach {
        Attach::Routed => format!("address {HOST_MAC} "),
        Attach::Bridged => String::new(),
    };
    let index = FIRST_PORT + u32::from(host);
    batch.push(format!(
        "link add {name} index {index} {mac}type veth peer name eth0 netns {netns}"
    ));
    match attach {
        Attach::Routed => {
            batch.push(format!("link set {name} up"));
            batch.push(format!(
                "route add {}/32 dev {name} src {}",
                pod.ipv4(),
                node.ipv4()
            ));
            batch.push(format!(
                "route add {}/128 dev {name} src {}",
                pod.ipv6(),
                node.ipv6()
            ));
        }
        Attach::Bridged => {
            batch.push(format!("link set {name} master cni0 up"));
            batch.push(format!("link set {name} type bridge_slave hairpin on"));
        }
    }
}

pub(crate) fn pod(pod: &Pod, node: &Node, attach: Attach, network: PodNetwork) -> Batch {
    let mut batch = Batch::default();
    batch.push("link set lo up");
    batch.push("link set eth0 up");
    if network == PodNetwork::Vxlan {
        batch.push(format!("link set eth0 mtu {VXLAN_MTU}"));
    }
    let (prefix_v4, prefix_v6) = match attach {
        Attach::Routed => (32, 128),
        Attach::Bridged => (24, 64),
    };
    batch.push(format!("addr add {}/{prefix_v4} dev eth0", pod.ipv4()));
    batch.push(format!(
        "addr add {}/{prefix_v6} dev eth0 nodad",
        pod.ipv6()
    ));
    match attach {
        Attach::Routed => {
            // The neighbour entries are permanent: no machine has to answer for 169.254.1.1 or fe80::1.
            batch.push("route add 169.254.1.1 dev eth0 scope link");
            for gateway in ["169.254.1.1", "fe80::1"] {
                batch.push(format!(
                    "neigh add {gateway} lladdr {HOST_MAC} dev eth0 nud permanent"
                ));
                batch.push(format!("route add default via {gateway} dev eth0"));
            }
        }
        Attach::Bridged => {
            batch.push(format!(
                "route add default via {} dev eth0",
                pod_v4(node.position, 1)
            ));
            batch.push(format!(
                "route add default via {} dev eth0",
                pod_v6(node.position, 1)
            ));
        }
    }
    batch
}

pub(crate) fn client(client: &Client, nodes: &[Node]) -> Batch {
    let mut batch = on_lan(client.host());
    for (position, node) in nodes.iter().enumerate() {
        client_routes(&mut batch, node, position == 0);
    }
    batch
}

/// The routes of a client to the pods of a node, and to all Services through the first one.
pub(crate) fn client_routes(batch: &mut Batch, node: &Node, first: bool) {
    to_pods_of(node, batch);
    if first {
        for cidr in [SERVICE_CIDR_V4, LOAD_BALANCER_CIDR_V4] {
            batch.push(route_via(cidr.into(), node));
        }
        for cidr in [SERVICE_CIDR_V6, LOAD_BALANCER_CIDR_V6] {
            batch.push(route_via(cidr.into(), node));
        }
    }
}

/// One more address of a routed pod: in the pod, and as a route on every other machine.
pub(crate) fn pod_address<'a>(
    pod: &'a Pod,
    home: &'a Node,
    ip: IpAddr,
    nodes: &'a [Node],
    clients: &'a [Client],
) -> Vec<(&'a Netns, Batch)> {
    let (net, source) = (IpNet::from(ip), home.address_for(ip.into()));
    let one = |line: String| {
        let mut batch = Batch::default();
        batch.push(line);
        batch
    };
    let mut batches = vec![(pod.netns(), one(format!("addr replace {net} dev eth0")))];
    if let Some(interface) = pod.host_interface() {
        let route = format!("route replace {net} dev {interface} src {source}");
        batches.push((home.netns(), one(route)));
    }
    let others = nodes.iter().filter(|it| it.position != home.position);
    let others = others
        .map(Node::netns)
        .chain(clients.iter().map(Client::netns));
    batches.extend(others.map(|it| (it, one(route_via(net, home)))));
    batches
}

/// Replaces the route to `cidr`: through `node`.
pub(crate) fn route_via(cidr: IpNet, node: &Node) -> String {
    format!(
        "route replace {cidr} via {} dev eth0",
        node.address_for(cidr)
    )
}

/// One more address, which the kernel never chooses as a source address.
pub(crate) fn extra_address(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("addr add {ip}/32 dev eth0"),
        // Deprecated addresses are the last resort of source selection (RFC 6724, rule 3).
        IpAddr::V6(ip) => format!("addr add {ip}/128 dev eth0 nodad preferred_lft 0"),
    }
}

fn on_lan(host: u8) -> Batch {
    let mut batch = Batch::default();
    batch.push("link set lo up");
    batch.push("link set eth0 up");
    batch.push(format!("addr add {}/24 dev eth0", lan_v4(host)));
    batch.push(format!("addr add {}/64 dev eth0 nodad", lan_v6(host)));
    batch
}

fn to_pods_of(node: &Node, batch: &mut Batch) {
    batch.push(route_via(pod_cidr_v4(node.position).into(), node));
    batch.push(route_via(pod_cidr_v6(node.position).into(), node));
}
