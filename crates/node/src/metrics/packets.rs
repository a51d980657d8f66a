//! Packets that rules of the iptables mode count in objects of nfacct, which have kube-proxy's names.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::IntCounter;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use sluice_plane::PacketCounters;
use sluice_plane::kube_proxy::{CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED};
use tracing::debug;

/// Shows what the kernel says when somebody asks, as kube-proxy does: an object goes on when the
/// agent starts again. Zero where nobody counts; what is gone keeps its last number.
#[derive(Clone)]
pub(crate) struct Packets {
    /// Names of objects, and what they showed last.
    shown: [(&'static str, IntCounter); 2],
    /// `None` before there is something to read, and where the kernel has no objects.
    kernel: Arc<Mutex<Option<Box<dyn PacketCounters>>>>,
}

impl Packets {
    pub(super) fn new() -> Self {
        let counter = |name: &str, help: &str| {
            IntCounter::new(name, help).expect("names are constants and well formed")
        };
        let invalid = counter(
            "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
            "Packets dropped because conntrack found them invalid.",
        );
        let localhost = counter(
            "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
            "Packets to NodePorts on loopback addresses, the first of each connection.",
        );
        Self {
            shown: [
                (CT_STATE_INVALID_DROPPED, invalid),
                (LOCALHOST_NODE_PORTS_ACCEPTED, localhost),
            ],
            kernel: Arc::default(),
        }
    }

    /// Reads these from now on.
    pub(super) fn read_from(&self, counters: Box<dyn PacketCounters>) {
        *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
    }

    fn refresh(&self, kernel: &mut Option<Box<dyn PacketCounters>>) {
        for (name, shown) in &self.shown {
            match kernel.as_mut().map(|it| it.packets(name)) {
                Some(Ok(Some(packets))) => {
                    shown.reset();
                    shown.inc_by(packets);
                }
                Some(Ok(None)) | None => {}
                Some(Err(error)) => {
                    debug!(%error, "the packets that rules count are not known");
                    // To ask again would make a kernel without objects look for the module again.
                    if error.is_final {
                        *kernel = None;
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets")
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}

impl Collector for Packets {
    fn desc(&self) -> Vec<&Desc> {
        self.shown.iter().flat_map(|(_, it)| it.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // To the end, so that nobody sees a number that is about to be replaced.
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut kernel);
        self.shown.iter().flat_map(|(_, it)| it.collect()).collect()
    }
}
