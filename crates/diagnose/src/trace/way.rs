//! The way as values: hooks, rules, and the end.

use std::fmt;
use std::net::SocketAddr;

use nix::net::if_::if_indextoname;
use serde::Serialize;
use sluice_netlink::conntrack::Tuple;
use sluice_plane::{Act, kube_proxy};

/// Name of the loopback interface.
pub(super) const LOOPBACK: &str = "lo";

/// Name of the tables of Sluice's mode nftables.
const SLUICE_TABLE: &str = "sluice";

/// Chains of kube-proxy, of kubelet, and of Sluice in the modes with kube-proxy's chains begin so.
const OUR_CHAINS: [&str; 2] = ["KUBE-", "SLUICE-"];

/// Addresses and ports in a packet. Displays as `10.0.0.1:40000 → 10.0.0.2:80`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
}

impl From<Tuple> for Addresses {
    fn from(tuple: Tuple) -> Self {
        Self {
            source: SocketAddr::new(tuple.src, tuple.src_port),
            destination: SocketAddr::new(tuple.dst, tuple.dst_port),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.source, self.destination)
    }
}

/// One hook of netfilter, and what its chains did with the packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// `prerouting`, `input`, `forward`, `output` or `postrouting`.
    pub hook: &'static str,
    /// The packet before the first chain.
    pub arrived: Option<Addresses>,
    /// The packet behind the last chain; `None` when it did not get there.
    pub left: Option<Addresses>,
    /// Name of the interface that it came in through; `None` when this node sent it.
    pub incoming: Option<String>,
    /// Name of the interface that it leaves through, where that is known already.
    pub outgoing: Option<String>,
    /// Rules that the packet fitted, and ends of chains, in their order.
    pub hops: Vec<Hop>,
}

/// A rule that the packet fitted, or the end of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Family of the table, as `ip` or `inet`.
    pub family: &'static str,
    /// Name of the table.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// The program that wrote the rule.
    pub owner: Owner,
    /// Priority of the chain, if it is a base chain.
    pub priority: Option<i32>,
    /// The kernel's number of the rule, as `nft -a list ruleset` shows it; `None` at the end of a chain.
    pub handle: Option<u64>,
    /// The verdict: `accept`, `drop`, `jump CHAIN`, or `policy accept` at the end of a base chain.
    pub verdict: String,
    /// The mark of the packet.
    pub mark: u32,
    /// The comment of the rule.
    pub comment: Option<String>,
    /// The rule as `iptables` or `nft` writes it; `None` without those programs.
    pub text: Option<String>,
}

/// Displays as `rule 7 of inet firewall forward (tcp dport 80 drop)`.
impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            table,
            chain,
            ..
        } = self;
        match self.handle {
            Some(handle) => write!(f, "rule {handle} of {family} {table} {chain}")?,
            None => write!(f, "policy of {family} {table} {chain}")?,
        }
        let text = self.text.as_ref().or(self.comment.as_ref());
        text.map_or(Ok(()), |it| write!(f, " ({it})"))
    }
}

/// The program that writes a rule, told by the names of table and chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// Sluice in its mode nftables, its network policies and its DNS.
    Sluice,
    /// kube-proxy, kubelet, or Sluice in the modes with kube-proxy's chains.
    Kubernetes,
    /// Any other program.
    Foreign,
}

impl Owner {
    /// The owner of a chain.
    pub(crate) fn of(table: &str, chain: &str) -> Self {
        match table {
            SLUICE_TABLE => Self::Sluice,
            kube_proxy::TABLE => Self::Kubernetes,
            _ if table.starts_with("sluice-") => Self::Sluice,
            _ if OUR_CHAINS.iter().any(|it| chain.starts_with(it)) => Self::Kubernetes,
            _ => Self::Foreign,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sluice => "Sluice",
            Self::Kubernetes => "kube-proxy, kubelet, or Sluice in its modes iptables and ipvs",
            Self::Foreign => "another program: neither Sluice nor kube-proxy",
        })
    }
}

/// What became of the packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum End {
    /// It passed every hook.
    Delivered {
        /// The packet behind its last hook.
        packet: Addresses,
        /// Interface that it left through; `None`: it went to a socket of this node.
        interface: Option<String>,
        /// Why no answer arrives, with evidence; mostly empty.
        causes: Vec<String>,
    },
    /// A rule, or the policy of a chain, dropped or rejected it.
    Dropped {
        hook: &'static str,
        /// The rule.
        hop: Box<Hop>,
    },
    /// The packet was lost in a hook, but no rule of nftables dropped it.
    Vanished {
        hook: &'static str,
        /// The last rule before, in words.
        after: Option<String>,
        /// Possible causes, with evidence.
        causes: Vec<String>,
    },
    /// It left a hook and did not reach the next: the kernel's routing dropped it.
    Unrouted {
        /// The hook that it left.
        hook: &'static str,
        /// The packet behind that hook.
        packet: Addresses,
        /// Possible causes, with evidence.
        causes: Vec<String>,
    },
    /// No packet reached the first hook.
    Unseen {
        /// Possible causes, with evidence.
        causes: Vec<String>,
    },
    /// Programs of the ebpf mode had it, and netfilter did not see what they made of it.
    Programs {
        /// Where they saw it, in words.
        place: String,
        act: Act,
        /// `act` as a text.
        fate: String,
        /// The packet behind the program.
        packet: String,
    },
    /// The kernel dropped reports, so the rest of the way is not known.
    Unknown,
}

impl End {
    /// Possible causes, with evidence.
    #[must_use]
    pub fn causes(&self) -> &[String] {
        match self {
            Self::Delivered { causes, .. }
            | Self::Vanished { causes, .. }
            | Self::Unrouted { causes, .. }
            | Self::Unseen { causes } => causes,
            Self::Dropped { .. } | Self::Programs { .. } | Self::Unknown => &[],
        }
    }

    /// Sets the causes of an end that has a place for them.
    pub(super) fn set_causes(&mut self, found: Vec<String>) {
        match self {
            Self::Delivered { causes, .. }
            | Self::Vanished { causes, .. }
            | Self::Unrouted { causes, .. }
            | Self::Unseen { causes } => *causes = found,
            Self::Dropped { .. } | Self::Programs { .. } | Self::Unknown => {}
        }
    }

    /// Whether a rule or a program dropped or rejected it.
    pub(super) fn is_denial(&self) -> bool {
        match self {
            Self::Dropped { .. } => true,
            Self::Programs { act, .. } => act.is_denial(),
            _ => false,
        }
    }
}

/// The end of a way, without causes.
pub(super) fn end(stages: &[Stage], is_incomplete: bool) -> End {
    let causes = Vec::new();
    let Some(stage) = stages.last() else {
        return if is_incomplete {
            End::Unknown
        } else {
            End::Unseen { causes }
        };
    };
    let hook = stage.hook;
    if let Some(hop) = stage.hops.last()
        && ["drop", "policy drop"].contains(&&*hop.verdict)
        && stage.left.is_none()
    {
        let hop = Box::new(hop.clone());
        return End::Dropped { hook, hop };
    }
    let to_loopback = stage.outgoing.as_deref() == Some(LOOPBACK);
    match stage.left {
        Some(packet) if hook == "input" || (hook == "postrouting" && !to_loopback) => {
            let interface = (hook != "input").then(|| stage.outgoing.clone());
            let interface = interface.flatten();
            End::Delivered {
                packet,
                interface,
                causes,
            }
        }
        _ if is_incomplete => End::Unknown,
        Some(packet) => End::Unrouted {
            hook,
            packet,
            causes,
        },
        None => End::Vanished {
            hook,
            after: stage.hops.last().map(ToString::to_string),
            causes,
        },
    }
}

/// The name of an interface; its number when it is gone.
pub(super) fn interface(index: Option<u32>) -> Option<String> {
    let index = index?;
    let name = if_indextoname(index)
        .ok()
        .and_then(|it| it.into_string().ok());
    Some(name.unwrap_or_else(|| index.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_known_by_the_names_that_the_modes_write() {
        let table = sluice_nftables::TABLE;
        assert_eq!(Owner::of(table, "services"), Owner::Sluice);
        assert_eq!(Owner::of("nat", "KUBE-SERVICES"), Owner::Kubernetes);
        // Network policies, and the DNS of the node.
        for table in ["sluice-policy", "sluice-dns"] {
            assert_eq!(Owner::of(table, "egress"), Owner::Sluice);
        }
        assert_eq!(Owner::of("filter", "FORWARD"), Owner::Foreign);
    }
}
