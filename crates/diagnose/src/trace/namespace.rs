//! The network namespace of a pod on this node, by the pod's address.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns};
use sluice_netlink::RequestError;
use sluice_route::{addresses, linked_namespaces, namespace_number};

use super::TraceError;

/// Where iproute2 and the CNI plugins keep names of namespaces.
const NAMED: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// The network namespace of the calling thread.
const HOME: &str = "/proc/thread-self/ns/net";

/// Whether the calling thread's network namespace has this address.
pub(super) fn owns(ip: IpAddr) -> Result<bool, RequestError> {
    Ok(addresses()?.iter().any(|it| it.ip == ip))
}

/// Runs `task` in the network namespace of this machine that owns the address, and returns its file too.
/// Pods of nested clusters may have the address as well: an interface of the pod must lead here.
pub(super) fn inside<T: Send>(
    ip: IpAddr,
    task: impl FnOnce() -> T + Send,
) -> Result<(T, PathBuf), TraceError> {
    let home = File::open(HOME);
    // A thread of its own: without the privilege it cannot come back.
    let search = || {
        let mut unreadable = 0;
        for path in others() {
            let entered = File::open(&path).is_ok_and(|it| {
                let entered = setns(&it, CloneFlags::CLONE_NEWNET);
                entered.is_ok()
            });
            if !entered {
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
fn leads_to(namespace: &File) -> Result<bool, RequestError> {
    // The listing gives a number to every namespace that an interface leads to.
    let linked = linked_namespaces()?;
    let number = namespace_number(namespace.as_fd())?;
    Ok(number.is_some_and(|it| linked.contains(&it)))
}

/// The file of every other network namespace that has a name or a process, each once.
fn others() -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut is_new = |path: &Path| {
        // What cannot be looked at is new: opening it counts it as unreadable.
        fs::metadata(path).map_or(true, |it| seen.insert((it.dev(), it.ino())))
    };
    is_new(Path::new(HOME));
    let named = NAMED.iter().flat_map(|it| entries(Path::new(it)));
    let of_processes = entries(Path::new("/proc"))
        .filter(|it| {
            let name = it.file_name().unwrap_or_default().as_encoded_bytes();
            name.iter().all(u8::is_ascii_digit)
        })
        .map(|it| it.join("ns/net"));
    named.chain(of_processes).filter(|it| is_new(it)).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|it| Some(it.ok()?.path()))
}
