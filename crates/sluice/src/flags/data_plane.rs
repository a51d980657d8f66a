//! Flags of the data plane.

use super::value::{self, duration, integer, list, non_empty, of_mode, switch, text};
use super::{BOOL, Flag, Heading};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::DataPlane, name, value)
}

pub(super) const FLAGS: &[Flag] = &[
    flag("proxy-mode", "MODE")
        .help("Data plane: nftables, iptables, ipvs or ebpf [default: nftables; without --manifests it takes masquerading and periods from the iptables section and serves NodePorts on every address, as an iptables node has them]")
        .fields(&["mode"])
        .set(|c, v| text(&mut c.mode, v)),
    flag("hostname-override", "NODE")
        .help("Name of this node's Node object; also with --config [default: the host's name]")
        .fields(&["hostnameOverride"])
        .set(|c, v| non_empty(&mut c.hostname_override, v)),
    flag("bind-address", "IP")
        .help("The node's primary address, where it differs from the Node object's; no server listens on it [default: 0.0.0.0, the Node object's]")
        .fields(&["bindAddress"])
        .set(|c, v| text(&mut c.bind_address, &value::address(v))),
    flag("cluster-cidr", "CIDR[,CIDR]")
        .help("Addresses of all pods: one prefix, or one of each family. Without it the ClusterCIDR detector cannot recognise pods")
        .fields(&["clusterCIDR"])
        .set(|c, v| text(&mut c.cluster_cidr, v.trim())),
    flag("detect-local-mode", "HOW")
        .help("How traffic of this node's pods is recognised: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix [default: ClusterCIDR]")
        .fields(&["detectLocalMode"])
        .set(|c, v| text(&mut c.detect_local_mode, v)),
    flag("pod-bridge-interface", "NAME")
        .help("Bridge of this node's pods, for BridgeInterface")
        .fields(&["detectLocal.bridgeInterface"])
        .set(|c, v| text(&mut c.detect_local.bridge_interface, v)),
    flag("pod-interface-name-prefix", "PREFIX")
        .help("Prefix of the names of this node's pod interfaces, for InterfaceNamePrefix")
        .fields(&["detectLocal.interfaceNamePrefix"])
        .set(|c, v| text(&mut c.detect_local.interface_name_prefix, v)),
    flag("nodeport-addresses", "CIDR,..")
        .help("Addresses of the node that answer on NodePorts: `primary`, or prefixes, or empty for all [default: primary in the nftables and ebpf modes, else all]")
        .fields(&["nodePortAddresses"])
        .set(|c, v| list(&mut c.node_port_addresses, v)),
    flag("masquerade-all", BOOL)
        .help("Masquerade all traffic to ClusterIPs")
        .fields(&["iptables.masqueradeAll", "nftables.masqueradeAll"])
        .set(|c, v| {
            let (nftables, iptables) = (&mut c.nftables.masquerade_all, &mut c.iptables.masquerade_all);
            switch(of_mode(&c.mode, nftables, iptables), v)
        }),
    flag("iptables-masquerade-bit", "BIT")
        .alias("masquerade-bit")
        .help("Bit of the packet mark that says \"masquerade this\", 0 to 31, in every mode [default: 14]")
        .fields(&["iptables.masqueradeBit", "nftables.masqueradeBit"])
        .set(|c, v| {
            let (nftables, iptables) = (&mut c.nftables.masquerade_bit, &mut c.iptables.masquerade_bit);
            integer(of_mode(&c.mode, nftables, iptables), v)
        }),
    flag("iptables-sync-period", "TIME")
        .help("Time between two full syncs, in the iptables and nftables modes [default: 30s]")
        .fields(&["iptables.syncPeriod", "nftables.syncPeriod"])
        .set(|c, v| {
            let (nftables, iptables) = (&mut c.nftables.sync_period, &mut c.iptables.sync_period);
            duration(of_mode(&c.mode, nftables, iptables), v)
        }),
    flag("iptables-min-sync-period", "TIME")
        .help(
            "Shortest time between two syncs, in the iptables, nftables and ebpf modes [default: 0s: none in the \
             nftables and ebpf modes, in the iptables mode twice as long as the last one took, at most 1s]",
        )
        .fields(&["iptables.minSyncPeriod", "nftables.minSyncPeriod"])
        .set(|c, v| {
            let (nftables, iptables) = (&mut c.nftables.min_sync_period, &mut c.iptables.min_sync_period);
            duration(of_mode(&c.mode, nftables, iptables), v)
        }),
    flag("iptables-localhost-nodeports", BOOL)
        .help("Serve NodePorts on the loopback address, in the iptables mode [default: true]")
        .fields(&["iptables.localhostNodePorts"])
        .set(|c, v| switch(&mut c.iptables.localhost_node_ports, v)),
];
