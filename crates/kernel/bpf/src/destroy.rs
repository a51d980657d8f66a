//! Ends sockets whose endpoint is gone, in every network namespace.
//!
//! A socket that was led to an endpoint never sees the Service again: without this, a client waits for the
//! timeout of a connection to nobody, and one of UDP for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::thread;

use nix::sched::{CloneFlags, setns};
use sluice_bpf_abi::PeerKey;
use sluice_netlink::sock_diag::{self, Connected};
use sluice_netlink::{Errno, RequestError};
use tracing::debug;

use crate::{BpfError, Maps};

/// An endpoint that a Service has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gone {
    /// Id of the service port.
    pub service: u32,
    /// The endpoint.
    pub addr: SocketAddr,
    /// [`TCP`](sluice_bpf_abi::TCP) or [`UDP`](sluice_bpf_abi::UDP).
    pub protocol: u8,
}

/// Ends the connected sockets that were led to these endpoints: their next call fails with `ECONNABORTED`, and the
/// client dials anew. Unconnected sockets of UDP need it not: their next datagram goes to another endpoint. How
/// many were ended.
///
/// # Errors
///
/// PEERS or the list of processes cannot be read, or the kernel was built without `INET_DIAG_DESTROY`. A single
/// namespace that cannot be looked at is no error.
pub fn destroy_sockets(maps: &mut Maps, gone: &BTreeSet<Gone>) -> Result<usize, BpfError> {
    let mut led = BTreeMap::new();
    if !gone.is_empty() {
        for (key, frontend) in maps.peers.entries()? {
            let addr = SocketAddr::new(key.addr.into(), u16::try_from(key.port).unwrap_or(0));
            let protocol = u8::try_from(key.protocol).unwrap_or(0);
            let service = frontend.service;
            let it = Gone {
                service,
                addr,
                protocol,
            };
            if gone.contains(&it) {
                led.insert((key.cookie, addr, protocol), key);
            }
        }
    }
    if led.is_empty() {
        return Ok(0);
    }
    let namespaces = namespaces().map_err(failed("list the network namespaces"))?;
    let ended = thread::scope(|scope| scope.spawn(|| visit(&namespaces, &led)).join());
    let ended = ended.unwrap_or_else(|payload| std::panic::resume_unwind(payload))?;
    for key in &ended {
        maps.peers.remove(key)?;
    }
    Ok(ended.len())
}

/// Sockets that were led to an endpoint, by cookie, endpoint and protocol.
type Led = BTreeMap<(u64, SocketAddr, u8), PeerKey>;

/// Ends sockets in one namespace after the other. The calling thread stays in the last.
fn visit(namespaces: &[File], led: &Led) -> Result<Vec<PeerKey>, BpfError> {
    let protocols: BTreeSet<u8> = led.keys().map(|(.., protocol)| *protocol).collect();
    let mut ended = Vec::new();
    for namespace in namespaces {
        if let Err(error) = setns(namespace, CloneFlags::CLONE_NEWNET) {
            debug!(%error, "a network namespace cannot be entered");
            continue;
        }
        for protocol in &protocols {
            match end(*protocol, led, &mut ended) {
                Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => {
                    return Err(failed("end a socket")(io::Error::other(error)));
                }
                Err(error) => debug!(%error, "sockets of a network namespace cannot be ended"),
                Ok(()) => {}
            }
        }
    }
    Ok(ended)
}

fn end(protocol: u8, led: &Led, ended: &mut Vec<PeerKey>) -> Result<(), RequestError> {
    let key = |it: &Connected| led.get(&(it.cookie(), it.peer(), protocol));
    for socket in sock_diag::connected(protocol, |it| key(it).is_some())? {
        if sock_diag::destroy(&socket)? {
            ended.extend(key(&socket));
        }
    }
    Ok(())
}

/// Every network namespace that a process is in, and that of the calling thread.
fn namespaces() -> io::Result<Vec<File>> {
    let own = File::open("/proc/thread-self/ns/net")?;
    let mut found = BTreeMap::from([(own.metadata()?.ino(), own)]);
    for entry in fs::read_dir("/proc")?.flatten() {
        let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        let path = entry.path().join("ns/net");
        // Processes end at any time. What is not open has no namespace to look at.
        let Some(number) = fs::metadata(&path).ok().filter(|_| is_process) else {
            continue;
        };
        if found.contains_key(&number.ino()) {
            continue;
        }
        if let Ok(namespace) = File::open(&path) {
            found.insert(number.ino(), namespace);
        }
    }
    Ok(found.into_values().collect())
}

fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> BpfError {
    move |error| BpfError::Machine {
        operation,
        source: error.into(),
    }
}
