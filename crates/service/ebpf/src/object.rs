//! The keyed objects that the maps are made of.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use sluice_bpf_abi as abi;
use sluice_plan::{Frontend, Scope};

/// Identity of an element of the maps. The order is the order of writing: whatever an element leads to comes
/// before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The settings of the node.
    Node,
    /// A range of a list of sources.
    Source(ListId, IpNet),
    /// The endpoint in a slot of a service port.
    Endpoint(u32, u32),
    /// The slot of an endpoint that clients may stay with, in one pool.
    Member(u32, Scope, SocketAddr),
    /// A part of Maglev's table of a pool.
    Maglev(u32, Scope, u32),
    /// An address, and what it is.
    Address(AddressKind, IpAddr),
    Frontend(Frontend),
}

/// The number of a list of sources.
pub type ListId = [u32; 2];

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressKind {
    /// A ClusterIP.
    ClusterIp,
    /// An address of the node that answers on NodePorts.
    NodePorts,
}

/// The value of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// Of [`Key::Node`].
    Node(Box<abi::Node>),
    /// Of [`Key::Source`] and [`Key::Address`].
    Present,
    /// Of [`Key::Endpoint`].
    Endpoint(abi::Endpoint),
    /// Of [`Key::Member`].
    Member(u32),
    /// Of [`Key::Maglev`].
    Maglev(Box<abi::MaglevChunk>),
    /// Of [`Key::Frontend`].
    Frontend(abi::Frontend),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => write!(f, "entry of map NODE"),
            Self::Source([high, low], net) => {
                write!(f, "entry {high:08x}{low:08x} {net} of map SOURCES")
            }
            Self::Endpoint(service, slot) => {
                write!(f, "entry {service} slot {slot} of map ENDPOINTS")
            }
            Self::Member(service, scope, addr) => {
                write!(
                    f,
                    "entry {service} {} {addr} of map MEMBERS",
                    pool_name(*scope)
                )
            }
            Self::Maglev(service, scope, chunk) => {
                write!(
                    f,
                    "entry {service} {} part {chunk} of map MAGLEV",
                    pool_name(*scope)
                )
            }
            Self::Address(AddressKind::ClusterIp, ip) => {
                write!(f, "ClusterIP {ip} of map ADDRESSES")
            }
            Self::Address(AddressKind::NodePorts, ip) => {
                write!(f, "address {ip} with NodePorts of map ADDRESSES")
            }
            Self::Frontend(frontend) => write!(f, "entry {frontend} of map FRONTENDS"),
        }
    }
}

/// The name of a pool, for a person.
pub(crate) fn pool_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "cluster",
        Scope::Local => "local",
    }
}
