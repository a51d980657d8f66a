//! Sizes of the maps.

use sluice_bpf::MapSize;
use sluice_plane::FLOWS as LIMITS;

use crate::flows::ENTRIES;
use crate::maps::{AFFINITY, FLOWS, PEERS, SENDERS};

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
    /// About 20,000 Services with ten endpoints each, and 80,000 connections. An entry takes memory when it is
    /// written, before that 16 bytes of a table of buckets or twice that; a larger map takes the kernel's check of the
    /// programs once more.
    fn default() -> Self {
        Self {
            frontends: 65_536,
            endpoints: 262_144,
            members: 65_536,
            maglev: 65_536,
            sources: 65_536,
            addresses: 65_536,
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

    /// The names of the maps that are larger here.
    #[must_use]
    pub fn larger_than(&self, other: &Self) -> Vec<&'static str> {
        let both = self.growing().into_iter().zip(other.growing());
        let larger = both.filter(|((_, own), (_, other))| own > other);
        larger.map(|((name, _), _)| name).collect()
    }

    /// These sizes, where FLOWS holds its entries, those of so many more connections, and as many again.
    pub(crate) fn with_room_for(&self, connections: usize, entries: usize) -> Self {
        let each = usize::try_from(ENTRIES).unwrap_or(usize::MAX);
        let wanted = connections.saturating_mul(2 * each).saturating_add(entries);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        if connections == 0 || wanted <= self.flows {
            return *self;
        }
        let flows = wanted.checked_next_power_of_two().unwrap_or(u32::MAX);
        Self {
            flows: flows.min(*LIMITS.end()).max(self.flows),
            ..*self
        }
    }

    /// The sizes by the names of maps, of those that [`grow`](crate::Programs::grow).
    pub(crate) fn growing(&self) -> [MapSize; 7] {
        [
            ("FRONTENDS", self.frontends),
            ("ENDPOINTS", self.endpoints),
            ("MEMBERS", self.members),
            ("MAGLEV", self.maglev),
            ("SOURCES", self.sources),
            ("ADDRESSES", self.addresses),
            (FLOWS, self.flows),
        ]
    }

    /// The sizes by the names of maps.
    pub(crate) fn all(&self) -> Vec<MapSize> {
        let fixed = [
            (AFFINITY, self.affinity),
            ("INTERFACES", Self::INTERFACES),
            ("FRAGMENTS", Self::FRAGMENTS),
            (PEERS, Self::PEERS),
            (SENDERS, Self::PEERS),
        ];
        self.growing().into_iter().chain(fixed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flows: u32, connections: usize, entries: usize, expected: u32) {
        let sizes = Sizes {
            flows,
            ..Sizes::default()
        };
        let found = sizes.with_room_for(connections, entries);
        let expected = Sizes {
            flows: expected,
            ..sizes
        };
        assert_eq!(found, expected, "{flows}: {connections}, {entries}");
    }

    #[test]
    fn translated_connections_have_room_and_as_many_again() {
        check(4096, 0, 5000, 4096);
        check(4096, 512, 0, 4096);
        check(4096, 512, 1, 8192);
        check(4096, 1300, 0, 16_384);
        let limit = *LIMITS.end();
        check(4096, usize::MAX, 0, limit);
        check(limit, usize::MAX, 0, limit);
    }
}
