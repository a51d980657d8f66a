//! When connections end. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, UDP, flow_flags};

use super::{is_first, is_translated, keys, rewritten};

/// How long a connection without packets is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, established (`tcpEstablishedTimeout`).
    pub tcp_established: Duration,
    /// TCP, closed by one side (`tcpCloseWaitTimeout`), or perhaps reset.
    pub tcp_close_wait: Duration,
    /// TCP before the handshake is complete.
    pub tcp_opening: Duration,
    /// TCP closed by both sides, or reset: packets on their way are still translated.
    pub tcp_closed: Duration,
    /// UDP: a question and its answer, or none (`udpTimeout`). SCTP without an answer.
    pub udp: Duration,
    /// UDP of a client that goes on and is answered ([`sluice_bpf_abi::STREAM_SECONDS`]), and SCTP with answers
    /// (`udpStreamTimeout`).
    pub udp_stream: Duration,
}

impl Default for Timeouts {
    /// kube-proxy's for TCP, netfilter's for the rest (`nf_conntrack_tcp_timeout_syn_recv`,
    /// `nf_conntrack_tcp_timeout_close`, `nf_conntrack_udp_timeout`).
    fn default() -> Self {
        Self {
            tcp_established: Duration::from_secs(86_400),
            tcp_close_wait: Duration::from_secs(3_600),
            tcp_opening: Duration::from_secs(60),
            tcp_closed: Duration::from_secs(10),
            udp: Duration::from_secs(30),
            udp_stream: Duration::from_secs(120),
        }
    }
}

/// An entry whose connection's other entries are gone.
const ORPHANED: Duration = Duration::from_secs(60);

/// Whether a connection has the entries that it works with. One that lost an entry, which the kernel refused or another
/// connection took, would stay broken for as long as its client sends.
fn is_whole((key, first): (&Tuple, &Flow), all: &[(&Tuple, &Flow)]) -> bool {
    let has = |kind: FlowKind| all.iter().any(|it| it.1.kind == kind as u8);
    if first.kind == FlowKind::Direct as u8 {
        return !is_translated(key, first) || has(FlowKind::Unmasquerade);
    }
    has(FlowKind::Forwarded) && (first.flags & flow_flags::DSR != 0 || has(FlowKind::Reply))
}

/// Whether a connection has ended, and its other entries are those of a later one: its client dialled the same endpoint by
/// way of another frontend, from the same port. The answers go to the one that has them.
fn is_outlived((key, first): (&Tuple, &Flow), all: &[(&Tuple, &Flow)]) -> bool {
    let dialled = Tuple {
        protocol: key.protocol & Tuple::PROTOCOL,
        ..*key
    };
    let mut answers = all.iter().filter(|it| it.1.kind == FlowKind::Reply as u8);
    first.kind == FlowKind::Request as u8
        && first.flags & flow_flags::DSR == 0
        && answers.any(|(key, reply)| rewritten(key, reply).reversed() != dialled)
}

/// Whether a client dialled the endpoint itself from the port of this connection.
fn has_beside(key: &Tuple, first: &Flow, entries: &HashMap<Tuple, Flow>) -> bool {
    let mut beside = rewritten(key, first);
    beside.protocol |= Tuple::BESIDE;
    beside != *key && entries.contains_key(&beside)
}

impl Timeouts {
    /// Those of a table that fills up: a client that dials without end, or never answers, must leave room for others, since
    /// a full table takes no new connections.
    #[must_use]
    pub(super) fn pressed(self) -> Self {
        Self {
            tcp_opening: self.tcp_opening.min(Duration::from_secs(5)),
            tcp_closed: self.tcp_closed.min(Duration::from_secs(1)),
            udp: self.udp.min(Duration::from_secs(5)),
            ..self
        }
    }

    /// The connections whose time has come, at `now` in seconds of `CLOCK_MONOTONIC`: the keys of their entries, the
    /// request's first. All entries of a connection go together, when the newest is old enough. A connection beside
    /// another one is found by way of that one's entries, so those stay until it goes.
    pub(super) fn expired(&self, entries: &HashMap<Tuple, Flow>, now: u32) -> Vec<Vec<Tuple>> {
        let age = |it: &Flow| Duration::from_secs(now.saturating_sub(it.seen_seconds).into());
        let mut expired = Vec::new();
        let mut owned: HashSet<&Tuple> = HashSet::with_capacity(entries.len());
        for (key, first) in entries.iter().filter(|(_, it)| is_first(it)) {
            let all = keys(key, first, |it| entries.get(it).copied());
            // References to the table's own keys: a copy of each would take as much memory as the table.
            let all: Vec<(&Tuple, &Flow)> =
                all.filter_map(|it| entries.get_key_value(&it)).collect();
            if is_outlived((key, first), &all) {
                owned.insert(key);
                expired.push(vec![*key]);
                continue;
            }
            let flows = || all.iter().map(|it| it.1);
            let youngest = flows().map(age).min().unwrap_or_default();
            owned.extend(all.iter().map(|it| it.0));
            let has_ended =
                || youngest >= self.of((key, first), flows()) && !has_beside(key, first, entries);
            if !is_whole((key, first), &all) || has_ended() {
                expired.push(all.iter().map(|it| *it.0).collect());
            }
        }
        let orphans = entries.iter().filter(|(key, _)| !owned.contains(key));
        let orphans = orphans.filter(|(_, it)| age(it) >= ORPHANED);
        expired.extend(orphans.map(|(key, _)| vec![*key]));
        expired
    }

    /// Whether a connection may have expired that was never open, or that its client has ended: as far as its first entry
    /// tells.
    pub(super) fn may_have_expired(&self, key: &Tuple, first: &Flow, now: u32) -> bool {
        let has = |flags: u8| first.flags & flags != 0;
        let protocol = key.protocol & Tuple::PROTOCOL;
        let least = match () {
            () if protocol == u32::from(TCP) && has(flow_flags::FIN | flow_flags::RST) => {
                self.tcp_closed
            }
            () if has(flow_flags::ESTABLISHED) => return false,
            () if protocol == u32::from(TCP) => self.tcp_opening,
            () => self.udp,
        };
        let age = now.saturating_sub(first.seen_seconds);
        is_first(first) && u64::from(age) >= least.as_secs()
    }

    /// The timeout of a connection with these entries.
    fn of<'a>(
        &self,
        (key, first): (&Tuple, &Flow),
        flows: impl Iterator<Item = &'a Flow>,
    ) -> Duration {
        let (mut client, mut endpoint, mut entries) = (0, 0, 0);
        let mut is_perhaps_reset = false;
        for flow in flows {
            entries += 1;
            is_perhaps_reset |= flow.unchecked_reset != 0;
            if is_first(flow) || flow.kind == FlowKind::Forwarded as u8 {
                client |= flow.flags;
            } else {
                endpoint |= flow.flags;
            }
        }
        // An entry Direct whose packets pass: those of the other direction have none.
        if entries == 1 {
            endpoint = client;
        }
        let (any, both) = (client | endpoint, client & endpoint);
        let protocol = key.protocol & Tuple::PROTOCOL;
        if protocol != u32::from(TCP) {
            let goes_on = protocol != u32::from(UDP) || first.flags & flow_flags::ESTABLISHED != 0;
            return match endpoint & flow_flags::ESTABLISHED {
                flow_flags::ESTABLISHED if goes_on => self.udp_stream,
                _ => self.udp,
            };
        }
        match () {
            () if any & flow_flags::RST != 0 || both & flow_flags::FIN != 0 => self.tcp_closed,
            // The endpoint's own end does not pass here.
            () if client & flow_flags::FIN != 0 && client & flow_flags::DSR != 0 => self.tcp_closed,
            () if any & flow_flags::FIN != 0 || is_perhaps_reset => self.tcp_close_wait,
            () if any & flow_flags::ESTABLISHED == 0 => self.tcp_opening,
            () => self.tcp_established,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::testing::{CLIENT, ENDPOINT, FRONTEND, NODE, connection, tuple};
    use sluice_bpf_abi::SCTP;

    #[track_caller]
    fn check(protocol: u8, seen: [u32; 4], flags: [u8; 4], now: u32, expected: usize) {
        let entries = connection(protocol, seen, flags);
        let expired = Timeouts::default().expired(&entries, now).concat();
        assert_eq!(expired.len(), expected, "{expired:?}");
    }

    #[test]
    fn a_connection_lives_as_long_as_its_newest_entry() {
        let open = [flow_flags::ESTABLISHED; 4];
        check(TCP, [0, 0, 0, 0], open, 86_399, 0);
        check(TCP, [0, 0, 0, 0], open, 86_400, 4);
        // Only the endpoint sends, as with a stream of events.
        check(TCP, [0, 0, 500, 0], open, 86_400, 0);
    }

    #[test]
    fn states_of_tcp_have_timeouts() {
        let (fin, rst, open) = (flow_flags::FIN, flow_flags::RST, flow_flags::ESTABLISHED);
        check(TCP, [0; 4], [0; 4], 59, 0);
        check(TCP, [0; 4], [0; 4], 60, 4);
        check(TCP, [0; 4], [open | fin, open, open, open], 3_599, 0);
        check(TCP, [0; 4], [open | fin, open, open, open], 3_600, 4);
        check(TCP, [0; 4], [open | fin, open, open, open | fin], 10, 4);
        check(TCP, [0; 4], [open, open, open | rst, open], 10, 4);
    }

    #[test]
    fn a_reset_that_was_not_checked_shortens_the_time() {
        let open = [flow_flags::ESTABLISHED; 4];
        for key in [tuple(TCP, CLIENT, FRONTEND), tuple(TCP, ENDPOINT, CLIENT)] {
            let mut entries = connection(TCP, [0; 4], open);
            entries
                .get_mut(&key)
                .expect("it is an entry")
                .unchecked_reset = 1;
            let expired = |now| Timeouts::default().expired(&entries, now).concat().len();
            assert_eq!((expired(3_599), expired(3_600)), (0, 4));
        }
    }

    #[test]
    fn a_table_that_fills_up_forgets_what_ended() {
        let (fin, open) = (flow_flags::FIN, flow_flags::ESTABLISHED);
        let expired = |protocol, flags, now| {
            let entries = connection(protocol, [0; 4], flags);
            let expired = Timeouts::default().pressed().expired(&entries, now);
            expired.concat().len()
        };
        assert_eq!(expired(TCP, [open | fin, open, open, open | fin], 1), 4);
        assert_eq!(expired(TCP, [0; 4], 5), 4);
        assert_eq!(expired(UDP, [open, open, 0, 0], 5), 4);
        assert_eq!(expired(TCP, [open; 4], 3_600), 0);
        assert_eq!(expired(UDP, [open; 4], 100), 0);
    }

    /// A direct connection from another port, and one whose packets pass.
    #[test]
    fn connections_of_no_service_end() {
        let open = flow_flags::ESTABLISHED;
        for (is_passing, size) in [(true, 1), (false, 2)] {
            let gone = |protocol, flags: u8, now| {
                let entries = direct(protocol, is_passing, flags);
                let expired = Timeouts::default().expired(&entries, now).concat();
                assert!([0, size].contains(&expired.len()), "{expired:?}");
                !expired.is_empty()
            };
            assert!(!gone(TCP, open, 86_399) && gone(TCP, open, 86_400));
            assert!(!gone(TCP, open | flow_flags::FIN, 9) && gone(TCP, open | flow_flags::FIN, 10));
            assert!(!gone(UDP, open, 119) && gone(UDP, open, 120));
            assert!(!gone(UDP, 0, 29) && gone(UDP, 0, 30));
        }
    }

    /// A client dials another frontend of the endpoint from the port of a connection that has ended. What remains of that
    /// one goes, and takes nothing with it.
    #[test]
    fn a_later_connection_keeps_its_entries() {
        let open = flow_flags::ESTABLISHED;
        let mut entries = connection(TCP, [0; 4], [open; 4]);
        let ended = tuple(TCP, CLIENT, (9, 443));
        let mut request = entries[&tuple(TCP, CLIENT, FRONTEND)];
        request.flags |= flow_flags::RST;
        entries.insert(ended, request);
        assert_eq!(Timeouts::default().expired(&entries, 100), [[ended]]);
    }

    #[test]
    fn a_connection_stays_for_the_one_beside_it() {
        let mut entries = connection(TCP, [0; 4], [flow_flags::RST; 4]);
        let mut direct = tuple(TCP, CLIENT, ENDPOINT);
        direct.protocol |= Tuple::BESIDE;
        let value = Flow {
            flags: flow_flags::ESTABLISHED,
            ..of_direct(&tuple(TCP, CLIENT, NODE))
        };
        entries.insert(direct, value);
        let back = Flow {
            kind: FlowKind::Unmasquerade as u8,
            ..value
        };
        entries.insert(tuple(TCP, NODE, CLIENT), back);
        let expired = |entries: &HashMap<Tuple, Flow>| {
            Timeouts::default().expired(entries, 100).concat().len()
        };
        assert_eq!(expired(&entries), 0);
        entries.remove(&direct);
        entries.remove(&tuple(TCP, NODE, CLIENT));
        assert_eq!(expired(&entries), 4);
    }

    fn of_direct(to: &Tuple) -> Flow {
        let mut flow = Flow {
            kind: FlowKind::Direct as u8,
            ..Flow::default()
        };
        flow.source.set(&to.source);
        flow.destination.set(&to.destination);
        (flow.source_port, flow.destination_port) = (to.source_port, to.destination_port);
        flow
    }

    /// The entries of a connection of no Service: one that passes, or two for one that leaves from another port.
    fn direct(protocol: u8, is_passing: bool, flags: u8) -> HashMap<Tuple, Flow> {
        let key = tuple(protocol, CLIENT, ENDPOINT);
        let mut to = key;
        to.source_port += u16::from(!is_passing);
        let first = Flow {
            flags,
            ..of_direct(&to)
        };
        let mut entries = HashMap::from([(key, first)]);
        if !is_passing {
            let back = Flow {
                flags,
                kind: FlowKind::Unmasquerade as u8,
                ..of_direct(&key.reversed())
            };
            entries.insert(to.reversed(), back);
        }
        entries
    }

    #[test]
    fn answers_to_a_client_that_goes_on_make_a_stream_of_udp() {
        let open = flow_flags::ESTABLISHED;
        check(UDP, [0; 4], [open, open, 0, 0], 30, 4);
        // A question and its answer.
        check(UDP, [0; 4], [0, open, open, open], 29, 0);
        check(UDP, [0; 4], [0, open, open, open], 30, 4);
        check(SCTP, [0; 4], [0, open, open, open], 119, 0);
        check(UDP, [0; 4], [open, open, open, open], 119, 0);
        check(UDP, [0; 4], [open, open, open, open], 120, 4);
    }

    #[test]
    fn entries_without_their_connection_go_soon() {
        let mut entries = connection(TCP, [0; 4], [flow_flags::ESTABLISHED; 4]);
        entries.remove(&tuple(TCP, CLIENT, FRONTEND));
        let expired = |now| Timeouts::default().expired(&entries, now).concat().len();
        assert_eq!(expired(59), 0);
        assert_eq!(expired(60), 3);
    }
}
