//! Deletes real servers after their last connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use sluice_netlink::ipvs::{Change, RealState};
use sluice_reconcile::{BackendError, Upkeep};

use crate::convert;
use crate::kernel::{self, Kernel};
use crate::object::Server;
use crate::state::State;

/// Deletes drained real servers: after 1 s, then 2 s … 30 s while nothing changes.
///
/// # Errors
///
/// The kernel could not be read or written.
pub(crate) fn upkeep(kernel: &mut Kernel, state: &mut State) -> Result<Upkeep, BackendError> {
    if state.draining.is_empty() {
        state.drain_backoff.succeed();
        return Ok(Upkeep::Nothing);
    }
    let now = Instant::now();
    let left = state.drain_backoff.left(now).unwrap_or_default();
    if left.is_zero() {
        drain(kernel, state)?;
        state.drain_backoff.fail(now);
    }
    Ok(state.drain_backoff.left(now).into())
}

fn drain(kernel: &mut Kernel, state: &mut State) -> Result<(), BackendError> {
    let mut changes = Vec::new();
    let servers: BTreeSet<Server> = state.draining.iter().map(|(server, _)| *server).collect();
    for server in servers {
        let key = convert::key(&server);
        let listed = kernel::real_servers(&mut kernel.ipvs, &key)?;
        let drained = drained(state, &server, &listed).into_iter();
        changes.extend(drained.map(|it| Change::DeleteReal(key, it)));
    }
    let refused = kernel.ipvs.apply(&changes).map_err(kernel::asked)?;
    kernel::all_taken(refused)
}

/// Removes real servers of one virtual server from [`State::draining`] that need not drain any more.
/// Returns those that the kernel has.
fn drained(state: &mut State, server: &Server, listed: &[RealState]) -> Vec<SocketAddr> {
    let listed: BTreeMap<SocketAddr, bool> = listed
        .iter()
        .map(|it| (it.server.address, state.has_to_drain(server, it)))
        .collect();
    let ended = state.draining.extract_if(.., |(of, address)| {
        of == server && listed.get(address) != Some(&true)
    });
    let ended: Vec<SocketAddr> = ended.map(|(_, address)| address).collect();
    if !ended.is_empty() {
        state.drain_backoff.succeed();
    }
    let is_listed = |it: &SocketAddr| listed.contains_key(it);
    ended.into_iter().filter(is_listed).collect()
}

#[cfg(test)]
mod tests {
    use sluice_model::{IpFamily, Protocol};

    use super::*;
    use crate::object::Triple;
    use crate::state::has_to_drain;

    fn real(active: u32, inactive: u32) -> RealState {
        RealState {
            server: convert::real_server("10.244.0.5:8080".parse().unwrap(), 0),
            active,
            inactive,
            connections: 0,
        }
    }

    fn triple(protocol: Protocol) -> Triple {
        Triple {
            ip: "10.96.0.10".parse().unwrap(),
            port: 80,
            protocol,
        }
    }

    #[test]
    fn only_tcp_drains() {
        for (protocol, expected) in [
            (Protocol::Tcp, [false, true, true]),
            (Protocol::Udp, [false; 3]),
            (Protocol::Sctp, [false; 3]),
        ] {
            for server in [
                Server::Address(triple(protocol)),
                Server::NodePort(triple(protocol)),
                Server::Mark(IpFamily::V4, protocol, 0x5800_0001),
            ] {
                let drains = [real(0, 0), real(1, 0), real(0, 1)];
                let drains = drains.map(|it| has_to_drain("rr", &server, &it));
                assert_eq!(drains, expected, "{server}");
            }
        }
    }

    #[test]
    fn a_real_server_is_deleted_without_connections_or_behind_destination_hashing() {
        let server = Server::Address(triple(Protocol::Tcp));
        let address = real(0, 0).server.address;
        let cases = [
            ("rr", Some(real(1, 0)), true, false),
            ("rr", Some(real(0, 0)), false, true),
            ("rr", None, false, false),
            ("dh", Some(real(1, 0)), false, true),
        ];
        for (scheduler, listed, drains, is_deleted) in cases {
            let mut state = State::default();
            state.servers.insert(server, scheduler.into());
            state.draining.insert((server, address));
            let deleted = drained(&mut state, &server, &Vec::from_iter(listed));
            assert_eq!(deleted, Vec::from_iter(is_deleted.then_some(address)));
            assert_eq!(!state.draining.is_empty(), drains, "{scheduler}");
        }
    }
}
