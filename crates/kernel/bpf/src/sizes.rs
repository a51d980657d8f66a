//! Sizes of maps.

/// How many entries the maps hold, each at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// FRONTENDS.
    pub frontends: u32,
    /// ENDPOINTS.
    pub endpoints: u32,
    /// MEMBERS.
    pub members: u32,
    /// MAGLEV.
    pub maglev: u32,
    /// SOURCES.
    pub sources: u32,
    /// ADDRESSES.
    pub addresses: u32,
    /// FLOWS: three or four for each connection.
    pub flows: u32,
    /// AFFINITY.
    pub affinity: u32,
}

impl Default for Sizes {
    /// A small node: about 1,000 Services and 80,000 connections.
    fn default() -> Self {
        Self {
            frontends: 8_192,
            endpoints: 32_768,
            members: 8_192,
            maglev: 8_192,
            sources: 8_192,
            addresses: 8_192,
            flows: 262_144,
            affinity: 65_536,
        }
    }
}

impl Sizes {
    /// Entries of INTERFACES.
    const INTERFACES: u32 = 4_096;
    /// Entries of FRAGMENTS.
    const FRAGMENTS: u32 = 8_192;
    /// Entries of PEERS, and of SENDERS.
    const PEERS: u32 = 65_536;

    /// No map has to hold anything.
    pub(crate) const NONE: Self = Self {
        frontends: 0,
        endpoints: 0,
        members: 0,
        maglev: 0,
        sources: 0,
        addresses: 0,
        flows: 0,
        affinity: 0,
    };

    /// The sizes by the names of maps.
    pub(crate) fn all(&self) -> [(&'static str, u32); 12] {
        [
            ("FRONTENDS", self.frontends),
            ("ENDPOINTS", self.endpoints),
            ("MEMBERS", self.members),
            ("MAGLEV", self.maglev),
            ("SOURCES", self.sources),
            ("ADDRESSES", self.addresses),
            ("FLOWS", self.flows),
            ("AFFINITY", self.affinity),
            ("INTERFACES", Self::INTERFACES),
            ("FRAGMENTS", Self::FRAGMENTS),
            ("PEERS", Self::PEERS),
            ("SENDERS", Self::PEERS),
        ]
    }
}
