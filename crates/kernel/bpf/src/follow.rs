//! Follows the machine's interfaces, and attaches programs to new interfaces.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluice_netlink::Stopper;
use sluice_route::{Address, Link, Monitor, Wake};
use tracing::warn;

use crate::attach::Attacher;
use crate::{BpfError, Patterns};

/// Between two looks at the machine, where routes are followed: a machine that speaks BGP changes thousands at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Before another look when one has failed: the interfaces changed again and again while the kernel listed them, or
/// the machine had no memory or descriptor. No change need tell when a look works again.
const RETRY: Duration = Duration::from_secs(1);

/// Chooses the interfaces that get the programs.
pub trait Interfaces: Send {
    /// Whether the programs are attached to an interface.
    fn wants(&self, link: &Link) -> bool;

    /// Whether changes of routes are told to [`Self::changed`], too.
    fn follows_routes(&self) -> bool {
        false
    }

    /// When [`Self::changed`] is called although no change was told.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Interfaces or addresses have changed. Called before programs are attached to new interfaces, and once more
    /// afterwards, on a thread of its own but for the first time.
    ///
    /// # Errors
    ///
    /// The maps could not be written. It is called again a second later.
    fn changed(&mut self, _machine: &Machine<'_>) -> Result<(), BpfError> {
        Ok(())
    }
}

/// The interfaces whose names match.
impl Interfaces for Patterns {
    fn wants(&self, link: &Link) -> bool {
        self.match_name(&link.name)
    }
}

/// The interfaces of a network namespace.
#[derive(Debug)]
pub struct Machine<'a> {
    /// All interfaces by number.
    pub links: &'a BTreeMap<u32, Link>,
    /// The addresses of all interfaces.
    pub addresses: &'a [Address],
    /// The programs are at every interface that is wanted. Before, interfaces may have those of an earlier process.
    pub is_attached: bool,
    attacher: &'a Attacher,
}

impl Machine<'_> {
    /// Whether an interface has the programs of this process.
    #[must_use]
    pub fn has_programs(&self, link: &Link) -> bool {
        self.attacher.has(link)
    }
}

/// A thread that follows the interfaces until the value is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Attaches the programs to the interfaces that are there, and follows the calling thread's network
    /// namespace from now on.
    pub(crate) fn start(
        attacher: Arc<Mutex<Attacher>>,
        mut interfaces: Box<dyn Interfaces>,
    ) -> Result<Self, BpfError> {
        let follows_routes = interfaces.follows_routes();
        let monitor = if follows_routes {
            Monitor::open_with_routes()
        } else {
            Monitor::open()
        };
        let mut monitor = monitor.map_err(|error| failed("watch interfaces", error))?;
        look(&attacher, &mut *interfaces)?;
        forget_others(&attacher, &*interfaces)?;
        let stopper = monitor.stopper();
        let run = move || {
            let (mut last, mut retry, mut told) = (Instant::now(), None, None);
            let due = |interfaces: &dyn Interfaces, retry| {
                [interfaces.due(), retry].into_iter().flatten().min()
            };
            while let Ok(Wake::Changed | Wake::Due) = monitor.wait(due(&*interfaces, retry)) {
                if follows_routes && !wait_until(&mut monitor, last + PAUSE) {
                    return;
                }
                last = Instant::now();
                let failure = look(&attacher, &mut *interfaces).err();
                retry = failure.as_ref().map(|_| Instant::now() + RETRY);
                let failure = failure.map(|it| it.to_string());
                if let Some(error) = failure.as_ref().filter(|it| told.as_ref() != Some(*it)) {
                    warn!(
                        error,
                        "interfaces are not followed: trying again each second"
                    );
                }
                told = failure;
            }
        };
        let thread = thread::Builder::new()
            .name("interfaces".to_owned())
            .spawn(run);
        let thread = thread.map_err(|error| failed("start a thread", error))?;
        Ok(Self {
            stopper,
            thread: Some(thread),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Waits until then, whatever changes. False: the monitor was stopped.
fn wait_until(monitor: &mut Monitor, time: Instant) -> bool {
    loop {
        match monitor.wait(Some(time)) {
            Ok(Wake::Changed) => {}
            Ok(Wake::Due) => return true,
            Ok(Wake::Stopped) | Err(_) => return false,
        }
    }
}

fn links() -> Result<BTreeMap<u32, Link>, BpfError> {
    let links = sluice_route::links().map_err(|error| failed("list interfaces", error))?;
    Ok(links.into_iter().map(|it| (it.index, it)).collect())
}

fn look(attacher: &Mutex<Attacher>, interfaces: &mut dyn Interfaces) -> Result<(), BpfError> {
    let links = links()?;
    let addresses = sluice_route::addresses();
    let addresses = &addresses.map_err(|error| failed("list addresses", error))?;
    let mut attacher = attacher.lock().unwrap_or_else(PoisonError::into_inner);
    // Called before packets come, and again when it is known which interfaces have the programs.
    interfaces.changed(&Machine {
        links: &links,
        addresses,
        is_attached: false,
        attacher: &attacher,
    })?;
    let wanted = links.iter().filter(|(_, it)| interfaces.wants(it));
    let wanted = wanted.map(|(index, it)| (*index, it.clone())).collect();
    attacher.follow(&wanted);
    interfaces.changed(&Machine {
        links: &links,
        addresses,
        is_attached: true,
        attacher: &attacher,
    })
}

/// Removes an earlier process's filters of clsact from interfaces that are not wanted now.
fn forget_others(attacher: &Mutex<Attacher>, interfaces: &dyn Interfaces) -> Result<(), BpfError> {
    let links = links()?;
    let attacher = attacher.lock().unwrap_or_else(PoisonError::into_inner);
    attacher.forget(links.values().filter(|it| !interfaces.wants(it)));
    Ok(())
}

fn failed(
    operation: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> BpfError {
    BpfError::Machine {
        operation,
        source: error.into(),
    }
}
