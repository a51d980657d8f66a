//! The maps of the programs.

use std::fmt;
use std::fs::File;
use std::path::Path;

use aya::maps::lpm_trie::Key;
use aya::maps::{Array, LpmTrie, Map, MapData, MapError, PerCpuArray};
use sluice_bpf_abi::{
    AddressKey, Affinity, AffinityKey, Counter, Dns, Endpoint, EndpointKey, Flow, Fragment,
    FragmentKey, Frontend, FrontendKey, Interface, MaglevChunk, MaglevKey, MemberKey, Node, Peer,
    PeerKey, SourceKey, Tuple,
};

use crate::table::{Table, failed, is_errno};
use crate::{BpfError, Pins};

/// The lists of sources: a trie by the longest prefix.
#[derive(Debug)]
pub struct Sources {
    map: LpmTrie<MapData, SourceKey, u8>,
    capacity: u32,
}

impl Sources {
    pub(crate) const NAME: &'static str = "SOURCES";

    fn open(pins: &Pins) -> Result<Self, BpfError> {
        Self::at(&pins.maps().join(Self::NAME))
    }

    /// Opens the map that is pinned at a path.
    pub(crate) fn at(path: &Path) -> Result<Self, BpfError> {
        let data = MapData::from_pin(path).map_err(failed("open", Self::NAME))?;
        let info = data.info();
        let capacity = info
            .map_err(failed("ask for the size", Self::NAME))?
            .max_entries();
        let map = Map::from_map_data(data).and_then(LpmTrie::try_from);
        Ok(Self {
            map: map.map_err(failed("open", Self::NAME))?,
            capacity,
        })
    }

    /// How many ranges it holds at most.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Adds a range. `length`: bits of the list's number and of the address that count.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], also when the map is full.
    pub fn insert(&mut self, length: u32, range: SourceKey) -> Result<(), BpfError> {
        let result = self.map.insert(&Key::new(length, range), 1, 0);
        result.map_err(failed("write an entry", Self::NAME))
    }

    /// Removes a range; whether it was there.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn remove(&mut self, length: u32, range: SourceKey) -> Result<bool, BpfError> {
        match self.map.remove(&Key::new(length, range)) {
            Ok(()) => Ok(true),
            Err(MapError::KeyNotFound) => Ok(false),
            Err(MapError::SyscallError(error)) if is_errno(&error.io_error, nix::libc::ENOENT) => {
                Ok(false)
            }
            Err(error) => Err(failed("remove an entry", Self::NAME)(error)),
        }
    }

    /// Whether a range of the list contains an address, which comes with all its bits.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn contains(&self, length: u32, address: SourceKey) -> Result<bool, BpfError> {
        match self.map.get(&Key::new(length, address), 0) {
            Ok(_) => Ok(true),
            Err(MapError::KeyNotFound) => Ok(false),
            Err(error) => Err(failed("read an entry", Self::NAME)(error)),
        }
    }

    /// Every range with its length.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn entries(&self) -> Result<Vec<(u32, SourceKey)>, BpfError> {
        let mut entries = Vec::new();
        for entry in self.map.iter() {
            match entry {
                Ok((key, _)) => entries.push((key.prefix_len(), key.data())),
                Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(failed("list", Self::NAME)(error)),
            }
        }
        Ok(entries)
    }
}

/// The counters, summed over all processors.
pub struct CounterTable(PerCpuArray<MapData, u64>);

impl fmt::Debug for CounterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CounterTable").finish_non_exhaustive()
    }
}

impl CounterTable {
    const NAME: &'static str = "COUNTERS";

    /// Opens the counters of pins.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        let map = Map::from_map_data(pinned(pins, Self::NAME)?).and_then(PerCpuArray::try_from);
        Ok(Self(map.map_err(failed("open", Self::NAME))?))
    }

    /// Packets counted for a reason, of IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn read(&self, counter: Counter) -> Result<[u64; 2], BpfError> {
        let sum = |index: u32| {
            let values = self.0.get(&index, 0);
            let values = values.map_err(failed("read an entry", Self::NAME))?;
            Ok(values.iter().sum())
        };
        Ok([sum(counter as u32)?, sum(counter as u32 + 1)?])
    }
}

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
    pub sources: Sources,
    /// ClusterIPs, and addresses with NodePorts.
    pub addresses: Table<AddressKey, u32>,
    /// Interfaces by number.
    pub interfaces: Table<u32, Interface>,
    /// The endpoints that clients stay with.
    pub affinity: Table<AffinityKey, Affinity>,
    /// Connections.
    pub flows: Table<Tuple, Flow>,
    /// Ports of fragmented datagrams.
    pub fragments: Table<FragmentKey, Fragment>,
    /// Frontends that sockets dialled.
    pub peers: Table<PeerKey, Peer>,
    /// Endpoints that unconnected sockets send to.
    pub senders: Table<PeerKey, Peer>,
    /// Counters.
    pub counters: CounterTable,
    node: Array<MapData, Node>,
    dns: Array<MapData, Dns>,
    /// Locked by whoever reads NODE to write it: the agent, or one who traces packets.
    folder: File,
}

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

impl Maps {
    const NODE: &'static str = "NODE";
    const DNS: &'static str = "DNS";

    /// Opens the pinned maps.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]: one is not there.
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        let node = Map::from_map_data(pinned(pins, Self::NODE)?).and_then(Array::try_from);
        let dns = Map::from_map_data(pinned(pins, Self::DNS)?).and_then(Array::try_from);
        Ok(Self {
            frontends: Table::open(pins, "FRONTENDS")?,
            endpoints: Table::open(pins, "ENDPOINTS")?,
            members: Table::open(pins, "MEMBERS")?,
            maglev: Table::open(pins, "MAGLEV")?,
            sources: Sources::open(pins)?,
            addresses: Table::open(pins, "ADDRESSES")?,
            interfaces: Table::open(pins, "INTERFACES")?,
            affinity: Table::open(pins, "AFFINITY")?,
            flows: Table::open(pins, "FLOWS")?,
            fragments: Table::open(pins, "FRAGMENTS")?,
            peers: Table::open(pins, "PEERS")?,
            senders: Table::open(pins, "SENDERS")?,
            counters: CounterTable::open(pins)?,
            node: node.map_err(failed("open", Self::NODE))?,
            dns: dns.map_err(failed("open", Self::DNS))?,
            folder: pins.open_maps()?,
        })
    }

    /// The settings of the node; all zeros before the first
    /// [`set_node`](Self::set_node).
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn node(&self) -> Result<Node, BpfError> {
        let value = self.node.get(&0, 0);
        value.map_err(failed("read an entry", Self::NODE))
    }

    /// Replaces what is known of the node's own DNS server.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn set_dns(&mut self, dns: &Dns) -> Result<(), BpfError> {
        let result = self.dns.set(0, dns, 0);
        result.map_err(failed("write an entry", Self::DNS))
    }

    /// Replaces the settings of the node.
    ///
    /// # Errors
    ///
    /// As [`change_node`](Self::change_node).
    pub fn set_node(&mut self, node: &Node) -> Result<(), BpfError> {
        self.change_node(|it| *it = *node)
    }

    /// Changes the settings of the node. Nobody else changes them meanwhile.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], [`BpfError::Machine`].
    pub fn change_node(&mut self, change: impl FnOnce(&mut Node)) -> Result<(), BpfError> {
        let failed_lock = |source: std::io::Error| BpfError::Machine {
            operation: "lock map NODE",
            source: source.into(),
        };
        self.folder.lock().map_err(failed_lock)?;
        let changed = self.node().and_then(|mut node| {
            change(&mut node);
            let result = self.node.set(0, node, 0);
            result.map_err(failed("write an entry", Self::NODE))
        });
        self.folder.unlock().map_err(failed_lock)?;
        changed
    }
}

pub(crate) fn pinned(pins: &Pins, name: &'static str) -> Result<MapData, BpfError> {
    MapData::from_pin(pins.maps().join(name)).map_err(failed("open", name))
}
