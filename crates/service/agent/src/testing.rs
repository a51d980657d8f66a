//! Helpers for tests of several modules.

use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

use sluice_plan::Planner;

use crate::questions::{Facts, Plans};
use crate::status::SyncStatus;

/// An unused port of the loopback address.
pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound")
}

/// A proxy with this plan, which has synced once.
struct Planned(Planner);

impl Facts for Planned {
    fn planner(&self) -> &Planner {
        &self.0
    }

    fn syncs(&self) -> Vec<SyncStatus> {
        vec![SyncStatus::default()]
    }
}

/// Handles questions to a proxy with this plan.
pub(crate) fn plans(planner: Planner) -> Plans {
    let planned = Mutex::new(Planned(planner));
    Plans::through(move |question| {
        question(&*planned.lock().expect("no question panics"));
        true
    })
}
