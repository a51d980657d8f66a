//! nftables: everything over one netlink socket.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::Context;
use sluice_model::IpFamily;
use sluice_nftables::{Nftables, TABLE};
use sluice_node::Input;
use sluice_node::drift::Watched;
use sluice_node::metrics::Metrics;
use sluice_node::takeover::Ours;
use tracing::{debug, info};

use super::{DataPlane, watch_for_drift};
use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;

/// The nftables data plane.
pub(crate) struct NftablesPlane(Nftables);

impl DataPlane for NftablesPlane {
    type Backend = Nftables;

    fn open(args: &ProxyArgs, _: &ProxyConfig) -> anyhow::Result<Self> {
        let need = "this kernel offers no nf_tables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4)";
        let mut backend = Nftables::open().context(need)?;
        backend.probe().context(need)?;
        Ok(Self(backend.counting(args.node.counting())))
    }

    fn ours(&self) -> Ours {
        Ours::default()
    }

    fn meter(&mut self, metrics: &Arc<Metrics>) {
        let metrics = metrics.clone();
        let count = move |it: sluice_netlink::nftables::Exchange| {
            metrics.netlink_request(it.sent, it.received, it.elapsed);
        };
        self.0.on_exchange(count);
    }

    fn after_first_sync(&self, inputs: Sender<Input>) -> Box<dyn FnOnce() + Send> {
        let (port_id, generation) = (self.0.port_id(), self.0.generation());
        Box::new(move || watch_for_drift(Watched::Table(TABLE), &[port_id], &generation, inputs))
    }

    /// They are in use.
    fn remove_tables(_: &[IpFamily]) {}

    fn into_backend(self) -> Nftables {
        self.0
    }
}

/// Removes the tables that this mode left, when another one has taken over.
pub(super) fn remove_tables(families: &[IpFamily]) {
    let removed = Nftables::open().and_then(|mut it| it.cleanup(families));
    match removed {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => {
            let removed = removed.join(", ");
            info!(removed, "removed what the nftables mode left");
        }
        // Without nf_tables there are no tables.
        Err(error) => debug!(%error, "tables of the nftables mode"),
    }
}
