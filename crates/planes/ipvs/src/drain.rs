//! Real servers that lose their last connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_netlink::ipvs::{Change, RealState};
use sluice_reconcile::BackendError;

use crate::convert;
use crate::held::Held;
use crate::kernel::{self, Kernel};
use crate::object::Server;

/// Between two looks at real servers, at first.
const SOON: Duration = Duration::from_secs(1);

/// Between two looks at most: as often as kube-proxy looks.
const LATER: Duration = Duration::from_secs(60);

/// When to look next.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The last wait, and when it ends; `None` when nobody waits.
    last: Option<(Duration, Instant)>,
    waiting: usize,
}

impl Pace {
    /// How long until the next look; nothing when the number of those that wait is not that of the
    /// last one.
    pub(crate) fn left(&self, waiting: usize, now: Instant) -> Duration {
        match self.last {
            Some((_, due)) if waiting == self.waiting => due.saturating_duration_since(now),
            _ => Duration::ZERO,
        }
    }

    /// After a look: soon when something changed, ever later while nothing does; `None` when nobody
    /// waits.
    pub(crate) fn next(&mut self, waiting: usize, now: Instant) -> Option<Duration> {
        let changed = waiting != self.waiting;
        self.waiting = waiting;
        let wait = match (waiting, self.last) {
            (0, _) => None,
            (_, Some((last, _))) if !changed => Some((last * 2).min(LATER)),
            _ => Some(SOON),
        };
        self.last = wait.map(|it| (it, now + it));
        wait
    }
}

/// Deletes real servers that have no connection left, when it is time for that. Returns when it is
/// next; `None` when none waits.
///
/// # Errors
///
/// The kernel could not be asked or told.
pub(crate) fn upkeep(
    kernel: &mut Kernel,
    held: &mut Held,
    pace: &mut Pace,
) -> Result<Option<Duration>, BackendError> {
    let left = pace.left(waiting(held), Instant::now());
    if !left.is_zero() {
        return Ok(Some(left));
    }
    drain(kernel, held)?;
    Ok(pace.next(waiting(held), Instant::now()))
}

fn waiting(held: &Held) -> usize {
    held.draining.values().map(BTreeSet::len).sum()
}

fn drain(kernel: &mut Kernel, held: &mut Held) -> Result<(), BackendError> {
    let mut changes = Vec::new();
    let servers: Vec<_> = held.draining.keys().copied().collect();
    for server in servers {
        let key = convert::key(&server);
        let listed = kernel::real_servers(&mut kernel.ipvs, &key)?;
        let gone = drained(held, &server, &listed).into_iter();
        changes.extend(gone.map(|it| Change::DeleteReal(key, it)));
    }
    let refused = kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
    match refused.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(kernel::asked(first.error)),
    }
}

/// Ends the draining of what need not wait any more. Returns those of them that the kernel has.
fn drained(held: &mut Held, server: &Server, listed: &[RealState]) -> Vec<SocketAddr> {
    let draining = held.draining.get(server).cloned().unwrap_or_default();
    let mut there = Vec::new();
    for address in draining {
        let real = listed.iter().find(|it| it.server.address == address);
        if real.is_some_and(|it| held.waits(server, it)) {
            continue;
        }
        held.drained(server, &address);
        there.extend(real.map(|_| address));
    }
    there
}

#[cfg(test)]
mod tests {
    use sluice_model::{IpFamily, Protocol};

    use super::*;
    use crate::apply::has_connections;
    use crate::object::Triple;

    fn real(active: u32, inactive: u32) -> RealState {
        RealState {
            server: convert::real_server("10.244.0.5:8080".parse().unwrap(), 0),
            active,
            inactive,
            connections: 0,
        }
    }

    #[test]
    fn only_tcp_waits_whatever_its_clients_dialled() {
        for (protocol, counts) in [
            (Protocol::Tcp, [false, true, true]),
            (Protocol::Udp, [false; 3]),
            (Protocol::Sctp, [false; 3]),
        ] {
            let triple = Triple {
                ip: "10.96.0.10".parse().unwrap(),
                port: 80,
                protocol,
            };
            for server in [
                Server::Address(triple),
                Server::NodePort(triple),
                Server::Mark(IpFamily::V4, protocol, 0x5800_0001),
            ] {
                let waits = [real(0, 0), real(1, 0), real(0, 1)];
                let waits = waits.map(|it| has_connections(&server, &it));
                assert_eq!(waits, counts, "{server}");
            }
        }
    }

    #[test]
    fn what_drains_goes_when_the_scheduler_has_nobody_else_for_its_clients() {
        let server = Server::Address(Triple {
            ip: "10.96.0.10".parse().unwrap(),
            port: 80,
            protocol: Protocol::Tcp,
        });
        let address = real(0, 0).server.address;
        let cases = [
            ("rr", Some(real(1, 0)), true, false),
            ("rr", Some(real(0, 0)), false, true),
            ("rr", None, false, false),
            ("dh", Some(real(1, 0)), false, true),
        ];
        for (scheduler, listed, waits, is_deleted) in cases {
            let mut held = Held::default();
            held.add_server(server, "rr");
            held.draining.insert(server, [address].into());
            held.add_server(server, scheduler);
            let deleted = drained(&mut held, &server, &Vec::from_iter(listed));
            assert_eq!(deleted, Vec::from_iter(is_deleted.then_some(address)));
            assert_eq!(held.is_draining(&server, &address), waits, "{scheduler}");
        }
    }

    #[test]
    fn looks_become_rare_while_nothing_changes() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut seconds = |waiting| pace.next(waiting, now).map(|it| it.as_secs());
        assert_eq!(seconds(0), None);
        assert_eq!([2, 2, 2, 1, 1].map(&mut seconds), [1, 2, 4, 1, 2].map(Some));
        assert_eq!(seconds(0), None);
        let last = (0..9).map(|_| seconds(3)).last();
        assert_eq!(last, Some(Some(60)));
    }

    #[test]
    fn other_upkeep_does_not_hasten_the_next_look() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(pace.left(2, now), Duration::ZERO);
        pace.next(2, now);
        pace.next(2, now + second);
        assert_eq!(pace.left(2, now + second * 2), second);
        assert_eq!(pace.left(2, now + second * 3), Duration::ZERO);
        assert_eq!(pace.left(3, now + second * 2), Duration::ZERO);
    }
}
