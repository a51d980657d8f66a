//! The keyed objects that the data plane is made of.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_model::{IpFamily, Protocol};
use sluice_plane::RuleKey;
pub use sluice_plane::kube_proxy::DEVICE;
use sluice_xtables::rule::{ChainName, Rule, Table};

use crate::set::{Entry, SetName};

/// Identity of an object in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The interface kube-ipvs0.
    Device,
    /// An ipset.
    Set(IpFamily, SetName),
    /// A chain of iptables that is ours alone.
    Chain(IpFamily, Table, ChainName),
    /// The rule of a built-in chain, the first name, that jumps to ours, the second.
    Jump(IpFamily, Table, ChainName, ChainName),
    /// A member of an ipset.
    Member(IpFamily, SetName, Entry),
    /// A virtual server.
    Server(Server),
    /// A real server of a virtual one.
    Real(Server, SocketAddr),
    /// A virtual IP on kube-ipvs0.
    Address(IpAddr),
}

impl Key {
    /// The family that the object belongs to; `None` for what serves both.
    pub fn family(&self) -> Option<IpFamily> {
        match self {
            Self::Device => None,
            Self::Set(family, _)
            | Self::Chain(family, ..)
            | Self::Jump(family, ..)
            | Self::Member(family, ..) => Some(*family),
            Self::Server(server) | Self::Real(server, _) => Some(server.family()),
            Self::Address(ip) => Some(IpFamily::of(ip)),
        }
    }
}

impl RuleKey for Key {
    type Object = Object;

    fn table(&self) -> Option<(IpFamily, &'static str)> {
        match self {
            Self::Chain(family, table, _) | Self::Jump(family, table, ..) => {
                Some((*family, table.as_str()))
            }
            _ => None,
        }
    }

    fn rules(&self, object: &Object) -> usize {
        match object {
            Object::Chain(rules) => rules.len(),
            Object::Jump(_) => 1,
            _ => 0,
        }
    }

    fn usual(&self) -> usize {
        1
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => write!(f, "interface {DEVICE}"),
            Self::Set(family, set) => write!(f, "ipset {}", set.name(*family)),
            Self::Chain(family, table, chain) => write!(f, "{family} chain {table} {chain}"),
            Self::Jump(family, table, from, to) => {
                write!(f, "{family} rule {table} {from} to {to}")
            }
            Self::Member(family, set, entry) => {
                write!(f, "member {entry} of ipset {}", set.name(*family))
            }
            Self::Server(server) => write!(f, "virtual server {server}"),
            Self::Real(server, real) => write!(f, "real server {real} of {server}"),
            Self::Address(ip) => write!(f, "address {ip} of {DEVICE}"),
        }
    }
}

/// The identity of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Server {
    /// A virtual IP with a port.
    Address(Triple),
    /// A NodePort on one address of the node. The kernel does not have it while a virtual IP has the same
    /// address, port and protocol.
    NodePort(Triple),
    /// The mark of packets of near clients. The protocol is encoded in the mark
    /// ([`MarkLayout`](crate::MarkLayout)).
    Mark(IpFamily, Protocol, u32),
}

/// Address, port and protocol of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Triple {
    /// The address.
    pub ip: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
}

impl Triple {
    /// The address and port of a member of a `hash:ip,port`.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        match *entry {
            Entry::AddressPort(ip, protocol, port) => Some(Self { ip, port, protocol }),
            _ => None,
        }
    }
}

/// A frontend in a `hash:ip,port`.
impl From<Triple> for Entry {
    fn from(Triple { ip, port, protocol }: Triple) -> Self {
        Self::AddressPort(ip, protocol, port)
    }
}

impl Server {
    pub fn family(&self) -> IpFamily {
        match self {
            Self::Address(it) | Self::NodePort(it) => IpFamily::of(&it.ip),
            Self::Mark(family, ..) => *family,
        }
    }

    /// The protocol of its clients.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Address(it) | Self::NodePort(it) => it.protocol,
            Self::Mark(_, protocol, _) => *protocol,
        }
    }

    /// Address, port and protocol; `None` for the virtual server of a mark.
    pub fn triple(&self) -> Option<Triple> {
        match self {
            Self::Address(it) | Self::NodePort(it) => Some(*it),
            Self::Mark(..) => None,
        }
    }
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, port, protocol } = *self;
        write!(f, "{}/{protocol}", SocketAddr::new(ip, port))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(it) => write!(f, "{it}"),
            Self::NodePort(it) => write!(f, "{it} (NodePort)"),
            Self::Mark(family, _, mark) => write!(f, "of {family} mark {mark:#x}"),
        }
    }
}

/// The content of an object beside its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A dummy interface.
    Device,
    /// A set of the type that its name has.
    Set,
    Chain(Arc<[Rule]>),
    /// The rule that jumps to our chain.
    Jump(Rule),
    /// A member, and the mark that it carries.
    Member(Option<u32>),
    /// How a virtual server chooses.
    Server(Balancing),
    /// A real server and its share of new connections; 0 gets none.
    Real(u32),
    /// An address; one of IPv6 is deprecated.
    Address,
    /// An object with one of our names, with content that we do not write.
    Foreign,
}

/// How a virtual server chooses among its real servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancing {
    /// Name of the scheduler.
    pub scheduler: Arc<str>,
    /// Options of the scheduler.
    pub hashing: Hashing,
    /// Seconds that a client stays with its real server after its last connection; `None`: no affinity.
    pub persistence: Option<u32>,
}

/// Options of the schedulers that hash the client's address (`sh`, `mh`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hashing {
    /// Chooses another real server when the first one has weight 0.
    pub fallback: bool,
    /// Hashes the client's port, too.
    pub port: bool,
}
