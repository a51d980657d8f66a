//! Names of tables, chains and sets, as an operator reads them in `nft list ruleset`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use sluice_model::{IpFamily, ServicePortName};
use sluice_netlink::Family;
use sluice_nft::Scope;

use crate::source_list::SourceList;

/// The name of the table, in both families.
pub const TABLE: &str = "sluice";

/// The table of a family.
pub(crate) fn scope(family: IpFamily) -> Scope<'static> {
    Scope {
        family: netlink(family),
        table: TABLE,
    }
}

/// The family in the type of the crate `sluice-netlink`.
pub(crate) fn netlink(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    }
}

/// Longest name that we write. The kernel's limit is 255 (`NFT_NAME_MAXLEN` without the NUL).
const MAX_NAME: usize = 240;

/// The clients that a pool chain serves. The kind also decides which map has its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolKind {
    /// Clients of a ClusterIP.
    ClusterIp,
    /// Clients of a load balancer address or external IP, policy Cluster.
    External,
    /// Clients outside this node, of a load balancer address or external IP with policy Local.
    Local,
    /// Clients on this node, of a load balancer address or external IP with policy Local: any endpoint.
    Near,
    /// Clients of a NodePort, policy Cluster.
    NodePort,
    /// Clients outside this node of a NodePort, policy Local.
    LocalNodePort,
    /// Clients on this node of a NodePort, policy Local: any endpoint.
    NearNodePort,
}

impl PoolKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::ClusterIp,
        Self::External,
        Self::Local,
        Self::Near,
        Self::NodePort,
        Self::LocalNodePort,
        Self::NearNodePort,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster-ip-",
            Self::External => "external-",
            Self::Local => "local-",
            Self::Near => "near-",
            Self::NodePort => "nodeport-",
            Self::LocalNodePort => "local-nodeport-",
            Self::NearNodePort => "near-nodeport-",
        }
    }
}

/// A chain of our table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChainName {
    /// One of the chains that are always there.
    Standing(Standing),
    /// Balances over pools of this many endpoints.
    Pool(PoolKind, u32),
    /// Drops the clients that are not in the list.
    Sources(SourceList),
    /// A chain of one service port, or a chain that we did not make.
    Named(Arc<str>),
}

impl ChainName {
    /// The chain of this name; the inverse of `Display`.
    pub fn parse(name: &str) -> Self {
        if let Some(known) = Standing::ALL.into_iter().find(|it| it.0 == name) {
            return Self::Standing(known);
        }
        if let Some(list) = SourceList::parse(name) {
            return Self::Sources(list);
        }
        let pool = PoolKind::ALL.into_iter().find_map(|kind| {
            let digits = name.strip_prefix(kind.prefix())?;
            let size: u32 = digits.parse().ok()?;
            (size.to_string() == digits).then_some(Self::Pool(kind, size))
        });
        pool.unwrap_or_else(|| Self::Named(name.into()))
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standing(name) => f.write_str(name.0),
            Self::Pool(kind, size) => write!(f, "{}{size}", kind.prefix()),
            Self::Sources(list) => write!(f, "{list}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

pub(crate) const NAT_PREROUTING: Standing = Standing("nat-prerouting");
pub(crate) const NAT_OUTPUT: Standing = Standing("nat-output");
pub(crate) const NAT_POSTROUTING: Standing = Standing("nat-postrouting");
pub(crate) const FILTER_PREROUTING: Standing = Standing("filter-prerouting");
pub(crate) const FILTER_OUTPUT_BEFORE_DNAT: Standing = Standing("filter-output-before-dnat");
pub(crate) const FILTER_INPUT: Standing = Standing("filter-input");
pub(crate) const FILTER_FORWARD: Standing = Standing("filter-forward");
pub(crate) const FILTER_OUTPUT: Standing = Standing("filter-output");
pub(crate) const SERVICES: Standing = Standing("services");
pub(crate) const SOURCE_RANGES: Standing = Standing("source-ranges");
pub(crate) const OUTSIDE_SOURCE_RANGES: Standing = Standing("outside-source-ranges");
pub(crate) const UNSERVED: Standing = Standing("unserved");
pub(crate) const UNSERVED_NODE_PORTS: Standing = Standing("unserved-nodeports");
pub(crate) const CLUSTER_IP_GUARD: Standing = Standing("cluster-ip-guard");
pub(crate) const REJECTED: Standing = Standing("rejected");
pub(crate) const NO_LOCAL_ENDPOINTS: Standing = Standing("no-local-endpoints");
pub(crate) const CLUSTER_IP_CLIENTS: Standing = Standing("cluster-ip-clients");
pub(crate) const NEAR_CLIENTS: Standing = Standing("near-clients");
pub(crate) const NEAR_NODE_PORT_CLIENTS: Standing = Standing("near-nodeport-clients");
pub(crate) const MARK_FOR_MASQUERADE: Standing = Standing("mark-for-masquerade");
pub(crate) const MASQUERADE: Standing = Standing("masquerading");

/// A chain that is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing(&'static str);

impl Standing {
    /// In the order in which a packet meets them, which is that of `sluice render`.
    const ALL: [Self; 21] = [
        FILTER_PREROUTING,
        FILTER_OUTPUT_BEFORE_DNAT,
        SOURCE_RANGES,
        OUTSIDE_SOURCE_RANGES,
        NAT_PREROUTING,
        NAT_OUTPUT,
        SERVICES,
        CLUSTER_IP_CLIENTS,
        NEAR_CLIENTS,
        NEAR_NODE_PORT_CLIENTS,
        MARK_FOR_MASQUERADE,
        FILTER_INPUT,
        FILTER_FORWARD,
        FILTER_OUTPUT,
        UNSERVED_NODE_PORTS,
        UNSERVED,
        CLUSTER_IP_GUARD,
        REJECTED,
        NO_LOCAL_ENDPOINTS,
        NAT_POSTROUTING,
        MASQUERADE,
    ];

    fn position(self) -> usize {
        let all = Self::ALL.iter();
        all.take_while(|it| **it != self).count()
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Which chain of a service port with session affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AffinityChain {
    /// Entry for clients of the ClusterIP.
    ClusterIp,
    /// Entry for external clients, policy Cluster.
    External,
    /// Entry for external clients of an address, policy Local.
    Outside,
    /// Entry for external clients of a NodePort, policy Local.
    OutsideNodePort,
    /// Chooses among the cluster pool.
    Cluster,
    /// Chooses among the local pool.
    Local,
}

impl AffinityChain {
    /// The chain's name for one service port.
    pub(crate) fn of(self, port: &ServicePortName) -> ChainName {
        self.named(port, "")
    }

    /// The chain of the known clients of one block of endpoints.
    pub(crate) fn known(self, port: &ServicePortName, block: usize) -> ChainName {
        self.named(port, &format!("/known-{block}"))
    }

    /// The chain that chooses at random in one block of endpoints.
    pub(crate) fn random(self, port: &ServicePortName, block: usize) -> ChainName {
        self.named(port, &format!("/random-{block}"))
    }

    fn named(self, port: &ServicePortName, suffix: &str) -> ChainName {
        let prefix = match self {
            Self::ClusterIp => "affinity-cluster-ip",
            Self::External => "affinity-external",
            Self::Outside => "affinity-outside",
            Self::OutsideNodePort => "affinity-outside-nodeport",
            Self::Cluster => "affinity",
            Self::Local => "affinity-local",
        };
        ChainName::Named(bounded(format!("{prefix}/{}{suffix}", path(port))).into())
    }
}

/// How the names of sets of remembered clients begin.
pub(crate) const STICKY_PREFIX: &str = "sticky/";

/// Name of the set that holds the clients of a service port.
pub(crate) fn sticky(port: &ServicePortName) -> Arc<str> {
    bounded(format!("{STICKY_PREFIX}{}", path(port))).into()
}

/// `namespace/name/protocol/port`, as kube-proxy's nftables mode writes it.
fn path(port: &ServicePortName) -> String {
    let service = &port.service;
    format!(
        "{}/{}/{}/{}",
        service.namespace, service.name, port.protocol, port.port
    )
}

/// Cuts a name to what the kernel takes; a hash of the whole keeps it unique.
fn bounded(name: String) -> String {
    if name.len() <= MAX_NAME {
        return name;
    }
    // FNV-1a: short, and the same in every release, so that a restart finds its own names.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let end = name.floor_char_boundary(MAX_NAME - 20);
    format!("{}...{hash:016x}", &name[..end])
}
