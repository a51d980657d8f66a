//! Deletes stale connection-tracking entries: those of endpoints that are gone, and those that no
//! rule translated.
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
use sluice_netlink::Family;
use sluice_netlink::conntrack::{Flow, FlowFilter};
use sluice_node::{chain, node};
use sluice_plan::Frontend;
use sluice_plan::stale::{Keep, StaleFlows};
use sluice_plane::FlowTable;
use sluice_plane::kube_proxy::DEVICE;
use sluice_reconcile::Backoff;
use tracing::{debug, info, warn};

use crate::metrics::ServiceMetrics;

/// Up to this many frontends have a dump each, which the kernel filters. For more, one dump of all
/// flows of a family and protocol is cheaper: each dump walks the kernel's whole table.
const FILTERED: usize = 32;

/// The flows that stay, by frontend. All others of these frontends are deleted.
type Wanted = HashMap<Frontend, Staying>;

/// [`Keep`] with fast lookups.
#[derive(Debug)]
enum Staying {
    Endpoints(HashSet<SocketAddr>),
    /// `walks`: how often the table is still to be walked.
    Translated {
        walks: u8,
    },
}

/// The entry of a packet that no rule translated may appear a moment later, so the table is walked
/// again after this time. A client sends its second SYN about then (RFC 6298).
const SECOND_WALK: Duration = Duration::from_secs(1);
const WALKS: u8 = 2;

/// Starts the cleanup thread in the network namespace of the caller. The thread ends when the
/// sender is dropped.
///
/// # Errors
/// No thread could be started.
pub fn spawn(
    mut table: Box<dyn FlowTable>,
    metrics: Arc<ServiceMetrics>,
) -> io::Result<Sender<Vec<StaleFlows>>> {
    let (sender, stale) = mpsc::channel();
    let run = move || run(&stale, &mut *table, &metrics);
    thread::Builder::new().name("conntrack".into()).spawn(run)?;
    Ok(sender)
}

fn run(stale: &Receiver<Vec<StaleFlows>>, table: &mut dyn FlowTable, metrics: &ServiceMetrics) {
    let mut wanted = Wanted::new();
    let mut backoff = Backoff::default();
    let mut last_error: Option<String> = None;
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
                again = walked(&mut wanted).then_some(now + SECOND_WALK);
                backoff.succeed();
                if last_error.take().is_some() {
                    info!("conntrack cleanup works again");
                }
            }
            Err(error) => {
                backoff.fail(now);
                if last_error.as_ref() != Some(&error) {
                    warn!(
                        error,
                        "conntrack cleanup failed: will retry; clients may send to endpoints that \
                         are gone"
                    );
                }
                last_error = Some(error);
            }
        }
    }
}

/// The newer list of endpoints wins, and any list wins over `Translated`.
fn merge(wanted: &mut Wanted, batch: Vec<StaleFlows>) {
    for stale in batch {
        match stale.keep {
            Keep::Endpoints(keep) => {
                let staying = Staying::Endpoints(keep.into_iter().collect());
                wanted.insert(stale.frontend, staying);
            }
            Keep::Translated => {
                let staying = wanted.entry(stale.frontend);
                let staying = staying.or_insert(Staying::Translated { walks: WALKS });
                if let Staying::Translated { walks } = staying {
                    *walks = WALKS;
                }
            }
        }
    }
}

/// Counts a walk and removes the frontends that need no further walk. Returns whether another walk is due.
fn walked(wanted: &mut Wanted) -> bool {
    wanted.retain(|_, staying| match staying {
        Staying::Endpoints(_) => false,
        Staying::Translated { walks } => {
            *walks -= 1;
            *walks > 0
        }
    });
    !wanted.is_empty()
}

/// The node's addresses if a frontend is a NodePort; else empty.
fn local_addresses(wanted: &Wanted) -> Result<BTreeSet<IpAddr>, String> {
    let is_node_port = |it: &Frontend| matches!(it, Frontend::NodePort { .. });
    if wanted.keys().any(is_node_port) {
        node::addresses(DEVICE).map_err(|error| chain(&error))
    } else {
        Ok(BTreeSet::new())
    }
}

/// Deletes stale entries. Goes on after an entry that cannot be deleted; returns the first error.
fn clean(
    table: &mut dyn FlowTable,
    wanted: &Wanted,
    local: &BTreeSet<IpAddr>,
    metrics: &ServiceMetrics,
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
        family: match family {
            IpFamily::V4 => Family::Ipv4,
            IpFamily::V6 => Family::Ipv6,
        },
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
            ..all(frontend.family(), frontend.protocol())
        };
        return wanted.keys().map(filter).collect();
    }
    let kinds = wanted.keys().map(|it| (it.family(), it.protocol()));
    let kinds: BTreeSet<_> = kinds.collect();
    let dumps = kinds.into_iter();
    dumps
        .map(|(family, protocol)| all(family, protocol))
        .collect()
}

/// Whether a client opened this flow to one of the frontends and it does not stay.
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
    // Addresses of other machines may have the same port (kubernetes issue 49881).
    let on_node = !dialled.dst.is_loopback() && local.contains(&dialled.dst);
    let on_node = || on_node.then(|| wanted.get(&node_port)).flatten();
    let answers = SocketAddr::new(flow.reply.src, flow.reply.src_port);
    match wanted.get(&address).or_else(on_node) {
        None => false,
        Some(Staying::Endpoints(keep)) => !keep.contains(&answers),
        Some(Staying::Translated { .. }) => {
            answers == SocketAddr::new(dialled.dst, dialled.dst_port)
        }
    }
}
