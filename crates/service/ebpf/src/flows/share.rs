//! Which clients have so large a part of a table that fills up that they open nothing more for a while. Pure.

use std::collections::{BTreeSet, HashMap};

use sluice_bpf_abi::{Addr, Flow, TCP, Tuple, flow_flags};

use super::is_first;
use super::sweep::ENTRIES;

/// A client may have this part of the connections that the table has room for.
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

    /// Those that have more than an eighth of the connections that a table of this capacity holds.
    pub(super) fn exceeding(&self, capacity: u64) -> BTreeSet<Addr> {
        let most = capacity / ENTRIES / PART;
        let exceeding = self.0.iter().filter(|(_, count)| **count > most);
        exceeding.map(|(client, _)| *client).collect()
    }
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
        let exceeding = clients.exceeding(10 * PART * ENTRIES);
        assert_eq!(exceeding, expected.iter().map(|it| Addr::v4(*it)).collect());
    }

    #[test]
    fn who_has_more_than_its_part_opens_nothing() {
        let open = flow_flags::ESTABLISHED;
        check(UDP, 0, &[1]);
        check(UDP, open, &[1]);
        check(TCP, 0, &[1]);
        check(TCP, open | flow_flags::FIN, &[]);
        check(TCP, flow_flags::RST, &[1]);
        check(TCP, open, &[]);
    }
}
