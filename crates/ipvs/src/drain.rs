//! Real servers that lose their last connections.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_core::backend::BackendError;
use sluice_netlink::ipvs::{Change, RealState};

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
    last: Option<Duration>,
    waiting: usize,
}

impl Pace {
    /// Soon after something changed, ever later while nothing does; `None` when nobody waits.
    pub(crate) fn next(&mut self, waiting: usize) -> Option<Duration> {
        let changed = waiting != self.waiting;
        self.waiting = waiting;
        self.last = match (waiting, self.last) {
            (0, _) => None,
            (_, Some(last)) if !changed => Some((last * 2).min(LATER)),
            _ => Some(SOON),
        };
        self.last
    }
}

/// Deletes real servers that have no connection left. Returns how many still have some.
///
/// # Errors
///
/// The kernel could not be asked or told.
pub(crate) fn drain(kernel: &mut Kernel, held: &mut Held) -> Result<usize, BackendError> {
    let mut changes = Vec::new();
    let servers: Vec<_> = held.draining.keys().copied().collect();
    for server in servers {
        let key = convert::key(&server);
        let listed = kernel::real_servers(&mut kernel.ipvs, &key)?;
        let gone = drained(held, &server, &listed).into_iter();
        changes.extend(gone.map(|it| Change::DeleteReal(key, it)));
    }
    let refused = kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
    if let Some(first) = refused.into_iter().next() {
        return Err(kernel::asked(first.error));
    }
    Ok(held
        .draining
        .values()
        .map(std::collections::BTreeSet::len)
        .sum())
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
    use sluice_core::model::{IpFamily, Protocol};
    use sluice_netlink::ipvs::Statistics;

    use super::*;
    use crate::apply::has_connections;
    use crate::object::Triple;

    fn real(active: u32, inactive: u32) -> RealState {
        RealState {
            server: convert::real_server("10.244.0.5:8080".parse().unwrap(), 0),
            active,
            inactive,
            persistent: 0,
            statistics: Statistics::default(),
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
        let mut pace = Pace::default();
        let mut seconds = |waiting| pace.next(waiting).map(|it| it.as_secs());
        assert_eq!(seconds(0), None);
        assert_eq!([2, 2, 2, 1, 1].map(&mut seconds), [1, 2, 4, 1, 2].map(Some));
        assert_eq!(seconds(0), None);
        let last = (0..9).map(|_| seconds(3)).last();
        assert_eq!(last, Some(Some(60)));
    }
}
