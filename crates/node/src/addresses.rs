//! Follows the addresses of the machine, so that what depends on them is right at once: NodePorts
//! on the primary address, listeners, the address to masquerade as.
//!
//! ```text
//! rtnetlink ──Changed──▶ read all again ──if different──▶ Event::LocalAddresses ─▶ Agent
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_model::{Event, IpFamily, LocalAddresses};
use sluice_netlink::rtnetlink::{Monitor, Wake};
use sluice_netlink::{RequestError, SocketError, Stopper};
use tracing::{debug, info, warn};

use crate::agent::{Input, chain};
use crate::node;

/// How often, and after which pause, routes are asked again that still name an address that is
/// gone: the kernel tells of the address first and drops its routes a moment later, without a
/// word (`__inet_del_ifa`, `fib_sync_down_addr`).
const LOOKS: u8 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// Why the addresses cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum AddressesError {
    /// No subscription.
    #[error("watch for changes of addresses")]
    Watch(#[source] SocketError),
    /// They cannot be listed.
    #[error(transparent)]
    Read(RequestError),
    /// No thread.
    #[error("start a thread for changes of addresses")]
    Thread(#[source] io::Error),
}

/// A thread that follows the addresses; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Addresses {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Addresses {
    /// Sends the addresses of the caller's network namespace before it returns, and from then on
    /// whenever they change. An IPv6 address counts from the moment it may be used.
    ///
    /// # Errors
    /// Any [`AddressesError`].
    pub fn follow(inputs: Sender<Input>) -> Result<Self, AddressesError> {
        // What changes between here and the first wait is heard.
        let monitor = Monitor::open().map_err(AddressesError::Watch)?;
        let stopper = monitor.stopper();
        let mut follower = Follower {
            known: LocalAddresses::default(),
            inputs,
        };
        let first = read(&follower.known).map_err(AddressesError::Read)?;
        follower.tell(first);
        let thread = thread::Builder::new()
            .name("addresses".into())
            .spawn(move || follower.run(monitor))
            .map_err(AddressesError::Thread)?;
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
            // A panic there has ended the process or is being reported already.
            let _ = thread.join();
        }
    }
}

struct Follower {
    known: LocalAddresses,
    inputs: Sender<Input>,
}

impl Follower {
    fn run(mut self, mut monitor: Monitor) {
        loop {
            match monitor.wait() {
                Ok(Wake::Changed) => {}
                Ok(Wake::Stopped) => return,
                Err(error) => {
                    let error = chain(&error);
                    warn!(
                        error,
                        "watch for changes of addresses ended: NodePorts and health checks stay on \
                         those of now"
                    );
                    return;
                }
            }
            match read(&self.known) {
                Ok(found) if found == self.known => {}
                Ok(found) => self.tell(found),
                Err(error) => {
                    let error = chain(&error);
                    warn!(error, "addresses unknown: keeping those of before");
                }
            }
        }
    }

    fn tell(&mut self, found: LocalAddresses) {
        if found.default_route != self.known.default_route {
            info!(default_route = ?found.default_route, "addresses of the machine");
        }
        debug!(
            added = ?found.all.difference(&self.known.all).collect::<Vec<_>>(),
            removed = ?self.known.all.difference(&found.all).collect::<Vec<_>>(),
            "addresses changed"
        );
        self.known = found.clone();
        // The agent has stopped; the process is about to end.
        let _ = self
            .inputs
            .send(Input::Events(vec![Event::LocalAddresses(found)]));
    }
}

fn read(before: &LocalAddresses) -> Result<LocalAddresses, RequestError> {
    let mut looks = 0;
    loop {
        looks += 1;
        let all = node::addresses()?;
        let chosen = node::default_route_addresses();
        if looks == LOOKS || chosen.iter().all(|it| all.contains(it)) {
            return Ok(settle(before, all, &chosen));
        }
        thread::sleep(PAUSE);
    }
}

/// A family whose default route is gone keeps its address for as long as the machine has it: a
/// router that restarts is no reason to take NodePorts from the neighbours.
fn settle(before: &LocalAddresses, all: BTreeSet<IpAddr>, chosen: &[IpAddr]) -> LocalAddresses {
    let of = |family, list: &[IpAddr]| {
        let mut present = list.iter().filter(|it| all.contains(it));
        present.find(|it| IpFamily::of(it) == family).copied()
    };
    let pick = |family| of(family, chosen).or_else(|| of(family, &before.default_route));
    let default_route = IpFamily::ALL.into_iter().filter_map(pick).collect();
    LocalAddresses { all, default_route }
}
