//! The network namespace of a pod on this node, by the pod's address.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;

use sluice_netlink::RequestError;
use sluice_route::{Namespace, addresses, linked_namespaces, namespace_number, namespaces};

use super::TraceError;

/// Whether the calling thread's network namespace has this address.
pub(super) fn owns(ip: IpAddr) -> Result<bool, RequestError> {
    Ok(addresses()?.iter().any(|it| it.ip == ip))
}

/// Runs `task` in the network namespace of this machine that owns the address, and returns its file too.
/// Pods of nested clusters may have the address as well: an interface of the pod must lead here.
pub(crate) fn inside<T: Send>(
    ip: IpAddr,
    task: impl FnOnce() -> T + Send,
) -> Result<(T, PathBuf), TraceError> {
    let home = Namespace::current();
    // A thread of its own: without the privilege it cannot come back.
    let search = || {
        let mut unreadable = 0;
        // The first is that of the calling thread.
        for path in namespaces().into_iter().skip(1) {
            if Namespace::open(&path).and_then(|it| it.join()).is_err() {
                unreadable += 1;
            } else if owns(ip).unwrap_or(false)
                && home.as_ref().is_ok_and(|it| leads_to(it).unwrap_or(false))
            {
                return Ok((task(), path));
            }
        }
        Err(TraceError::Elsewhere {
            source_ip: ip,
            unreadable,
        })
    };
    thread::scope(|scope| scope.spawn(search).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether an interface of the calling thread's network namespace has its other end in that one.
fn leads_to(namespace: &Namespace) -> Result<bool, RequestError> {
    // The listing gives a number to every namespace that an interface leads to.
    let linked = linked_namespaces()?;
    let number = namespace_number(namespace.as_fd())?;
    Ok(number.is_some_and(|it| linked.contains(&it)))
}
