//! Ends sockets whose endpoint is gone, in every network namespace.
//!
//! A socket that was led to an endpoint never sees the Service again: without this, a client waits for the
//! timeout of a connection to nobody, and one of UDP for ever.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use sluice_bpf::{BpfError, Table};
use sluice_bpf_abi::{Peer, PeerKey};
use sluice_netlink::sock_diag::{self, Connected};
use sluice_netlink::{Errno, RequestError};
use sluice_route::{Namespace, namespaces};
use tracing::debug;

/// Sockets that were led alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Led {
    /// The address that the sockets dialled.
    pub frontend: SocketAddr,
    /// The endpoint that the sockets were led to.
    pub endpoint: SocketAddr,
    /// [`TCP`](sluice_bpf_abi::TCP) or [`UDP`](sluice_bpf_abi::UDP).
    pub protocol: u8,
}

impl Led {
    /// An entry of PEERS.
    #[must_use]
    pub fn of(key: &PeerKey, frontend: &Peer) -> Self {
        Self {
            frontend: SocketAddr::new(frontend.addr.into(), frontend.port),
            endpoint: SocketAddr::new(key.addr.into(), u16::try_from(key.port).unwrap_or_default()),
            protocol: u8::try_from(key.protocol).unwrap_or_default(),
        }
    }
}

/// Ends the connected sockets that were led so: their next call fails with `ECONNABORTED`, and the
/// client dials anew. Unconnected sockets of UDP need it not: their next datagram goes to another endpoint. How
/// many were ended.
///
/// # Errors
///
/// PEERS cannot be read, or the kernel was built without `INET_DIAG_DESTROY`. A single
/// namespace that cannot be looked at is no error.
pub fn destroy_sockets(peers: &mut Table<PeerKey, Peer>, ends: &Led) -> Result<usize, BpfError> {
    let entries = peers.entries()?.into_iter();
    let led = entries.filter(|(key, frontend)| Led::of(key, frontend) == *ends);
    let led: Sockets = led.map(|(key, _)| (key.cookie, key)).collect();
    if led.is_empty() {
        return Ok(0);
    }
    let namespaces = namespaces();
    let ended = thread::scope(|scope| scope.spawn(|| visit(&namespaces, ends, &led)).join());
    let ended = ended.unwrap_or_else(|payload| std::panic::resume_unwind(payload))?;
    for key in &ended {
        peers.remove(key)?;
    }
    Ok(ended.len())
}

/// Keys of PEERS by the socket's cookie.
type Sockets = BTreeMap<u64, PeerKey>;

/// Ends sockets in one namespace after the other. The calling thread stays in the last.
fn visit(namespaces: &[PathBuf], ends: &Led, led: &Sockets) -> Result<Vec<PeerKey>, BpfError> {
    let mut ended = Vec::new();
    for namespace in namespaces {
        // Namespaces come and go at any time.
        if let Err(error) = Namespace::open(namespace).and_then(|it| it.join()) {
            debug!(%error, "a network namespace cannot be entered");
            continue;
        }
        match end(ends, led, &mut ended) {
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => {
                return Err(failed("end a socket")(io::Error::other(error)));
            }
            Err(error) => debug!(%error, "sockets of a network namespace cannot be ended"),
            Ok(()) => {}
        }
    }
    Ok(ended)
}

fn end(ends: &Led, led: &Sockets, ended: &mut Vec<PeerKey>) -> Result<(), RequestError> {
    let key = |it: &Connected| led.get(&it.cookie()).filter(|_| it.peer() == ends.endpoint);
    for socket in sock_diag::connected(ends.protocol, |it| key(it).is_some())? {
        if sock_diag::destroy(&socket)? {
            ended.extend(key(&socket));
        }
    }
    Ok(())
}

fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> BpfError {
    move |error| BpfError::Machine {
        operation,
        source: error.into(),
    }
}
