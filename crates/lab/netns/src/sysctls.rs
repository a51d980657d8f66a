//! Sysctls by role; written before any device exists, so that new devices inherit the `default`s.

use crate::{
    LabError, Netns,
    netns::{sysctl_path, write_sysctl},
};

/// The role of a namespace in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The bridge of the LAN.
    Lan,
    /// Forwards between the LAN and its pods.
    Node,
    /// A node that connects its pods through a bridge: bridged packets pass netfilter, too.
    BridgedNode,
    /// A pod or an external client.
    Host,
}

/// For all roles. A new namespace inherits the machine's IPv4 `default`s, so every sysctl that
/// matters is listed.
const COMMON: &[(&str, &str)] = &[
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.conf.all.accept_redirects", "0"),
    ("net.ipv4.conf.default.accept_redirects", "0"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
    ("net.ipv4.icmp_ratelimit", "0"),
    ("net.ipv6.icmp.ratelimit", "0"),
    ("net.ipv6.conf.all.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.all.accept_redirects", "0"),
    ("net.ipv6.conf.default.accept_redirects", "0"),
];

const IPV6_ON: &[(&str, &str)] = &[
    ("net.ipv6.conf.all.disable_ipv6", "0"),
    ("net.ipv6.conf.default.disable_ipv6", "0"),
];

const IPV6_OFF: &[(&str, &str)] = &[
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
];

/// Written first: turning forwarding on resets some of the others.
const FORWARDING: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.forwarding", "1"),
];

/// `sctp_v4_err` ignores the refusal of the first INIT, because the socket is locked while the INIT
/// passes between namespaces. The retransmitted INIT is refused: after 1 s instead of 3 s.
const SCTP: (&str, &str) = ("net.sctp.rto_initial", "1000");

/// All ICMP errors of a namespace, of both families, have one budget beside the limit of each destination: a burst
/// of 50, of which each error takes 0 to 2 (`icmp_global_consume`, `net/ipv4/icmp.c`). Refused connections would be
/// lost by chance. Older kernels have one budget for the whole machine, which a namespace cannot change.
const ICMP_BUDGET: [(&str, &str); 2] = [
    ("net.ipv4.icmp_msgs_per_sec", "1000000"),
    ("net.ipv4.icmp_msgs_burst", "1000000"),
];

/// As containerd does for pods (`enable_unprivileged_ports`, `enable_unprivileged_icmp`): a server of any user may listen on
/// port 80, and any user may send pings.
const FOR_ALL_USERS: [(&str, &str); 2] = [
    ("net.ipv4.ip_unprivileged_port_start", "0"),
    ("net.ipv4.ping_group_range", "0 2147483647"),
];

const BRIDGE_CALLS: [&str; 2] = [
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
];

/// Turns IPv6 on for one interface and for loopback, in a namespace whose other interfaces are without.
pub(crate) fn turn_on_ipv6(netns: &Netns, interface: &str) -> Result<(), LabError> {
    netns.run(|| {
        let mut all = ["lo", interface].into_iter();
        all.try_for_each(|it| write_sysctl(&format!("net.ipv6.conf.{it}.disable_ipv6"), "0"))
    })
}

/// Writes the sysctls of `role` in `netns`.
pub(crate) fn apply(netns: &Netns, role: Role) -> Result<(), LabError> {
    let groups: &[&[(&str, &str)]] = match role {
        Role::Lan => &[COMMON, IPV6_OFF],
        Role::Node | Role::BridgedNode => &[FORWARDING, COMMON, IPV6_ON],
        Role::Host => &[COMMON, IPV6_ON],
    };
    netns.run(|| {
        groups
            .iter()
            .copied()
            .flatten()
            .try_for_each(|(key, value)| write_sysctl(key, value))?;
        for (key, value) in ICMP_BUDGET.into_iter().chain([SCTP]) {
            if sysctl_path(key).exists() {
                write_sysctl(key, value)?;
            }
        }
        for (key, value) in FOR_ALL_USERS {
            // A user namespace with few groups has no such range: there everybody is root.
            let _ = write_sysctl(key, value);
        }
        BRIDGE_CALLS.iter().try_for_each(|key| match role {
            Role::BridgedNode => write_sysctl(key, "1"),
            // Without br_netfilter the sysctl is missing, and bridged packets bypass netfilter.
            _ if !sysctl_path(key).exists() => Ok(()),
            _ => write_sysctl(key, "0"),
        })
    })
}
