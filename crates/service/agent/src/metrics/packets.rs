//! Packets that rules of the iptables mode count in objects of nfacct, which have kube-proxy's names.

use std::sync::{Mutex, PoisonError};

use prometheus::IntCounter;
use sluice_node::metrics::{Registrar, follow};
use sluice_plane::PacketCounters;
use sluice_plane::kube_proxy::{CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED};
use tracing::debug;

/// Shows the kernel's counters, as kube-proxy does: the kernel goes on counting when the agent
/// restarts. A counter is zero where the kernel has no such object, and keeps its last number when
/// the object is gone.
pub(crate) struct Packets {
    /// Names of nfacct objects, and their metrics.
    shown: [(&'static str, IntCounter); 2],
    /// `None` before the data plane is open, and where the kernel has no such objects.
    kernel: Mutex<Option<Box<dyn PacketCounters>>>,
}

impl Packets {
    pub(super) fn new(to: Registrar<'_>) -> Self {
        let invalid = to.counter("kubeproxy_iptables_ct_state_invalid_dropped_packets_total");
        let localhost = to.counter("kubeproxy_iptables_localhost_nodeports_accepted_packets_total");
        Self {
            shown: [
                (CT_STATE_INVALID_DROPPED, invalid),
                (LOCALHOST_NODE_PORTS_ACCEPTED, localhost),
            ],
            kernel: Mutex::default(),
        }
    }

    /// Sets the reader of the kernel's counters.
    pub(super) fn read_from(&self, counters: Box<dyn PacketCounters>) {
        *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
    }

    /// Reads the kernel's counters.
    pub(super) fn refresh(&self) {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, shown) in &self.shown {
            match kernel.as_mut().map(|it| it.packets(name)) {
                Some(Ok(Some(packets))) => follow(shown, packets),
                Some(Ok(None)) | None => {}
                Some(Err(error)) => {
                    debug!(%error, "cannot read the packet counters");
                    // Another request would make the kernel search for the missing module again.
                    if error.is_final {
                        *kernel = None;
                    }
                }
            }
        }
    }
}
