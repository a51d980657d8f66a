//! Names of chains: kube-proxy's, and the few that it does not have.

use std::net::SocketAddr;

use data_encoding::BASE32;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use sluice_model::ServicePortName;
pub(crate) use sluice_plane::kube_proxy::{
    CANARY, CLUSTER_IPS, EXTERNAL_SERVICES, FORWARD as FORWARD_RULES, MARK_MASQ, NODE_PORTS, OWNED,
    POSTROUTING as POSTROUTING_RULES, PROXY_FIREWALL, SERVICES,
};
use sluice_plane::kube_proxy::{EXT, FW, HASH, HASHED, SEP, SVC, SVL, is_hashed};
use sluice_xtables::probe;
use sluice_xtables::rule::{ChainName, Table};

/// Shared with the kubelet, which writes the same rule into it.
pub(crate) const FIREWALL: &str = "KUBE-FIREWALL";

pub(crate) const INPUT: &str = "INPUT";
pub(crate) const FORWARD: &str = "FORWARD";
pub(crate) const OUTPUT: &str = "OUTPUT";
pub(crate) const PREROUTING: &str = "PREROUTING";
pub(crate) const POSTROUTING: &str = "POSTROUTING";

/// The levels of [`HASHED`]; see [`level`].
const LEVELS: [u8; HASHED.len()] = [2, 2, 3, 4, 1];
/// Prefix of the chains of the ClusterIPs of one network, which several service ports need.
pub(crate) const OF_PREFIXES: &str = "SLUICE-CIP-";

/// Names of the chains of one service port (kube-proxy, `portProtoHash`).
#[derive(Clone, Debug)]
pub(crate) struct PortChains {
    /// `namespace/name:port` with the protocol: what is hashed.
    text: String,
    hash: String,
}

impl PortChains {
    pub(crate) fn of(name: &ServicePortName) -> Self {
        let text = format!("{name}{}", name.protocol);
        let hash = hash(&text);
        Self { text, hash }
    }

    /// Clients that go to any endpoint.
    pub(crate) fn cluster(&self) -> ChainName {
        self.named(SVC)
    }

    /// Clients that stay on this node.
    pub(crate) fn local(&self) -> ChainName {
        self.named(SVL)
    }

    /// Clients of external addresses and NodePorts.
    pub(crate) fn external(&self) -> ChainName {
        self.named(EXT)
    }

    /// The chain that checks source ranges.
    pub(crate) fn firewall(&self) -> ChainName {
        self.named(FW)
    }

    pub(crate) fn endpoint(&self, endpoint: SocketAddr) -> ChainName {
        let hash = hash(&format!("{}{endpoint}", self.text));
        ChainName::new(&format!("{SEP}{hash}"))
    }

    fn named(&self, prefix: &str) -> ChainName {
        ChainName::new(&format!("{prefix}{}", self.hash))
    }
}

/// The chain of the ClusterIPs inside a prefix.
pub(crate) fn of_prefix(prefix: IpNet) -> ChainName {
    let hash = hash(&prefix.to_string());
    ChainName::new(&format!("{OF_PREFIXES}{hash}"))
}

/// Chains jump only to chains of lower levels, except common ones, which jump to any.
pub(crate) fn level(chain: &ChainName) -> u8 {
    let of_port = HASHED.iter().position(|it| chain.as_str().starts_with(it));
    of_port.map_or(0, |it| LEVELS[it])
}

pub(crate) fn chain(name: &'static str) -> ChainName {
    ChainName::new(name)
}

/// How a chain of iptables is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By one owner, all of it.
    Whole,
    /// Many owners, each with rules of its own.
    Common,
    /// By the kernel; we add jumps to it.
    Builtin,
    /// By the kubelet and us.
    Firewall,
}

/// How we write a chain; `None` for a chain of others.
pub(crate) fn kind(table: Table, name: &str) -> Option<Kind> {
    let is_of_port = || HASHED.iter().any(|it| is_hashed(name, it));
    Some(match (table, name) {
        (_, CANARY) => Kind::Whole,
        (Table::Mangle, _) => return None,
        // A probe that was killed left it.
        (_, probe::CHAIN) => Kind::Whole,
        (_, SERVICES | NODE_PORTS) => Kind::Common,
        (Table::Nat, POSTROUTING_RULES | MARK_MASQ | OWNED) => Kind::Whole,
        (Table::Nat, PREROUTING | OUTPUT | POSTROUTING) => Kind::Builtin,
        (Table::Nat, _) if is_of_port() => Kind::Whole,
        (Table::Filter, EXTERNAL_SERVICES | PROXY_FIREWALL | CLUSTER_IPS) => Kind::Common,
        (Table::Filter, FORWARD_RULES) => Kind::Whole,
        (Table::Filter, FIREWALL) => Kind::Firewall,
        (Table::Filter, INPUT | FORWARD | OUTPUT) => Kind::Builtin,
        (Table::Filter, _) if is_hashed(name, OF_PREFIXES) => Kind::Common,
        (Table::Filter, _) if is_hashed(name, FW) => Kind::Whole,
        _ => return None,
    })
}

/// Whether a chain exists only while a Service needs it.
pub(crate) fn is_of_services(chain: &ChainName) -> bool {
    let mut beginnings = HASHED.iter().chain([&OF_PREFIXES]);
    beginnings.any(|it| is_hashed(chain.as_str(), it))
}

fn hash(text: &str) -> String {
    let mut encoded = BASE32.encode(&Sha256::digest(text.as_bytes()));
    encoded.truncate(HASH);
    encoded
}

#[cfg(test)]
mod tests {
    use sluice_model::{NamespacedName, Protocol};

    use super::*;

    fn chains(namespace: &str, name: &str, port: &str) -> PortChains {
        PortChains::of(&ServicePortName {
            service: NamespacedName::new(namespace, name),
            port: port.into(),
            protocol: Protocol::Tcp,
        })
    }

    /// From kube-proxy's own tests and from clusters.
    #[test]
    fn names_are_those_of_kube_proxy() {
        let svc1 = chains("ns1", "svc1", "p80");
        let kubernetes = chains("default", "kubernetes", "https");
        let endpoint = "10.180.0.1:80".parse().expect("an address");
        let named = [
            (svc1.cluster(), "KUBE-SVC-XPGD46QRK7WJZT7O"),
            (svc1.local(), "KUBE-SVL-XPGD46QRK7WJZT7O"),
            (svc1.external(), "KUBE-EXT-XPGD46QRK7WJZT7O"),
            (svc1.firewall(), "KUBE-FW-XPGD46QRK7WJZT7O"),
            (svc1.endpoint(endpoint), "KUBE-SEP-SXIVWICOYRO3J4NJ"),
            (kubernetes.cluster(), "KUBE-SVC-NPX46M4PTMTKRN6Y"),
        ];
        for (name, expected) in named {
            assert_eq!(name.as_str(), expected);
            assert_eq!(kind(Table::Nat, expected), Some(Kind::Whole));
        }
    }

    #[test]
    fn an_unnamed_port_has_no_colon() {
        let nginx = chains("default", "nginx", "");
        assert_eq!(nginx.cluster().as_str(), "KUBE-SVC-2CMXP7HKUVJN7L6M");
    }

    #[test]
    fn chains_of_others_are_not_ours() {
        let others = [
            "KUBE-MARK-DROP",
            "KUBE-KUBELET-CANARY",
            "KUBE-IPTABLES-HINT",
            "KUBE-SVC-XPGD46QRK7WJZT7",
            "KUBE-SVC-xpgd46qrk7wjzt7o",
            "KUBE-POD-FW-XPGD46QRK7WJZT7O",
            "KUBE-ROUTER-FORWARD",
            "DOCKER",
        ];
        for name in others {
            for table in [Table::Mangle, Table::Filter, Table::Nat] {
                assert_eq!(kind(table, name), None, "{table} {name}");
            }
        }
        assert_eq!(kind(Table::Mangle, "FORWARD"), None);
        assert_eq!(kind(Table::Nat, "INPUT"), None);
    }

    #[test]
    fn the_name_of_a_prefix_fits() {
        let prefix = "fd00:10:96::/112".parse().expect("a prefix");
        let name = of_prefix(prefix);
        assert!(name.as_str().len() <= 28, "{name}");
        assert_eq!(kind(Table::Filter, name.as_str()), Some(Kind::Common));
    }
}
