//! Packets that rules drop and reject, as the kernel counts them.

use std::sync::{Mutex, PoisonError};

use prometheus::IntCounterVec;
use sluice_model::IpFamily;
use sluice_node::metrics::{Registrar, follow};
use sluice_plane::{DenialCounters, DenialReason, Fate};
use tracing::debug;

const LABELS: [&str; 2] = ["reason", "ip_family"];

/// Shows the kernel's counters, which go on when the agent restarts. They begin at zero when the
/// rules are written again.
pub(crate) struct Denials {
    dropped: IntCounterVec,
    rejected: IntCounterVec,
    forged: IntCounterVec,
    /// `None` before the data plane is open.
    kernel: Mutex<Option<Box<dyn DenialCounters>>>,
}

impl Denials {
    pub(super) fn new(to: Registrar<'_>) -> Self {
        let new = Self {
            dropped: to.counters("sluice_dropped_packets_total", &LABELS),
            rejected: to.counters("sluice_rejected_packets_total", &LABELS),
            forged: to.counters("sluice_forged_packets_total", &LABELS),
            kernel: Mutex::default(),
        };
        for family in IpFamily::ALL {
            for reason in DenialReason::ALL {
                new.show(family, reason, 0);
            }
        }
        new
    }

    /// Sets the reader of the kernel's counters.
    pub(super) fn read_from(&self, counters: Box<dyn DenialCounters>) {
        *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
    }

    /// Reads the kernel's counters. A counter that cannot be read keeps its last value.
    pub(super) fn refresh(&self) {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        match kernel.as_mut().map(|it| it.read()) {
            Some(Ok(all)) => all
                .iter()
                .for_each(|it| self.show(it.family, it.reason, it.packets)),
            Some(Err(error)) => debug!(%error, "cannot read the counters of rules"),
            None => {}
        }
    }

    fn show(&self, family: IpFamily, reason: DenialReason, packets: u64) {
        let counters = match reason.fate() {
            Fate::Dropped => &self.dropped,
            Fate::Rejected => &self.rejected,
            Fate::Passed => &self.forged,
        };
        let labels = [reason.as_str(), &family.to_string()];
        follow(&counters.with_label_values(&labels), packets);
    }
}
