//! Deletes connection-tracking entries that lead to endpoints that are gone, or nowhere.
//!
//! ```text
//! Agent ──StaleFlows──▶ channel ─▶ merge: the latest list per frontend ─▶ dump ─▶ delete
//!                                         ▲───────── retry with backoff ◀────┘
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use sluice_model::{IpFamily, Protocol};
use sluice_netlink::conntrack::{Flow, FlowFilter};
use sluice_netlink::nftables::Family;
use sluice_plan::Frontend;
use sluice_plan::stale::{Keep, StaleFlows};
use sluice_plane::FlowTable;
use sluice_reconcile::Backoff;
use tracing::{debug, info, warn};

use crate::agent::chain;
use crate::metrics::Metrics;
use crate::node;

/// Up to this many frontends are asked for one by one, so that the kernel filters. Beyond, one
/// dump of all flows of a family and protocol is cheaper: the kernel walks its whole table either
/// way.
const FILTERED: usize = 32;

/// What to delete: by frontend, which flows stay.
type Wanted = HashMap<Frontend, Kept>;

/// [`Keep`], to be asked often.
#[derive(Debug)]
enum Kept {
    Endpoints(HashSet<SocketAddr>),
    /// `looks`: how often the table is still to be read.
    Translated {
        looks: u8,
    },
}

/// A packet that met no rules may be in the kernel's hands for a while before its entry shows, so
/// the table is read again after this time. A client sends its second SYN about then (RFC 6298).
const SECOND_LOOK: Duration = Duration::from_secs(1);
const LOOKS: u8 = 2;

/// Starts the thread that cleans up, in the network namespace of the caller. It ends when the
/// sender is dropped.
///
/// # Errors
/// No thread could be started.
pub fn spawn(
    mut table: Box<dyn FlowTable>,
    metrics: Arc<Metrics>,
) -> io::Result<Sender<Vec<StaleFlows>>> {
    let (sender, stale) = mpsc::channel();
    let run = move || run(&stale, &mut *table, &metrics);
    thread::Builder::new().name("conntrack".into()).spawn(run)?;
    Ok(sender)
}

fn run(stale: &Receiver<Vec<StaleFlows>>, table: &mut dyn FlowTable, metrics: &Metrics) {
    let mut wanted = Wanted::new();
    let mut backoff = Backoff::default();
    let mut said: Option<String> = None;
    let mut again: Option<Instant> = None;
    loop {
        let received = match backoff.due().or(again) {
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
        again = None;
        let cleaned = local_addresses(&wanted);
        let cleaned = cleaned.and_then(|local| clean(table, &wanted, &local, metrics));
        match cleaned {
            Ok(()) => {
                again = looked(&mut wanted).then_some(now + SECOND_LOOK);
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
                        "conntrack cleanup failed: clients may keep talking to endpoints that are gone; will retry"
                    );
                }
                said = Some(error);
            }
        }
    }
}

/// Of two lists of endpoints the later one is right; either says more than "translated".
fn merge(wanted: &mut Wanted, batch: Vec<StaleFlows>) {
    for stale in batch {
        match stale.keep {
            Keep::Endpoints(keep) => {
                let kept = Kept::Endpoints(keep.into_iter().collect());
                wanted.insert(stale.frontend, kept);
            }
            Keep::Translated => {
                let kept = wanted.entry(stale.frontend);
                let kept = kept.or_insert(Kept::Translated { looks: LOOKS });
                if let Kept::Translated { looks } = kept {
                    *looks = LOOKS;
                }
            }
        }
    }
}

/// Forgets what is done; true when another look is due.
fn looked(wanted: &mut Wanted) -> bool {
    wanted.retain(|_, kept| match kept {
        Kept::Endpoints(_) => false,
        Kept::Translated { looks } => {
            *looks -= 1;
            *looks > 0
        }
    });
    !wanted.is_empty()
}

/// The node's addresses, if NodePorts make them matter.
fn local_addresses(wanted: &Wanted) -> Result<BTreeSet<IpAddr>, String> {
    let is_node_port = |it: &Frontend| matches!(it, Frontend::NodePort { .. });
    match wanted.keys().any(is_node_port) {
        true => node::addresses().map_err(|error| chain(&error)),
        false => Ok(BTreeSet::new()),
    }
}

/// Goes on after an entry that cannot be deleted; returns the first error.
fn clean(
    table: &mut dyn FlowTable,
    wanted: &Wanted,
    local: &BTreeSet<IpAddr>,
    metrics: &Metrics,
) -> Result<(), String> {
    let mut result = Ok(());
    let mut count = 0;
    let mut walks: BTreeMap<IpFamily, Duration> = BTreeMap::new();
    for filter in filters(wanted) {
        let start = Instant::now();
        let family = match filter.family {
            Family::Ipv6 => IpFamily::V6,
            _ => IpFamily::V4,
        };
        let flows = table.flows(&filter)?;
        for flow in flows.iter().filter(|it| is_stale(it, wanted, local)) {
            match table.delete(flow) {
                Ok(()) => {
                    count += 1;
                    if let Some(protocol) = protocol(flow) {
                        metrics.conntrack_deleted(family, protocol);
                    }
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        *walks.entry(family).or_default() += start.elapsed();
    }
    for (family, elapsed) in walks {
        metrics.conntrack_walked(family, elapsed);
    }
    debug!(
        frontends = wanted.len(),
        deleted = count,
        "conntrack cleaned up"
    );
    result
}

fn protocol(flow: &Flow) -> Option<Protocol> {
    let number = flow.original.protocol;
    Protocol::ALL.into_iter().find(|it| it.number() == number)
}

fn filters(wanted: &Wanted) -> Vec<FlowFilter> {
    let all = |family, protocol: Protocol| FlowFilter {
        family,
        destination: None,
        protocol: Some(protocol.number()),
        destination_port: None,
    };
    if wanted.len() <= FILTERED {
        let filter = |frontend: &Frontend| FlowFilter {
            destination: match frontend {
                Frontend::Address { addr, .. } => Some(*addr),
                Frontend::NodePort { .. } => None,
            },
            destination_port: Some(frontend.port()),
            ..all(family(frontend), frontend.protocol())
        };
        return wanted.keys().map(filter).collect();
    }
    let kinds = wanted.keys().map(|it| (it.family(), it.protocol()));
    let kinds: BTreeSet<_> = kinds.collect();
    let dumps = kinds.into_iter();
    dumps
        .map(|(family, protocol)| all(netlink_family(family), protocol))
        .collect()
}

fn family(frontend: &Frontend) -> Family {
    netlink_family(frontend.family())
}

fn netlink_family(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    }
}

/// Whether a client opened this flow to one of the frontends and it is not to be kept.
fn is_stale(flow: &Flow, wanted: &Wanted, local: &BTreeSet<IpAddr>) -> bool {
    let dialled = &flow.original;
    let Some(protocol) = protocol(flow) else {
        return false;
    };
    let address = Frontend::Address {
        addr: dialled.dst,
        port: dialled.dst_port,
        protocol,
    };
    let node_port = Frontend::NodePort {
        family: IpFamily::of(&dialled.dst),
        port: dialled.dst_port,
        protocol,
    };
    // Others may have the same port; kube-proxy issue 49881.
    let on_node = !dialled.dst.is_loopback() && local.contains(&dialled.dst);
    let on_node = || on_node.then(|| wanted.get(&node_port)).flatten();
    let answers = SocketAddr::new(flow.reply.src, flow.reply.src_port);
    match wanted.get(&address).or_else(on_node) {
        None => false,
        Some(Kept::Endpoints(keep)) => !keep.contains(&answers),
        Some(Kept::Translated { .. }) => answers == SocketAddr::new(dialled.dst, dialled.dst_port),
    }
}
