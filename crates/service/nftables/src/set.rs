//! The named sets and maps that hold Services and endpoints.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Protocol;
use sluice_nft::rule::{Field, Side};
use sluice_nft::shape::{Shape, Value};
use sluice_nft::{Datum, write_fields};

use crate::name::ChainName;

/// A set or map that is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetName {
    /// Virtual IP and port to a chain.
    Frontends,
    /// Virtual IP and port to a chain, for clients on this node where the external policy is Local.
    NearFrontends,
    /// NodePort to a chain.
    NodePorts,
    /// NodePort to a chain, for clients on this node where the external policy is Local.
    NearNodePorts,
    /// Frontend and slot to endpoint.
    Endpoints,
    /// Frontend and slot to endpoint of this node.
    LocalEndpoints,
    /// NodePort and slot to endpoint.
    NodePortEndpoints,
    /// NodePort and slot to endpoint of this node.
    LocalNodePortEndpoints,
    /// Frontends that lead nowhere: dropped or refused.
    NoEndpoints,
    /// NodePorts that lead nowhere: dropped or refused.
    NoEndpointNodePorts,
    /// Frontends with source ranges, to the chain of their list.
    RestrictedFrontends,
    /// ClusterIPs of Services: their undefined ports are refused.
    ClusterIps,
    /// Ranges of ClusterIPs: what no Service has there is dropped.
    ServiceCidrs,
    /// Addresses of the node that answer on NodePorts.
    NodePortIps,
    /// Endpoints of this node that may reach themselves.
    Hairpin,
}

/// The fields that identify an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Address,
    /// A range of addresses.
    Range,
    /// Address, protocol, port.
    Frontend,
    /// Protocol, port.
    NodePort,
    /// Address, protocol, port, slot.
    FrontendSlot,
    /// Protocol, port, slot.
    NodePortSlot,
    /// Source, destination, protocol, port.
    Hairpin,
}

/// A slot of a frontend, which a rule chooses at random.
pub(crate) const SLOT: Field = Field::Random {
    modulus: 1,
    offset: 0,
};
const FROM: Field = Field::Address(Side::Source);
const TO: Field = Field::Address(Side::Destination);
const PORT: Field = Field::Port(Side::Destination);

/// An endpoint, as `dnat` takes it.
const ENDPOINT: &[Field] = &[TO, PORT];

impl KeyKind {
    /// The fields of a packet that are compared with the key.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Address | Self::Range => &[TO],
            Self::Frontend => &[TO, Field::Protocol, PORT],
            Self::NodePort => &[Field::Protocol, PORT],
            Self::FrontendSlot => &[TO, Field::Protocol, PORT, SLOT],
            Self::NodePortSlot => &[Field::Protocol, PORT, SLOT],
            Self::Hairpin => &[FROM, TO, Field::Protocol, PORT],
        }
    }
}

/// The kind of value that an element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Nothing: the element is a member of a set.
    Member,
    /// A chain or a verdict.
    Verdict,
    /// Address and port of an endpoint.
    Endpoint,
}

/// The counts that the data plane keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    #[default]
    Nothing,
    /// The connections that each slot of each frontend got.
    Connections,
}

impl SetName {
    /// Every set, in the order they are listed.
    pub const ALL: [Self; 15] = [
        Self::Frontends,
        Self::NearFrontends,
        Self::NodePorts,
        Self::NearNodePorts,
        Self::Endpoints,
        Self::LocalEndpoints,
        Self::NodePortEndpoints,
        Self::LocalNodePortEndpoints,
        Self::NoEndpoints,
        Self::NoEndpointNodePorts,
        Self::RestrictedFrontends,
        Self::ClusterIps,
        Self::ServiceCidrs,
        Self::NodePortIps,
        Self::Hairpin,
    ];

    /// The name in the kernel.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Frontends => "frontends",
            Self::NearFrontends => "near-frontends",
            Self::NodePorts => "nodeports",
            Self::NearNodePorts => "near-nodeports",
            Self::Endpoints => "endpoints",
            Self::LocalEndpoints => "local-endpoints",
            Self::NodePortEndpoints => "nodeport-endpoints",
            Self::LocalNodePortEndpoints => "local-nodeport-endpoints",
            Self::NoEndpoints => "no-endpoints",
            Self::NoEndpointNodePorts => "no-endpoint-nodeports",
            Self::RestrictedFrontends => "restricted-frontends",
            Self::ClusterIps => "cluster-ips",
            Self::ServiceCidrs => "service-cidrs",
            Self::NodePortIps => "nodeport-ips",
            Self::Hairpin => "hairpin",
        }
    }

    /// One line for the reader of a listing.
    pub const fn comment(self) -> &'static str {
        match self {
            Self::Frontends => "virtual IP and port of a Service: where to",
            Self::NearFrontends => "the same for clients on this node, policy Local",
            Self::NodePorts => "NodePort of a Service: where to",
            Self::NearNodePorts => "the same for clients on this node, policy Local",
            Self::Endpoints => "frontend and slot: endpoint",
            Self::LocalEndpoints => "frontend and slot: endpoint on this node",
            Self::NodePortEndpoints => "NodePort and slot: endpoint",
            Self::LocalNodePortEndpoints => "NodePort and slot: endpoint on this node",
            Self::NoEndpoints => "frontends that lead nowhere",
            Self::NoEndpointNodePorts => "NodePorts that lead nowhere",
            Self::RestrictedFrontends => "frontends with loadBalancerSourceRanges: who may connect",
            Self::ClusterIps => "other ports of these are refused",
            Self::ServiceCidrs => "other addresses in here are dropped",
            Self::NodePortIps => "addresses that answer on NodePorts",
            Self::Hairpin => "local endpoints, masqueraded when they reach themselves",
        }
    }

    /// The fields of its keys.
    pub const fn key(self) -> KeyKind {
        match self {
            Self::Frontends | Self::NearFrontends | Self::NoEndpoints => KeyKind::Frontend,
            Self::RestrictedFrontends => KeyKind::Frontend,
            Self::NodePorts | Self::NearNodePorts | Self::NoEndpointNodePorts => KeyKind::NodePort,
            Self::Endpoints | Self::LocalEndpoints => KeyKind::FrontendSlot,
            Self::NodePortEndpoints | Self::LocalNodePortEndpoints => KeyKind::NodePortSlot,
            Self::ClusterIps => KeyKind::Address,
            Self::ServiceCidrs | Self::NodePortIps => KeyKind::Range,
            Self::Hairpin => KeyKind::Hairpin,
        }
    }

    pub const fn value(self) -> ValueKind {
        match self {
            Self::Frontends | Self::NearFrontends | Self::NodePorts | Self::NearNodePorts => {
                ValueKind::Verdict
            }
            Self::NoEndpoints | Self::NoEndpointNodePorts | Self::RestrictedFrontends => {
                ValueKind::Verdict
            }
            Self::Endpoints
            | Self::LocalEndpoints
            | Self::NodePortEndpoints
            | Self::LocalNodePortEndpoints => ValueKind::Endpoint,
            Self::ClusterIps | Self::ServiceCidrs | Self::NodePortIps | Self::Hairpin => {
                ValueKind::Member
            }
        }
    }

    /// The fields of its keys and values.
    pub(crate) const fn shape(self) -> Shape<'static> {
        Shape {
            key: self.key().fields(),
            value: match self.value() {
                ValueKind::Member => Value::None,
                ValueKind::Verdict => Value::Verdict,
                ValueKind::Endpoint => Value::Fields(ENDPOINT),
            },
        }
    }

    /// The counting of its elements when the data plane counts `wanted`.
    pub(crate) fn counting(self, wanted: Counting) -> Counting {
        match self.value() {
            ValueKind::Endpoint => wanted,
            ValueKind::Member | ValueKind::Verdict => Counting::Nothing,
        }
    }

    /// The set of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Key of an element. Displays as nft writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementKey {
    Address(IpAddr),
    /// A prefix.
    Range(IpNet),
    /// A virtual IP with protocol and port.
    Frontend(IpAddr, Protocol, u16),
    /// Protocol and port of a NodePort.
    NodePort(Protocol, u16),
    /// A frontend and a slot, from 0.
    FrontendSlot(IpAddr, Protocol, u16, u32),
    /// A NodePort and a slot, from 0.
    NodePortSlot(Protocol, u16, u32),
    /// An endpoint that reaches itself.
    Hairpin(IpAddr, Protocol, u16),
    /// A key that we would not write: its bytes, and the end of a range if it has one. An empty key is the catch-all
    /// element.
    Foreign(Box<[u8]>, Option<Box<[u8]>>),
}

impl ElementKey {
    /// The key of the catch-all element.
    pub(crate) fn catch_all() -> Self {
        Self::Foreign(Box::default(), None)
    }

    /// Shows the fields of the key to `show`; `None` for a key that we would not write.
    pub(crate) fn with_fields<T>(&self, show: impl FnOnce(&[Datum]) -> T) -> Option<T> {
        use Datum::{Address, Number, Port};
        let number = |it: &Protocol| Datum::Protocol(it.number());
        Some(match self {
            Self::Address(addr) => show(&[Address(*addr)]),
            Self::Range(net) => show(&[Datum::Range(*net)]),
            Self::Frontend(addr, protocol, port) => {
                show(&[Address(*addr), number(protocol), Port(*port)])
            }
            Self::NodePort(protocol, port) => show(&[number(protocol), Port(*port)]),
            Self::FrontendSlot(addr, protocol, port, slot) => {
                show(&[Address(*addr), number(protocol), Port(*port), Number(*slot)])
            }
            Self::NodePortSlot(protocol, port, slot) => {
                show(&[number(protocol), Port(*port), Number(*slot)])
            }
            Self::Hairpin(addr, protocol, port) => show(&[
                Address(*addr),
                Address(*addr),
                number(protocol),
                Port(*port),
            ]),
            Self::Foreign(..) => return None,
        })
    }
}

impl fmt::Display for ElementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(key, _) if key.is_empty() => f.write_str("*"),
            Self::Foreign(key, _) => {
                f.write_str("0x")?;
                key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            known => known
                .with_fields(|fields| write_fields(f, fields))
                .unwrap_or(Ok(())),
        }
    }
}

/// The value of an element. Displays as nft writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElementValue {
    /// Nothing: a member of a set.
    Member,
    /// A chain that decides.
    Goto(ChainName),
    Endpoint(SocketAddr),
    /// A value that we would not write.
    Foreign,
}

impl fmt::Display for ElementValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member => Ok(()),
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Endpoint(addr) => write!(f, "{} . {}", addr.ip(), addr.port()),
            Self::Foreign => f.write_str("?"),
        }
    }
}

/// An element without its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    pub value: ElementValue,
    /// Comment for people.
    pub comment: Option<Arc<str>>,
}
