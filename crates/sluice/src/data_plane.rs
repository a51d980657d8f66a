//! The data planes, as the node agent runs them.
//!
//! What differs between them beside their rules: what opening takes, how foreign changes are
//! noticed, and what of a kube-proxy's things is theirs.

mod iptables;
mod ipvs;
mod nftables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use anyhow::Context;
use sluice_config::Mode;
use sluice_model::IpFamily;
use sluice_node::Input;
use sluice_node::drift::{Drift, Watched};
use sluice_node::metrics::{self, Metrics};
use sluice_node::takeover::Ours;

use tracing::warn;

use crate::cli::ProxyArgs;
use crate::config::ProxyConfig;

pub(crate) use iptables::{IptablesPlane, conntrack, prepare_machine as prepare_for_iptables};
pub(crate) use ipvs::{IpvsPlane, prepare_machine as prepare_for_ipvs};
pub(crate) use nftables::NftablesPlane;

/// A data plane that is open.
pub(crate) trait DataPlane: Sized {
    /// What writes its rules.
    type Backend: sluice_plane::DataPlane;

    /// Finds out whether this machine can do what it takes, in one line if not, and sets the
    /// machine up. Called while all privileges are there.
    ///
    /// # Errors
    ///
    /// What the machine lacks.
    fn open(args: &ProxyArgs, config: &ProxyConfig) -> anyhow::Result<Self>;

    /// What must stay when what a kube-proxy left is removed.
    fn ours(&self) -> Ours;

    /// Counts what is sent to the kernel from now on, and shows what that counts.
    fn meter(&mut self, metrics: &Arc<Metrics>);

    /// What begins once our rules do the work: the watch for foreign changes.
    fn after_first_sync(&self, inputs: Sender<Input>) -> Box<dyn FnOnce() + Send>;

    /// Removes the tables that the nftables mode left of these families, once this mode serves them.
    fn remove_tables(families: &[IpFamily]) {
        nftables::remove_tables(families);
    }

    /// What writes the rules.
    fn into_backend(self) -> Self::Backend;
}

/// The mode as metrics name it.
pub(crate) fn metrics_mode(mode: Mode) -> metrics::Mode {
    match mode {
        Mode::Nftables | Mode::Ebpf => metrics::Mode::Nftables,
        Mode::Iptables => metrics::Mode::Iptables,
        Mode::Ipvs => metrics::Mode::Ipvs,
    }
}

/// Begins to hear of foreign changes, those since this generation included. `port_ids` are our own.
fn watch_for_drift(
    watched: Watched,
    port_ids: &[u32],
    generation: &AtomicU32,
    inputs: Sender<Input>,
) {
    let listening = Drift::listen(port_ids).map_err(anyhow::Error::new);
    let listening = listening.and_then(|drift| {
        drift.check(generation.load(Ordering::Acquire), &inputs);
        drift.report(watched, inputs).context("start a thread")
    });
    if let Err(error) = listening {
        let error = format!("{error:#}");
        warn!(
            error,
            "no watch for foreign changes: only the resync repairs them"
        );
    }
}
