//! A running server, and the Corefile that it serves.

use std::path::Path;

use sluice_corefile::Corefile;
use sluice_dns::Running;
use tracing::{info, warn};

/// The server goes on with its last good Corefile when the next one is not.
pub(crate) struct Served {
    pub(crate) running: Running,
    corefile: Corefile,
}

impl Served {
    pub(crate) fn new(running: Running, corefile: Corefile) -> Self {
        Self { running, corefile }
    }

    /// The Corefile that is served.
    pub(crate) fn corefile(&self) -> &Corefile {
        &self.corefile
    }

    /// Serves what was read of a file now.
    ///
    /// # Errors
    ///
    /// It could not be read, or cannot be served: nothing has changed, and `coredns_reload_failed_total` counts it.
    pub(crate) fn reload(
        &mut self,
        path: &Path,
        read: anyhow::Result<Corefile>,
    ) -> anyhow::Result<()> {
        let new = read.inspect_err(|_| self.running.count_failed_reload())?;
        if new == self.corefile {
            return Ok(());
        }
        self.running.reload(&new)?;
        new.notes.iter().for_each(|it| warn!("{it}"));
        let addresses = self.running.addresses();
        info!(corefile = %path.display(), ?addresses, "serving the changed Corefile");
        self.corefile = new;
        Ok(())
    }
}
