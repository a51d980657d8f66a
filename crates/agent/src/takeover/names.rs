//! What kube-proxy 1.36 calls its things, by its iptables, ipvs and nftables proxiers.

/// Its tables in nftables mode.
pub(super) const TABLE: &str = "kube-proxy";

/// The dummy interface of its ipvs mode.
pub(crate) const DEVICE: &str = "kube-ipvs0";

/// The chain that every mode with iptables has.
pub(super) const SERVICES: &str = "KUBE-SERVICES";

/// The chain that marks packets for masquerading: rules of other programs may lead to it.
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";

/// The chain that accepts forwarded packets of Services.
pub(super) const FORWARD: &str = "KUBE-FORWARD";

/// Chains of its iptables and ipvs modes. Not in here: `KUBE-FIREWALL`, `KUBE-IPTABLES-HINT` and
/// `KUBE-KUBELET-CANARY`, which are the kubelet's.
const CHAINS: [&str; 13] = [
    SERVICES,
    MARK_MASQ,
    FORWARD,
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
    "KUBE-LOAD-BALANCER",
    "KUBE-NODE-PORT",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-PROXY-CANARY",
    "KUBE-PROXY-FIREWALL",
    "KUBE-SOURCE-RANGES-FIREWALL",
];

/// How the chains of Services and endpoints begin; [`HASH`] characters follow.
const HASHED: [&str; 5] = [
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-FW-",
    "KUBE-EXT-",
    "KUBE-SEP-",
];

/// How chains and sets begin that our own iptables and ipvs modes have beside kube-proxy's.
pub(super) const OURS: &str = "SLUICE-";

/// Characters of base32 in such a name. Other programs have chains that begin alike.
const HASH: usize = 16;

/// Sets of its ipvs mode; what IPv6 has begins with `KUBE-6-`.
const SETS: [&str; 17] = [
    "KUBE-CLUSTER-IP",
    "KUBE-EXTERNAL-IP",
    "KUBE-EXTERNAL-IP-LOCAL",
    "KUBE-HEALTH-CHECK-NODE-PORT",
    "KUBE-IPVS-IPS",
    "KUBE-LOAD-BALANCER",
    "KUBE-LOAD-BALANCER-FW",
    "KUBE-LOAD-BALANCER-LOCAL",
    "KUBE-LOAD-BALANCER-SOURCE-CIDR",
    "KUBE-LOAD-BALANCER-SOURCE-IP",
    "KUBE-LOOP-BACK",
    "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
    "KUBE-NODE-PORT-LOCAL-TCP",
    "KUBE-NODE-PORT-LOCAL-UDP",
    "KUBE-NODE-PORT-SCTP-HASH",
    "KUBE-NODE-PORT-TCP",
    "KUBE-NODE-PORT-UDP",
];

/// `IPPROTO_TCP` and `IPPROTO_UDP`.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What the members of a set are to the virtual servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// Address, port and protocol of a virtual server.
    Frontends,
    /// The port, on any address, of virtual servers of this protocol (`IPPROTO_*`).
    NodePorts(u8),
    /// Marks by which virtual servers are found, in our own ipvs mode.
    Marked,
    /// Something else, or contained in another set.
    Other,
}

/// Whether a chain of iptables is kube-proxy's, or of our own iptables and ipvs modes.
pub(super) fn is_chain(name: &str) -> bool {
    let is_hash =
        |it: &str| it.len() == HASH && it.bytes().all(|it| matches!(it, b'A'..=b'Z' | b'2'..=b'7'));
    let is_hashed = |prefix: &&str| name.strip_prefix(prefix).is_some_and(is_hash);
    is_our_chain(name) || CHAINS.contains(&name) || HASHED.iter().any(is_hashed)
}

/// Whether a chain is of the kind that only our own iptables and ipvs modes have.
pub(super) fn is_our_chain(name: &str) -> bool {
    name.starts_with(OURS)
}

/// Whether it is the chain that every mode of kube-proxy with iptables has.
pub(super) fn is_services(name: &str) -> bool {
    name == SERVICES
}

/// Whether an ipset is kube-proxy's, or of our own ipvs mode.
pub(super) fn is_set(name: &str) -> bool {
    name.starts_with(OURS) || v4_name(name).is_some()
}

/// What an ipset of kube-proxy says about virtual servers.
pub(super) fn members(set: &str) -> Members {
    if set.starts_with(OURS) {
        return Members::Marked;
    }
    match v4_name(set).unwrap_or_default() {
        "KUBE-NODE-PORT-TCP" => Members::NodePorts(TCP),
        "KUBE-NODE-PORT-UDP" => Members::NodePorts(UDP),
        "KUBE-CLUSTER-IP"
        | "KUBE-EXTERNAL-IP"
        | "KUBE-LOAD-BALANCER"
        | "KUBE-NODE-PORT-SCTP-HASH" => Members::Frontends,
        _ => Members::Other,
    }
}

/// What the set is called in IPv4. kube-proxy cuts the longer names of IPv6 to what ipset takes
/// (`IPSET_MAXNAMELEN`).
fn v4_name(name: &str) -> Option<&'static str> {
    const LONGEST: usize = 31;
    let is_it = |v4: &&&str| {
        let mut v6 = v4.replacen("KUBE-", "KUBE-6-", 1);
        v6.truncate(LONGEST);
        name == **v4 || name == v6
    };
    SETS.iter().find(is_it).copied()
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

    #[test]
    fn sets_are_known_in_both_families() {
        for (set, wanted) in [
            ("KUBE-CLUSTER-IP", Members::Frontends),
            ("KUBE-6-CLUSTER-IP", Members::Frontends),
            ("KUBE-NODE-PORT-TCP", Members::NodePorts(6)),
            ("KUBE-6-NODE-PORT-UDP", Members::NodePorts(17)),
            ("KUBE-LOOP-BACK", Members::Other),
            ("KUBE-6-LOAD-BALANCER-SOURCE-CID", Members::Other),
            ("KUBE-6-NODE-PORT-LOCAL-SCTP-HAS", Members::Other),
            ("SLUICE-NEAR", Members::Marked),
        ] {
            assert!(is_set(set), "{set}");
            assert_eq!(members(set), wanted, "{set}");
        }
        for others in [
            "KUBE-6-",
            "KUBE-SRC-ABC",
            "CLUSTER-IP",
            "inet6:KUBE-CLUSTER-IP",
        ] {
            assert!(!is_set(others), "{others}");
        }
    }
}
