//! Removes connections whose time has come, on a thread of its own.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sluice_bpf::{BpfError, Table};
use sluice_bpf_abi::{Flow, Tuple};
use tracing::{debug, warn};

use super::Timeouts;

/// Time between two listings of all entries.
const PERIOD: Duration = Duration::from_secs(10);

/// The thread; it ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Sweeper {
    _stop: Sender<()>,
}

impl Sweeper {
    pub(crate) fn start(
        mut table: Table<Tuple, Flow>,
        timeouts: Timeouts,
    ) -> Result<Self, std::io::Error> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                match sweep(&mut table, &timeouts) {
                    Ok(0) => {}
                    Ok(swept) => debug!(swept, "connections removed"),
                    Err(error) => warn!(%error, "connections that ended stay for now"),
                }
            }
        };
        thread::Builder::new()
            .name("connections".to_owned())
            .spawn(run)?;
        Ok(Self { _stop: stop })
    }
}

/// Removes the connections whose time has come; returns how many entries that were.
pub(crate) fn sweep(
    table: &mut Table<Tuple, Flow>,
    timeouts: &Timeouts,
) -> Result<usize, BpfError> {
    let entries: HashMap<Tuple, Flow> = table.entries()?.into_iter().collect();
    let expired = timeouts.expired(&entries, now());
    for key in &expired {
        table.remove(key)?;
    }
    Ok(expired.len())
}

/// Seconds of the clock that the programs read.
pub(super) fn now() -> u32 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |it| it.tv_sec());
    u32::try_from(now).unwrap_or(u32::MAX)
}
