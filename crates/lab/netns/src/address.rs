//! Addresses of the cluster: pure functions of the positions of nodes, pods and clients.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The LAN of nodes and external clients.
pub const LAN_CIDR_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 100, 0), 24);
/// The LAN of nodes and external clients.
pub const LAN_CIDR_V6: Ipv6Net = Ipv6Net::new_assert(lan_v6(0), 64);
/// All pods of a cluster; each node has one /24 of this range.
pub const CLUSTER_CIDR_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16);
/// All pods of a cluster; each node has one /64 of this range.
pub const CLUSTER_CIDR_V6: Ipv6Net = Ipv6Net::new_assert(pod_v6(0, 0), 56);
/// ClusterIPs. No machine has an address of this range: rules on the nodes translate them.
pub const SERVICE_CIDR_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 16);
/// ClusterIPs. No machine has an address of this range: rules on the nodes translate them.
pub const SERVICE_CIDR_V6: Ipv6Net =
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0), 112);
/// Addresses of load balancers: of the LAN, above nodes and usual clients. No machine has one of them.
pub const LOAD_BALANCER_CIDR_V4: Ipv4Net =
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 100, 208), 28);
/// Addresses of load balancers: of the LAN, above nodes and usual clients. No machine has one of them.
pub const LOAD_BALANCER_CIDR_V6: Ipv6Net =
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0, 0xd0), 124);

/// Host part of the nodes' default gateway, an address that no machine has.
pub(crate) const BLACK_HOLE: u8 = 1;
/// Host part of the first node.
pub const FIRST_NODE: u8 = 10;
/// Host part of the first external client.
pub const FIRST_CLIENT: u8 = 100;
/// Host part of the first pod of a node; 1 is the node's bridge.
pub const FIRST_POD: u8 = 2;
/// Host part of the last pod or client.
pub(crate) const LAST_HOST: u8 = 254;

/// Pods that get the last free address are held from here on, as long as others leave room.
pub(crate) const LAST_PODS: u8 = 240;

/// Address of host `host` on the LAN.
pub const fn lan_v4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 100, host)
}

/// Address of host `host` on the LAN.
pub const fn lan_v6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0, host as u16)
}

/// Address of host `host` among the pods of the node at position `node`.
pub const fn pod_v4(node: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, node, host)
}

/// Address of host `host` among the pods of the node at position `node`.
pub const fn pod_v6(node: u8, host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x10, 0x244, node as u16, 0, 0, 0, host as u16)
}

/// The pods of the node at position `node`.
pub const fn pod_cidr_v4(node: u8) -> Ipv4Net {
    Ipv4Net::new_assert(pod_v4(node, 0), 24)
}

/// The pods of the node at position `node`.
pub const fn pod_cidr_v6(node: u8) -> Ipv6Net {
    Ipv6Net::new_assert(pod_v6(node, 0), 64)
}

/// The host part for the next pod: the first after `last` that is not in `used`, then from the
/// first again; `None` when all are used.
///
/// The address of a removed pod is reused as late as possible, as CNI address plugins do.
pub(crate) fn next_host(last: u8, used: &[u8]) -> Option<u8> {
    (last.saturating_add(1)..=LAST_HOST)
        .chain(FIRST_POD..=last)
        .find(|host| !used.contains(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_the_same_host_numbers() {
        assert_eq!(lan_v6(FIRST_NODE + 1).to_string(), "fd00:100::b");
        assert_eq!(lan_v6(FIRST_CLIENT).to_string(), "fd00:100::64");
        assert_eq!(pod_cidr_v6(3).to_string(), "fd00:10:244:3::/64");
        assert!(CLUSTER_CIDR_V6.contains(&pod_cidr_v6(90)));
        assert!(CLUSTER_CIDR_V4.contains(&pod_cidr_v4(90)));
        assert_eq!(SERVICE_CIDR_V6.to_string(), "fd00:10:96::/112");
    }

    #[test]
    fn pod_addresses_are_reused_as_late_as_possible() {
        assert_eq!(next_host(1, &[]), Some(2));
        assert_eq!(next_host(4, &[2, 4]), Some(5));
        assert_eq!(next_host(253, &[2, 254]), Some(3));
        let all: Vec<u8> = (FIRST_POD..=LAST_HOST).collect();
        assert_eq!(next_host(7, &all), None);
    }
}
