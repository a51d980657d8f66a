//! Names of kube-proxy 1.36. Our iptables and ipvs modes use them, so that runbooks hold, and a takeover
//! finds the objects of a kube-proxy by them.

use sluice_xtables::programs::Marks;

/// The dummy interface of its ipvs mode.
pub const DEVICE: &str = "kube-ipvs0";

/// Its tables in the nftables mode.
pub const TABLE: &str = "kube-proxy";

/// The chain that every mode with iptables has.
pub const SERVICES: &str = "KUBE-SERVICES";
/// Packets to external addresses and NodePorts.
pub const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
/// NodePorts of the iptables mode.
pub const NODE_PORTS: &str = "KUBE-NODEPORTS";
/// NodePorts of the ipvs mode.
pub const NODE_PORT: &str = "KUBE-NODE-PORT";
/// Load balancers of the ipvs mode.
pub const LOAD_BALANCER: &str = "KUBE-LOAD-BALANCER";
/// The chain that marks packets for masquerading: rules of other programs may lead to it.
pub const MARK_MASQ: &str = "KUBE-MARK-MASQ";
/// The chain that masquerades marked packets.
pub const POSTROUTING: &str = "KUBE-POSTROUTING";
/// The chain that accepts forwarded packets of Services.
pub const FORWARD: &str = "KUBE-FORWARD";
/// Packets that `loadBalancerSourceRanges` do not admit.
pub const PROXY_FIREWALL: &str = "KUBE-PROXY-FIREWALL";
/// Packets that `loadBalancerSourceRanges` do not admit, in the ipvs mode.
pub const SOURCE_RANGES_FIREWALL: &str = "KUBE-SOURCE-RANGES-FIREWALL";
/// Incoming packets to a virtual IP in the ipvs mode.
pub const IPVS_FILTER: &str = "KUBE-IPVS-FILTER";
/// Packets of the node to a virtual IP in the ipvs mode.
pub const IPVS_OUT_FILTER: &str = "KUBE-IPVS-OUT-FILTER";
/// An empty chain that is deleted when another program flushes a table.
pub const CANARY: &str = "KUBE-PROXY-CANARY";

/// Object of nfacct in its iptables mode: packets that are dropped because conntrack finds them
/// invalid.
pub const CT_STATE_INVALID_DROPPED: &str = "ct_state_invalid_dropped_pkts";
/// Object of nfacct in its iptables mode: packets to NodePorts on loopback addresses, the first of each connection.
pub const LOCALHOST_NODE_PORTS_ACCEPTED: &str = "localhost_nps_accepted_pkts";
/// Both.
pub const ACCOUNTS: [&str; 2] = [CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED];

/// Chains of the kubelet, and why a cleanup leaves them. The iptables mode needs the first, too, and
/// makes it if the kubelet did not.
pub const KUBELET: [(&str, &str); 3] = [
    (
        "KUBE-FIREWALL",
        "the kubelet has the same rule: it keeps other hosts from 127.0.0.0/8 while the sysctl \
         route_localnet is 1",
    ),
    ("KUBE-KUBELET-CANARY", "it is the kubelet's"),
    ("KUBE-IPTABLES-HINT", "it is the kubelet's"),
];

/// The chains that tell which iptables a host uses: kubelet creates the first one since 1.24, the second one before.
pub const MARKS: Marks = Marks {
    hints: &["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"],
    own: CANARY,
};

/// Chains of its iptables and ipvs modes. Not in here: those of [`KUBELET`].
pub const CHAINS: [&str; 13] = [
    SERVICES,
    EXTERNAL_SERVICES,
    NODE_PORTS,
    NODE_PORT,
    LOAD_BALANCER,
    MARK_MASQ,
    POSTROUTING,
    FORWARD,
    PROXY_FIREWALL,
    SOURCE_RANGES_FIREWALL,
    IPVS_FILTER,
    IPVS_OUT_FILTER,
    CANARY,
];

/// Prefix of the chains of service ports for clients that use every endpoint.
pub const SVC: &str = "KUBE-SVC-";
/// Clients that stay on this node.
pub const SVL: &str = "KUBE-SVL-";
/// Clients of external addresses and NodePorts.
pub const EXT: &str = "KUBE-EXT-";
/// Prefix of the chains that check source ranges.
pub const FW: &str = "KUBE-FW-";
/// Prefix of the chains of endpoints.
pub const SEP: &str = "KUBE-SEP-";

/// Prefixes of the chains of Services and endpoints; [`HASH`] characters follow.
pub const HASHED: [&str; 5] = [SVC, SVL, EXT, FW, SEP];

/// Number of base32 characters in such a name. Chains of other programs have the same prefixes.
pub const HASH: usize = 16;

/// Prefix of chains and sets that our iptables and ipvs modes have and kube-proxy does not.
pub const OURS: &str = "SLUICE-";

/// Ours in both modes: ClusterIPs without such a port, and addresses of ServiceCIDRs that no
/// Service has.
pub const CLUSTER_IPS: &str = "SLUICE-CLUSTER-IPS";

/// Ours in nat of the iptables mode, and empty: it shows that the chains there are ours, also after filter
/// was flushed.
pub const OWNED: &str = "SLUICE-OWNED";

/// Whether a name is this beginning and a hash.
#[must_use]
pub fn is_hashed(name: &str, beginning: &str) -> bool {
    let is_base32 = |it: u8| matches!(it, b'A'..=b'Z' | b'2'..=b'7');
    let rest = name.strip_prefix(beginning);
    rest.is_some_and(|it| it.len() == HASH && it.bytes().all(is_base32))
}

/// Whether a chain of iptables is kube-proxy's, or of our own iptables and ipvs modes.
#[must_use]
pub fn is_chain(name: &str) -> bool {
    let is_of_service = |beginning: &&str| is_hashed(name, beginning);
    is_ours(name) || CHAINS.contains(&name) || HASHED.iter().any(is_of_service)
}

/// Whether a chain or an ipset is of the kind that only our own iptables and ipvs modes have.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    name.starts_with(OURS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_others_are_not_kube_proxys() {
        for theirs in [
            "KUBE-SERVICES",
            "KUBE-MARK-MASQ",
            "KUBE-PROXY-CANARY",
            "KUBE-SVC-XPGD46QRK7WJZT7O",
            "KUBE-SEP-SXIVWICOYRO3J4NJ",
            "KUBE-FW-NPX46M4PTMTKRN6Y",
        ] {
            assert!(is_chain(theirs), "{theirs}");
        }
        for others in [
            "KUBE-FIREWALL",
            "KUBE-IPTABLES-HINT",
            "KUBE-KUBELET-CANARY",
            "KUBE-MARK-DROP",
            "KUBE-FW-NPX46M4PTMTKRN6",
            "KUBE-SVC-xpgd46qrk7wjzt7o",
            "KUBE-POD-FW-XPGD46QRK7WJZT7O",
            "KUBE-ROUTER-FORWARD",
            "KUBE-SERVICES-2",
            "CNI-HOSTPORT-DNAT",
            "DOCKER",
            "",
        ] {
            assert!(!is_chain(others), "{others}");
        }
    }
}
