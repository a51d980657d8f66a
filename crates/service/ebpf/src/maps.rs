//! The maps of the programs.

use std::fmt;

use sluice_bpf::{BpfError, Counters, Pins, Prefix, Ring, Single, Table};
use sluice_bpf_abi::{
    Addr, AddressKey, Affinity, AffinityKey, Allowance, Counter, Dns, Endpoint, EndpointKey, Event,
    Flow, Fragment, FragmentKey, Frontend, FrontendKey, Interface, MaglevChunk, MaglevKey,
    MemberKey, Node, Peer, PeerKey, Ports, RoutedKey, SourceKey, Tuple,
};

/// The map whose entries the programs write while it grows.
pub(crate) const FLOWS: &str = "FLOWS";
/// The node's addresses, and the broadcasts of their networks (hash by [`Addr`], value `u32` 1).
pub(crate) const OWN: &str = "OWN";
/// What clients may open that had a large part of FLOWS (hash by [`Addr`], value [`Allowance`]).
pub(crate) const ALLOWANCES: &str = "ALLOWANCES";
/// The endpoints that clients stay with.
pub(crate) const AFFINITY: &str = "AFFINITY";
/// The frontends that sockets dialled.
pub(crate) const PEERS: &str = "PEERS";
/// The endpoints that unconnected sockets send to.
pub(crate) const SENDERS: &str = "SENDERS";
const COUNTERS: &str = "COUNTERS";
const EVENTS: &str = "EVENTS";

/// All maps that are pinned.
pub(crate) const NAMES: [&str; 20] = [
    "FRONTENDS",
    "PORTS",
    "ENDPOINTS",
    "MEMBERS",
    "MAGLEV",
    "SOURCES",
    "ADDRESSES",
    FLOWS,
    ALLOWANCES,
    AFFINITY,
    "INTERFACES",
    OWN,
    "ROUTED",
    "FRAGMENTS",
    PEERS,
    SENDERS,
    "NODE",
    "DNS",
    COUNTERS,
    EVENTS,
];

/// Every map that the agent reads or writes. Each value has connections of its own to the kernel.
pub struct Maps {
    /// What clients dial.
    pub frontends: Table<FrontendKey, Frontend>,
    /// Endpoints by service port and slot.
    pub endpoints: Table<EndpointKey, Endpoint>,
    /// Slots by endpoint, where clients stay with one.
    pub members: Table<MemberKey, u32>,
    /// Maglev's tables.
    pub maglev: Table<MaglevKey, MaglevChunk>,
    /// Lists of sources.
    pub sources: Table<Prefix<SourceKey>, u8>,
    /// ClusterIPs, and addresses with NodePorts.
    pub addresses: Table<AddressKey, u32>,
    /// Interfaces by number.
    pub interfaces: Table<u32, Interface>,
    /// The routes through interfaces of pods.
    pub routed: Table<Prefix<RoutedKey>, u8>,
    /// The endpoints that clients stay with.
    pub affinity: Table<AffinityKey, Affinity>,
    /// Connections.
    pub flows: Table<Tuple, Flow>,
    /// What clients may open that had a large part of the connections.
    pub allowances: Table<Addr, Allowance>,
    /// Ports of fragmented datagrams.
    pub fragments: Table<FragmentKey, Fragment>,
    /// Frontends that sockets dialled.
    pub peers: Table<PeerKey, Peer>,
    /// Endpoints that unconnected sockets send to.
    pub senders: Table<PeerKey, Peer>,
    pub counters: CounterTable,
    node: Single<Node>,
    dns: Single<Dns>,
    ports: Single<Ports>,
}

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

impl Maps {
    /// Opens the pinned maps.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]: one is not there.
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        Ok(Self {
            frontends: Table::open(pins, "FRONTENDS")?,
            endpoints: Table::open(pins, "ENDPOINTS")?,
            members: Table::open(pins, "MEMBERS")?,
            maglev: Table::open(pins, "MAGLEV")?,
            sources: Table::open(pins, "SOURCES")?,
            addresses: Table::open(pins, "ADDRESSES")?,
            interfaces: Table::open(pins, "INTERFACES")?,
            routed: Table::open(pins, "ROUTED")?,
            affinity: Table::open(pins, AFFINITY)?,
            flows: Table::open(pins, FLOWS)?,
            allowances: Table::open(pins, ALLOWANCES)?,
            fragments: Table::open(pins, "FRAGMENTS")?,
            peers: Table::open(pins, PEERS)?,
            senders: Table::open(pins, SENDERS)?,
            counters: CounterTable::open(pins)?,
            node: Single::open(pins, "NODE")?,
            dns: Single::open(pins, "DNS")?,
            ports: Single::open(pins, "PORTS")?,
        })
    }

    /// The settings of the node; all zeros before the first [`set_node`](Self::set_node).
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn node(&self) -> Result<Node, BpfError> {
        self.node.get()
    }

    /// Replaces what is known of the node's own DNS server.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn set_dns(&mut self, dns: &Dns) -> Result<(), BpfError> {
        self.dns.set(dns)
    }

    /// Changes which ports frontends have. No other process changes them meanwhile.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], [`BpfError::Machine`].
    pub fn change_ports(&mut self, change: impl FnOnce(&mut Ports)) -> Result<(), BpfError> {
        self.ports.change(change)
    }

    /// Replaces the settings of the node.
    ///
    /// # Errors
    ///
    /// As [`change_node`](Self::change_node).
    pub fn set_node(&mut self, node: &Node) -> Result<(), BpfError> {
        self.change_node(|it| *it = *node)
    }

    /// Changes the settings of the node: the agent does, and one who traces packets. No other process changes them
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], [`BpfError::Machine`].
    pub fn change_node(&mut self, change: impl FnOnce(&mut Node)) -> Result<(), BpfError> {
        self.node.change(change)
    }
}

/// The counters, summed over all processors.
#[derive(Debug)]
pub struct CounterTable(Counters);

impl CounterTable {
    /// Opens the counters of pins.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        Counters::open(pins, COUNTERS).map(Self)
    }

    /// Packets counted for a reason, of IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn read(&self, counter: Counter) -> Result<[u64; 2], BpfError> {
        let index = counter as u32;
        Ok([self.0.sum(index)?, self.0.sum(index + 1)?])
    }
}

/// Opens the buffer of what programs did with packets.
///
/// # Errors
///
/// [`BpfError::Map`]; [`BpfError::Busy`] while another reader lives.
pub(crate) fn events(pins: &Pins) -> Result<Ring<Event>, BpfError> {
    Ring::open(pins, EVENTS)
}
