//! Real agents in the nodes of a lab.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::{Node, eventually};

/// How long an agent may take to start: with 50,000 Services to read back it takes a while.
const STARTS_WITHIN: Duration = Duration::from_secs(180);

/// `sluice proxy` as a process in a node. Ends with its owner.
pub(crate) struct Agent {
    process: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Agent {
    /// Starts an agent with these flags, one of which says what it reads; its socket and log go
    /// to `scratch`. Returns when the kernel holds its rules.
    ///
    /// # Errors
    ///
    /// It could not be started, or ended at once: then with what it logged.
    pub(crate) fn start(node: &Node, scratch: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find the path of this program")?;
        let socket = scratch.join(format!("{}.sock", node.name()));
        let log = scratch.join(format!("{}.log", node.name()));
        let arguments = [
            "proxy",
            "--hostname-override",
            node.name(),
            "--socket",
            utf8(&socket)?,
        ];
        let arguments = [&arguments[..], flags].concat();
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut command = node.netns().command(utf8(&program)?, &arguments);
        let process = command
            .stdout(file.try_clone().context("share the log")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start sluice in {}", node.name()))?;
        let mut agent = Self {
            process,
            socket,
            log,
        };
        agent.wait_until_synced()?;
        Ok(agent)
    }

    /// The process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    fn wait_until_synced(&mut self) -> anyhow::Result<()> {
        let synced = eventually(STARTS_WITHIN, || {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(Err(status));
            }
            let status = crate::status::ask(&self.socket).ok()?;
            status.synced.then_some(Ok(()))
        });
        match synced {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => bail!("sluice ended with {status}: {}", self.log_text()),
            None => bail!("sluice is not ready: {}", self.log_text()),
        }
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A process that is gone already is as good.
        let _ = kill(self.pid(), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

fn utf8(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("{}: not UTF-8", path.display()))
}
