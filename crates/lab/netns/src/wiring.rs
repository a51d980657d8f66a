//! Devices, addresses and routes: one function for each namespace, on a connection to it.
//!
//! The two ends of a veth pair must have different interface indexes, so host ends have high ones. See
//! [`Kind::Veth`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sluice_netlink::RequestError;
use sluice_route::{
    Address, Bridge, Connection, Hop, Kind, Mac, Neighbour, Port, Route, Settings, Tunnel, Vxlan,
};

use crate::{
    Attach, Client, Netns, Node, Pod, PodNetwork,
    address::{
        BLACK_HOLE, LAN_CIDR_V4, LAN_CIDR_V6, LOAD_BALANCER_CIDR_V4, LOAD_BALANCER_CIDR_V6,
        SERVICE_CIDR_V4, SERVICE_CIDR_V6, lan_v4, lan_v6, pod_cidr_v4, pod_cidr_v6, pod_v4, pod_v6,
    },
};

/// The MAC address of every host end of a routed pod, as in Calico, and of each node's `cni0`.
///
/// A bridge without a fixed MAC address changes it with its ports, and neighbour entries go stale.
const HOST_MAC: Mac = Mac([0xee; 6]);
/// The MAC address of the nodes' default gateway; no machine has it.
const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Where routed pods send everything. Their neighbour entries are permanent: no machine has to answer for these.
const POD_GATEWAYS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
];
/// Interface index of the first port of the LAN, and of the first host end in a node.
const FIRST_PORT: u32 = 100;
/// The overlay's number and port: those of flannel.
const VXLAN_ID: u32 = 1;
const VXLAN_PORT: u16 = 8472;
/// What fits into 1,500 bytes with the outer headers.
const VXLAN_MTU: u32 = 1450;
const UP: Settings<'static> = Settings {
    index: None,
    mac: None,
    mtu: None,
    master: None,
    up: Some(true),
    namespace: None,
};

type Wired = Result<(), RequestError>;

/// Names of the first `count` ports of the LAN.
pub(crate) fn lan_ports(count: usize) -> Vec<String> {
    (0..).take(count).map(lan_port_name).collect()
}

/// The name of a port of the LAN.
pub(crate) fn lan_port_name(position: u32) -> String {
    format!("port{position}")
}

/// The bridge, and a port for each of `netnses`, where the other end is `eth0`.
pub(crate) fn lan<'a>(net: &mut Connection, netnses: impl Iterator<Item = &'a Netns>) -> Wired {
    net.set("lo", &UP)?;
    net.create("br0", &bridge(), &UP)?;
    let mut ports = (0..).zip(netnses);
    ports.try_for_each(|(position, netns)| lan_port(net, position, netns))
}

/// Replaces the addresses of the LAN itself, which host number `host` stands for.
pub(crate) fn lan_addresses(net: &mut Connection, host: u8) -> Wired {
    let index = net.index("br0")?;
    let v4 = (IpAddr::V4(lan_v4(host)), LAN_CIDR_V4.prefix_len());
    let v6 = (IpAddr::V6(lan_v6(host)), LAN_CIDR_V6.prefix_len());
    [v4, v6].into_iter().try_for_each(|(ip, prefix)| {
        net.replace(&Address {
            prefix,
            ..Address::new(index, ip)
        })
    })
}

/// Replaces the routes from the LAN itself to the pods of `node`.
pub(crate) fn lan_routes(net: &mut Connection, node: &Node) -> Wired {
    let cidrs = [
        pod_cidr_v4(node.position).into(),
        pod_cidr_v6(node.position).into(),
    ];
    cidrs
        .into_iter()
        .try_for_each(|it| route_over(net, "br0", it, node))
}

/// One port of the LAN; the other end is `eth0` of `netns`.
pub(crate) fn lan_port(net: &mut Connection, position: u32, netns: &Netns) -> Wired {
    let port = Settings {
        index: Some(FIRST_PORT + position),
        master: Some(net.index("br0")?),
        ..UP
    };
    net.create(&lan_port_name(position), &to_eth0(netns), &port)
}

pub(crate) fn node(
    net: &mut Connection,
    node: &Node,
    others: &[Node],
    attach: Attach,
    network: PodNetwork,
) -> Wired {
    on_lan(net, node.host())?;
    let eth0 = net.index("eth0")?;
    for gateway in [IpAddr::from(lan_v4(BLACK_HOLE)), lan_v6(BLACK_HOLE).into()] {
        net.add(&Neighbour::permanent(eth0, gateway, GATEWAY_MAC))?;
        net.add(&Route::default_via(eth0, gateway))?;
    }
    if network == PodNetwork::Vxlan {
        let settings = Settings {
            mac: Some(vxlan_mac(node.position)),
            mtu: Some(VXLAN_MTU),
            ..UP
        };
        let tunnel = Kind::Vxlan(Vxlan::new(None, VXLAN_PORT));
        net.create("vxlan0", &tunnel, &settings)?;
    }
    for other in others {
        if other.position != node.position {
            to_node_pods(net, other, network)?;
        }
    }
    if attach == Attach::Bridged {
        let mac = Settings {
            mac: Some(HOST_MAC),
            ..UP
        };
        net.create("cni0", &bridge(), &mac)?;
        address(net, "cni0", pod_v4(node.position, 1).into(), 24)?;
        address(net, "cni0", pod_v6(node.position, 1).into(), 64)?;
    }
    Ok(())
}

/// The route from another node, or a route of the overlay, to the pods of `node`.
pub(crate) fn to_node_pods(net: &mut Connection, node: &Node, network: PodNetwork) -> Wired {
    if network == PodNetwork::HostGw {
        return to_pods_of(net, node);
    }
    let vxlan = net.index("vxlan0")?;
    // The first address of the pods stands for the node's end of the tunnel, as in flannel.
    let (v4, v6) = (pod_v4(node.position, 0), pod_v6(node.position, 0));
    let (cidr_v4, cidr_v6) = (pod_cidr_v4(node.position), pod_cidr_v6(node.position));
    for (cidr, gateway) in [
        (IpNet::from(cidr_v4), IpAddr::from(v4)),
        (cidr_v6.into(), v6.into()),
    ] {
        let mac = vxlan_mac(node.position);
        net.replace(&Neighbour::permanent(vxlan, gateway, mac))?;
        let hop = Hop {
            onlink: true,
            tunnel: Some(Tunnel {
                id: VXLAN_ID.into(),
                to: node.ipv4().into(),
            }),
            ..Hop::via(vxlan, gateway)
        };
        net.replace(&Route::new(cidr, hop))?;
    }
    Ok(())
}

/// Different on each node: a VXLAN device drops what carries its own.
const fn vxlan_mac(position: u8) -> Mac {
    Mac([0x0e, 0, 0, 0, 0, position])
}

/// Adds the veth pair of a pod and configures the node's end; nothing with the host network.
pub(crate) fn host_end(net: &mut Connection, node: &Node, pod: &Pod, attach: Attach) -> Wired {
    let (Some(name), Some(host)) = (pod.host_interface(), pod.host) else {
        return Ok(());
    };
    let index = FIRST_PORT + u32::from(host);
    let settings = Settings {
        index: Some(index),
        ..UP
    };
    match attach {
        Attach::Routed => {
            let settings = Settings {
                mac: Some(HOST_MAC),
                ..settings
            };
            net.create(&name, &to_eth0(pod.netns()), &settings)?;
            let mut ips = [IpAddr::from(pod.ipv4()), pod.ipv6().into()].into_iter();
            ips.try_for_each(|ip| net.add(&pod_route(index, ip.into(), node)))
        }
        Attach::Bridged => {
            let settings = Settings {
                master: Some(net.index("cni0")?),
                ..settings
            };
            net.create(&name, &to_eth0(pod.netns()), &settings)?;
            let port = Port {
                hairpin: Some(true),
                ..Port::default()
            };
            net.set_port(&name, &port)
        }
    }
}

pub(crate) fn pod(
    net: &mut Connection,
    pod: &Pod,
    node: &Node,
    attach: Attach,
    network: PodNetwork,
) -> Wired {
    net.set("lo", &UP)?;
    let settings = Settings {
        mtu: (network == PodNetwork::Vxlan).then_some(VXLAN_MTU),
        ..UP
    };
    net.set("eth0", &settings)?;
    let (prefix_v4, prefix_v6) = match attach {
        Attach::Routed => (32, 128),
        Attach::Bridged => (24, 64),
    };
    address(net, "eth0", pod.ipv4().into(), prefix_v4)?;
    address(net, "eth0", pod.ipv6().into(), prefix_v6)?;
    let eth0 = net.index("eth0")?;
    let gateways = match attach {
        Attach::Routed => {
            net.add(&Route::new(POD_GATEWAYS[0], Hop::on(eth0)))?;
            for gateway in POD_GATEWAYS {
                net.add(&Neighbour::permanent(eth0, gateway, HOST_MAC))?;
            }
            POD_GATEWAYS
        }
        Attach::Bridged => [
            pod_v4(node.position, 1).into(),
            pod_v6(node.position, 1).into(),
        ],
    };
    let mut gateways = gateways.into_iter();
    gateways.try_for_each(|it| net.add(&Route::default_via(eth0, it)))
}

pub(crate) fn client(net: &mut Connection, client: &Client, nodes: &[Node]) -> Wired {
    on_lan(net, client.host())?;
    let mut nodes = nodes.iter().enumerate();
    nodes.try_for_each(|(position, node)| client_routes(net, node, position == 0))
}

/// The routes of a client to the pods of a node, and to all Services through the first one.
pub(crate) fn client_routes(net: &mut Connection, node: &Node, first: bool) -> Wired {
    to_pods_of(net, node)?;
    if first {
        for cidr in [SERVICE_CIDR_V4, LOAD_BALANCER_CIDR_V4] {
            route_via(net, cidr.into(), node)?;
        }
        for cidr in [SERVICE_CIDR_V6, LOAD_BALANCER_CIDR_V6] {
            route_via(net, cidr.into(), node)?;
        }
    }
    Ok(())
}

/// One more address of a pod.
pub(crate) fn pod_address(net: &mut Connection, ip: IpAddr) -> Wired {
    let eth0 = net.index("eth0")?;
    net.replace(&Address::new(eth0, ip))
}

/// Replaces the route to an address of a routed pod: through the node's end of its veth pair.
pub(crate) fn route_to_pod(net: &mut Connection, interface: &str, to: IpNet, node: &Node) -> Wired {
    let index = net.index(interface)?;
    net.replace(&pod_route(index, to, node))
}

fn pod_route(interface: u32, to: IpNet, node: &Node) -> Route {
    Route {
        source: Some(node.address_for(to)),
        ..Route::new(to, Hop::on(interface))
    }
}

/// Replaces the route to `cidr`: through `node`.
pub(crate) fn route_via(net: &mut Connection, cidr: IpNet, node: &Node) -> Wired {
    route_over(net, "eth0", cidr, node)
}

fn route_over(net: &mut Connection, interface: &str, cidr: IpNet, node: &Node) -> Wired {
    let hop = Hop::via(net.index(interface)?, node.address_for(cidr));
    net.replace(&Route::new(cidr, hop))
}

/// One more address, which the kernel never chooses as a source address.
pub(crate) fn extra_address(net: &mut Connection, ip: IpAddr) -> Wired {
    // Deprecated addresses are the last resort of source selection (RFC 6724, rule 3).
    let address = Address {
        is_deprecated: ip.is_ipv6(),
        ..Address::new(net.index("eth0")?, ip)
    };
    net.add(&address)
}

fn on_lan(net: &mut Connection, host: u8) -> Wired {
    net.set("lo", &UP)?;
    net.set("eth0", &UP)?;
    address(net, "eth0", lan_v4(host).into(), 24)?;
    address(net, "eth0", lan_v6(host).into(), 64)
}

fn to_pods_of(net: &mut Connection, node: &Node) -> Wired {
    route_via(net, pod_cidr_v4(node.position).into(), node)?;
    route_via(net, pod_cidr_v6(node.position).into(), node)
}

fn address(net: &mut Connection, interface: &str, ip: IpAddr, prefix: u8) -> Wired {
    let address = Address {
        prefix,
        ..Address::new(net.index(interface)?, ip)
    };
    net.add(&address)
}

/// Forwards at once, and multicast to all.
fn bridge() -> Kind<'static> {
    Kind::Bridge(Bridge::default())
}

/// A veth pair whose other end is `eth0` of `netns`.
fn to_eth0(netns: &Netns) -> Kind<'_> {
    Kind::Veth {
        peer: "eth0",
        settings: Settings {
            namespace: Some(netns.namespace()),
            ..Settings::default()
        },
    }
}
