//! Follows the addresses of the machine, on which NodePorts, listeners and masquerading depend. The same
//! thread warns when forwarding is turned off.
//!
//! ```text
//! rtnetlink ──Changed──▶ list again ──if different──▶ consumers
//!                                                └───▶ Own ─▶ servers: is a client local?
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluice_http::Own;
use sluice_model::{IpFamily, LocalAddresses, Node};
use sluice_netlink::{RequestError, Stopper};
use sluice_reconcile::Backoff;
use sluice_reconcile::chain;
use sluice_route::{Monitor, Wake};
use tracing::{debug, info, warn};

use crate::error::{NodeError, failed};
use crate::forwarding::Forwarding;
use crate::node;

/// Attempts to read routes that still name a deleted address, and the pause between them. The kernel
/// reports the deleted address first and drops its routes a moment later, without a message
/// (`__inet_del_ifa`, `fib_sync_down_addr`).
const ROUTE_ATTEMPTS: u8 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// The watch on the addresses, a thread that ends when this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Addresses {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Addresses {
    /// Sends the addresses of the caller's network namespace before it returns, and then whenever
    /// they change. An IPv6 address counts as soon as it may be used. `own` has the same addresses. Those of the
    /// interface `except` are not the node's.
    ///
    /// # Errors
    /// [`NodeError`]: no subscription, no listing or no thread.
    pub fn follow(
        send: impl Fn(LocalAddresses) + Send + 'static,
        own: Own,
        except: &'static str,
    ) -> Result<Self, NodeError> {
        // Subscribed before the first listing, so that no change is lost.
        let monitor = Monitor::open().map_err(failed("watch for changes of addresses"))?;
        let stopper = monitor.stopper();
        let mut follower = Follower {
            known: LocalAddresses::default(),
            send: Box::new(send),
            own,
            except,
            forwarding: Forwarding::now(),
        };
        let first = read(&follower.known, except).map_err(failed("list the addresses"))?;
        follower.found(first);
        let thread = thread::Builder::new()
            .name("addresses".into())
            .spawn(move || follower.run(monitor))
            .map_err(failed("start a thread for changes of addresses"))?;
        Ok(Self {
            stopper,
            thread: Some(thread),
        })
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread ends the process.
            let _ = thread.join();
        }
    }
}

struct Follower {
    known: LocalAddresses,
    /// Sends the addresses to the consumers.
    send: Box<dyn Fn(LocalAddresses) + Send>,
    own: Own,
    except: &'static str,
    forwarding: Forwarding,
}

impl Follower {
    fn run(mut self, mut monitor: Monitor) {
        let mut retry = Backoff::default();
        loop {
            match monitor.wait(retry.due()) {
                Ok(Wake::Changed | Wake::Due) => retry.begin(),
                Ok(Wake::Stopped) => return,
                Err(error) => {
                    let error = chain(&error);
                    warn!(
                        error,
                        "watch for changes of addresses ended: NodePorts and health checks keep \
                         the present addresses"
                    );
                    return;
                }
            }
            self.forwarding.look();
            match read(&self.known, self.except) {
                Ok(found) => {
                    retry.succeed();
                    if found != self.known {
                        self.found(found);
                    }
                }
                // For example when no descriptor is free: no notice tells when there is one again.
                Err(error) => {
                    retry.fail(Instant::now());
                    let error = chain(&error);
                    warn!(error, "cannot list the addresses: keeping the last ones");
                }
            }
        }
    }

    fn found(&mut self, found: LocalAddresses) {
        if found.default_route != self.known.default_route {
            info!(default_route = ?found.default_route, "addresses of the machine");
        }
        debug!(
            added = ?found.all.difference(&self.known.all).collect::<Vec<_>>(),
            removed = ?self.known.all.difference(&found.all).collect::<Vec<_>>(),
            "addresses changed"
        );
        self.own.set(&found.all);
        self.known = found.clone();
        (self.send)(found);
    }
}

/// The addresses of this machine, if it is the node: it has one of the addresses of the Node object, or there is no
/// Node object. `None` for another machine, and where they cannot be listed. Those of the interface `except` are not the
/// node's.
pub fn if_node(node: Option<&Node>, except: &str) -> Option<LocalAddresses> {
    let found = read(&LocalAddresses::default(), except).ok()?;
    let is_here = |node: &Node| node.addresses.iter().any(|it| found.all.contains(it));
    node.is_none_or(is_here).then_some(found)
}

fn read(before: &LocalAddresses, except: &str) -> Result<LocalAddresses, RequestError> {
    for _ in 1..ROUTE_ATTEMPTS {
        let (all, chosen) = (node::addresses(except)?, node::default_route_addresses());
        if chosen.iter().all(|it| all.contains(it)) {
            return Ok(settle(before, all, &chosen));
        }
        #[expect(clippy::disallowed_methods, reason = "routes are changing")]
        thread::sleep(PAUSE);
    }
    let chosen = node::default_route_addresses();
    Ok(settle(before, node::addresses(except)?, &chosen))
}

/// A family whose default route is gone keeps its address while the machine has it: a router that
/// restarts must not close NodePorts to hosts on the same link.
fn settle(before: &LocalAddresses, all: BTreeSet<IpAddr>, chosen: &[IpAddr]) -> LocalAddresses {
    let of = |family, list: &[IpAddr]| {
        let mut present = list.iter().filter(|it| all.contains(it));
        present.find(|it| IpFamily::of(it) == family).copied()
    };
    let pick = |family| of(family, chosen).or_else(|| of(family, &before.default_route));
    let default_route = IpFamily::ALL.into_iter().filter_map(pick).collect();
    LocalAddresses { all, default_route }
}
