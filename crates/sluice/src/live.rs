//! Reads the kernel of this machine beside an explanation: `sluice explain --live`.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use sluice_agent::status::Status;
use sluice_node::client;
use sluice_node::preflight::check_capability;
use sluice_plan::explain::Explanation;
use sluice_plane::Live;

use crate::planes::{self, Plane};
use crate::view::View;

/// What the kernel does with the packets of explanations.
pub(crate) struct Reader(
    /// The data plane whose rules are on this machine; `None` when there are none.
    Option<&'static Plane>,
);

impl Reader {
    /// Looks for the data plane: that of the agent which answered, else the one whose rules are on this
    /// machine, which may be a kube-proxy's.
    ///
    /// # Errors
    ///
    /// This process may not read the kernel's rules, or the agent gives no status.
    pub(crate) fn new(view: &View, socket: &Path) -> anyhow::Result<Self> {
        check_capability().map_err(|_| {
            anyhow!("the kernel shows its rules to root only, or with CAP_NET_ADMIN")
        })?;
        if matches!(view, View::Agent(_))
            && let Some(pid) = client::in_other_namespace(socket)
        {
            bail!(
                "the agent (pid {pid}) is in another network namespace, whose rules are not seen here: nsenter \
                 --net=/proc/{pid}/ns/net sluice explain ..."
            );
        }
        Ok(Self(match view {
            View::Agent(_) => Some(planes::named(
                &client::get::<Status>(socket, "/status")?.agent.mode,
            )?),
            View::Plan(_) => planes::present(),
        }))
    }

    /// What the kernel does with the packet of an explanation.
    ///
    /// # Errors
    ///
    /// The kernel cannot be read.
    pub(crate) fn read(&self, explanation: &Explanation) -> anyhow::Result<Live> {
        let live = match self.0 {
            Some(plane) => (plane.live)(explanation),
            None => Live::without_rules(explanation),
        };
        live.context("read the kernel")
    }
}
