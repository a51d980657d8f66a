//! Deletes UDP connection-tracking entries that lead to endpoints that are gone.
//!
//! ```text
//! Agent ──StaleFlows──▶ channel ─▶ merge: the latest list per frontend ─▶ dump ─▶ delete
//!                                         ▲───────── retry with backoff ◀────┘
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use sluice_core::model::{IpFamily, Protocol};
use sluice_core::plan::Frontend;
use sluice_core::stale::StaleFlows;
use sluice_netlink::conntrack::{Conntrack, Flow, FlowFilter};
use sluice_netlink::nftables::Family;
use tracing::{debug, info, warn};

use crate::agent::chain;
use crate::node;
use crate::pace::Backoff;

/// Up to this many frontends are asked for one by one, so that the kernel filters. Beyond, one
/// dump of all UDP flows of a family is cheaper: the kernel walks its whole table either way.
const FILTERED: usize = 32;

/// What to delete: by frontend, the endpoints that still serve it.
type Wanted = HashMap<Frontend, HashSet<SocketAddr>>;

/// The kernel's table, or a test's.
trait Table {
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, String>;
    fn delete(&mut self, flow: &Flow) -> Result<(), String>;
    fn local_addresses(&self) -> Result<BTreeSet<IpAddr>, String>;
}

/// The table of the thread's network namespace; connects when first asked.
#[derive(Debug, Default)]
struct Kernel(Option<Conntrack>);

impl Kernel {
    fn connected(&mut self) -> Result<&mut Conntrack, String> {
        match &mut self.0 {
            Some(conntrack) => Ok(conntrack),
            empty => {
                let opened = Conntrack::open().map_err(|error| chain(&error))?;
                Ok(empty.insert(opened))
            }
        }
    }
}

impl Table for Kernel {
    fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, String> {
        let flows = self.connected()?.flows(filter);
        flows.map_err(|error| chain(&error))
    }

    fn delete(&mut self, flow: &Flow) -> Result<(), String> {
        let deleted = self.connected()?.delete(flow);
        deleted.map_err(|error| chain(&error))
    }

    fn local_addresses(&self) -> Result<BTreeSet<IpAddr>, String> {
        node::addresses().map_err(|error| format!("list addresses of the node: {error}"))
    }
}

/// Starts the thread that cleans up, in the network namespace of the caller. It ends when the
/// sender is dropped. `deleted` counts the entries.
///
/// # Errors
/// No thread could be started.
pub fn spawn(deleted: Arc<AtomicU64>) -> io::Result<Sender<Vec<StaleFlows>>> {
    let (sender, stale) = mpsc::channel();
    let run = move || run(&stale, &mut Kernel::default(), &deleted);
    thread::Builder::new().name("conntrack".into()).spawn(run)?;
    Ok(sender)
}

fn run(stale: &Receiver<Vec<StaleFlows>>, table: &mut impl Table, deleted: &AtomicU64) {
    let mut wanted = Wanted::new();
    let mut backoff = Backoff::default();
    let mut said: Option<String> = None;
    loop {
        let received = match backoff.due() {
            Some(due) => stale.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => stale.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(batch) => merge(&mut wanted, batch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        stale.try_iter().for_each(|it| merge(&mut wanted, it));
        let now = Instant::now();
        if backoff.due().is_some_and(|due| due > now) {
            continue;
        }
        match clean(table, &wanted, deleted) {
            Ok(()) => {
                wanted.clear();
                backoff.succeed();
                if said.take().is_some() {
                    info!("conntrack cleanup works again");
                }
            }
            Err(error) => {
                backoff.fail(now);
                if said.as_ref() != Some(&error) {
                    warn!(
                        error,
                        "conntrack cleanup failed: UDP clients may keep talking to endpoints that are gone; will retry"
                    );
                }
                said = Some(error);
            }
        }
    }
}

/// Of two lists of endpoints the later one is right.
fn merge(wanted: &mut Wanted, batch: Vec<StaleFlows>) {
    for stale in batch {
        wanted.insert(stale.frontend, stale.keep.into_iter().collect());
    }
}

/// Goes on after an entry that cannot be deleted; returns the first error.
fn clean(table: &mut impl Table, wanted: &Wanted, deleted: &AtomicU64) -> Result<(), String> {
    let is_node_port = |it: &Frontend| matches!(it, Frontend::NodePort { .. });
    let local = match wanted.keys().any(is_node_port) {
        true => table.local_addresses()?,
        false => BTreeSet::new(),
    };
    let mut result = Ok(());
    let mut count = 0;
    for filter in filters(wanted) {
        let flows = table.flows(&filter)?;
        for flow in flows.iter().filter(|it| is_stale(it, wanted, &local)) {
            match table.delete(flow) {
                Ok(()) => count += 1,
                Err(error) => result = result.and(Err(error)),
            }
        }
    }
    deleted.fetch_add(count, Ordering::Relaxed);
    debug!(
        frontends = wanted.len(),
        deleted = count,
        "conntrack cleaned up"
    );
    result
}

fn filters(wanted: &Wanted) -> Vec<FlowFilter> {
    let udp = |family| FlowFilter {
        family,
        destination: None,
        protocol: Some(Protocol::Udp.number()),
        destination_port: None,
    };
    if wanted.len() <= FILTERED {
        let filter = |frontend: &Frontend| FlowFilter {
            destination: match frontend {
                Frontend::Address { addr, .. } => Some(*addr),
                Frontend::NodePort { .. } => None,
            },
            destination_port: Some(frontend.port()),
            ..udp(family(frontend))
        };
        return wanted.keys().map(filter).collect();
    }
    let has = |it: &Family| wanted.keys().any(|frontend| family(frontend) == *it);
    let families = [Family::Ipv4, Family::Ipv6].into_iter().filter(has);
    families.map(udp).collect()
}

fn family(frontend: &Frontend) -> Family {
    match frontend.family() {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    }
}

/// Whether a client opened this flow to one of the frontends and it leads to none of the
/// endpoints that serve it.
fn is_stale(flow: &Flow, wanted: &Wanted, local: &BTreeSet<IpAddr>) -> bool {
    let dialled = &flow.original;
    if dialled.protocol != Protocol::Udp.number() {
        return false;
    }
    let address = Frontend::Address {
        addr: dialled.dst,
        port: dialled.dst_port,
        protocol: Protocol::Udp,
    };
    let node_port = Frontend::NodePort {
        family: IpFamily::of(&dialled.dst),
        port: dialled.dst_port,
        protocol: Protocol::Udp,
    };
    // Others may have the same port; kube-proxy issue 49881.
    let on_node = !dialled.dst.is_loopback() && local.contains(&dialled.dst);
    let on_node = || on_node.then(|| wanted.get(&node_port)).flatten();
    let keep = wanted.get(&address).or_else(on_node);
    let answers = SocketAddr::new(flow.reply.src, flow.reply.src_port);
    keep.is_some_and(|it| !it.contains(&answers))
}
