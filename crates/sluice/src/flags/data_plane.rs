//! What the rules are made of.

use super::value::{
    self, list, masquerade_all, masquerade_bit, min_sync_period, name, sync_period, text, to,
};
use super::{Flag, Heading};

const BASE: Flag = Flag {
    heading: Heading::DataPlane,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "proxy-mode",
        value: Some("MODE"),
        help: "Data plane: nftables, iptables or ipvs (ebpf is not built yet) [default: nftables; beside an API server with the values an iptables node had]",
        fields: &["mode"],
        set: |c, v| text(&mut c.mode, v),
        ..BASE
    },
    Flag {
        name: "hostname-override",
        value: Some("NODE"),
        help: "Name of this node; counts beside --config [default: the host's name]",
        fields: &["hostnameOverride"],
        set: |c, v| name(c, v),
        ..BASE
    },
    Flag {
        name: "bind-address",
        value: Some("IP"),
        help: "The node's primary address, if it is not the Node object's; binds nothing [default: 0.0.0.0, none]",
        fields: &["bindAddress"],
        set: |c, v| text(&mut c.bind_address, &value::address(v)),
        ..BASE
    },
    Flag {
        name: "cluster-cidr",
        value: Some("CIDR[,CIDR]"),
        help: "Addresses of pods: one prefix, or one of each family",
        fields: &["clusterCIDR"],
        set: |c, v| text(&mut c.cluster_cidr, v.trim()),
        ..BASE
    },
    Flag {
        name: "detect-local-mode",
        value: Some("HOW"),
        help: "How traffic of this node's pods is recognised: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix [default: ClusterCIDR]",
        fields: &["detectLocalMode"],
        set: |c, v| text(&mut c.detect_local_mode, v),
        ..BASE
    },
    Flag {
        name: "pod-bridge-interface",
        value: Some("NAME"),
        help: "Bridge of this node's pods, for BridgeInterface",
        fields: &["detectLocal.bridgeInterface"],
        set: |c, v| text(&mut c.detect_local.bridge_interface, v),
        ..BASE
    },
    Flag {
        name: "pod-interface-name-prefix",
        value: Some("PREFIX"),
        help: "Beginning of the names of this node's pod interfaces, for InterfaceNamePrefix",
        fields: &["detectLocal.interfaceNamePrefix"],
        set: |c, v| text(&mut c.detect_local.interface_name_prefix, v),
        ..BASE
    },
    Flag {
        name: "nodeport-addresses",
        value: Some("CIDR,.."),
        help: "Addresses of the node that answer on NodePorts: `primary`, or prefixes, or empty for all [default: primary in the nftables mode, else all]",
        fields: &["nodePortAddresses"],
        set: |c, v| list(&mut c.node_port_addresses, v),
        ..BASE
    },
    Flag {
        name: "masquerade-all",
        help: "Masquerade all traffic to ClusterIPs",
        fields: &["iptables.masqueradeAll", "nftables.masqueradeAll"],
        set: |c, v| to(masquerade_all(c), value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "iptables-masquerade-bit",
        alias: "masquerade-bit",
        value: Some("BIT"),
        help: "Bit of the packet mark that says \"masquerade this\", 0 to 31, in every mode [default: 14]",
        fields: &["iptables.masqueradeBit", "nftables.masqueradeBit"],
        set: |c, v| to(masquerade_bit(c), value::integer(v).map(Some)),
        ..BASE
    },
    Flag {
        name: "iptables-sync-period",
        value: Some("TIME"),
        help: "Between two repairs, in the iptables and nftables modes [default: 30s]",
        fields: &["iptables.syncPeriod", "nftables.syncPeriod"],
        set: |c, v| to(sync_period(c), value::duration(v)),
        ..BASE
    },
    Flag {
        name: "iptables-min-sync-period",
        value: Some("TIME"),
        help: "Between two syncs at least, in the iptables and nftables modes [default: 1s]",
        fields: &["iptables.minSyncPeriod", "nftables.minSyncPeriod"],
        set: |c, v| to(min_sync_period(c), value::duration(v)),
        ..BASE
    },
    Flag {
        name: "iptables-localhost-nodeports",
        help: "NodePorts on the loopback address, in the iptables mode [default: true]",
        fields: &["iptables.localhostNodePorts"],
        set: |c, v| {
            to(
                &mut c.iptables.localhost_node_ports,
                value::boolean(v).map(Some),
            )
        },
        ..BASE
    },
];
