//! Which clients have so large a part of a table that fills up that they have a limit for a while. Pure.

use std::collections::HashMap;

use sluice_bpf_abi::{Addr, Flow, TCP, Tuple, flow_flags};

use super::is_first;
use super::sweep::ENTRIES;

/// A client may have one in so many of the connections that the table has room for.
const PART: u64 = 8;

/// How many connections each client has. Of TCP those count that no endpoint has answered: many clients may have the address
/// of one load balancer, and what has ended is forgotten within a second.
#[derive(Debug, Default)]
pub(super) struct Clients(HashMap<Addr, u64>);

impl Clients {
    /// Counts a connection, if this is its first entry.
    pub(super) fn count(&mut self, key: &Tuple, first: &Flow) {
        if is_first(first) && !is_answered(key, first) {
            *self.0.entry(key.source).or_default() += 1;
        }
    }

    /// How many more than this the clients have that have too many.
    pub(super) fn surplus(&self, most: u64) -> HashMap<Addr, u64> {
        let exceeding = self.0.iter().filter(|(_, count)| **count > most);
        exceeding.map(|(it, count)| (*it, count - most)).collect()
    }

    /// How many connections a client may open until it has this many.
    pub(super) fn left(&self, client: &Addr, most: u64) -> u32 {
        let count = self.0.get(client).copied().unwrap_or_default();
        u32::try_from(most.saturating_sub(count)).unwrap_or(u32::MAX)
    }
}

/// How many connections a client may have in a table with room for so many entries: an eighth of what it holds.
pub(super) fn most(capacity: u64) -> u64 {
    capacity / ENTRIES / PART
}

/// Whether this is the first entry of a connection of TCP that its endpoint has answered.
fn is_answered(key: &Tuple, first: &Flow) -> bool {
    key.protocol & Tuple::PROTOCOL == u32::from(TCP) && first.flags & flow_flags::ESTABLISHED != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::testing::{ENDPOINT, FRONTEND, tuple};
    use sluice_bpf_abi::{FlowKind, UDP};

    /// Entries of so many connections of a client.
    fn connections(client: u32, count: u16, protocol: u8, flags: u8) -> HashMap<Tuple, Flow> {
        let request = Flow {
            kind: FlowKind::Request as u8,
            flags,
            ..Flow::default()
        };
        let forwarded = Flow {
            kind: FlowKind::Forwarded as u8,
            ..request
        };
        let entries = (0..count).flat_map(|port| {
            [
                (tuple(protocol, (client, port), FRONTEND), request),
                (tuple(protocol, (client, port), ENDPOINT), forwarded),
            ]
        });
        entries.collect()
    }

    #[track_caller]
    fn check(protocol: u8, flags: u8, expected: &[u32]) {
        let mut entries = connections(1, 11, protocol, flags);
        entries.extend(connections(2, 10, protocol, flags));
        let mut clients = Clients::default();
        entries.iter().for_each(|(key, it)| clients.count(key, it));
        let most = most(10 * PART * ENTRIES);
        let surplus = clients.surplus(most);
        let expected: HashMap<Addr, u64> = expected.iter().map(|it| (Addr::v4(*it), 1)).collect();
        assert_eq!(surplus, expected);
        let left = [1, 2, 3].map(|it| clients.left(&Addr::v4(it), most));
        let counted = if expected.is_empty() { 10 } else { 0 };
        assert_eq!(left, [counted, counted, 10]);
    }

    #[test]
    fn who_has_more_than_its_part_is_limited() {
        let open = flow_flags::ESTABLISHED;
        check(UDP, 0, &[1]);
        check(UDP, open, &[1]);
        check(TCP, 0, &[1]);
        check(TCP, open | flow_flags::FIN, &[]);
        check(TCP, flow_flags::RST, &[1]);
        check(TCP, open, &[]);
    }
}
