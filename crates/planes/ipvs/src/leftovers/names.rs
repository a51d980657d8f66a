//! What kube-proxy 1.36 calls the sets of its ipvs mode.

use sluice_plane::kube_proxy::is_ours;

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

/// Whether an ipset is kube-proxy's, or of our own ipvs mode.
pub(super) fn is_set(name: &str) -> bool {
    is_ours(name) || v4_name(name).is_some()
}

/// What an ipset of kube-proxy says about virtual servers.
pub(super) fn members(set: &str) -> Members {
    if is_ours(set) {
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
