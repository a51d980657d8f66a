//! Real agents in the nodes of a lab.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{LabError, Node, eventually};

/// How long an agent may take to start: with 50,000 Services to read back it takes a while.
const STARTS_WITHIN: Duration = Duration::from_secs(180);

/// `sluice proxy` as a process in a node. Ends with its owner.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Agent {
    /// Starts `program` in `node` as an agent with these flags, one of which says what it reads; its
    /// socket and log go to `scratch`. Returns when `is_ready` says so of the agent behind the socket.
    ///
    /// # Errors
    ///
    /// [`LabError::Io`] when it could not be started, [`LabError::Agent`] when it ended or was not
    /// ready in time: then with what it logged.
    pub fn start(
        program: &Path,
        node: &Node,
        scratch: &Path,
        flags: &[&str],
        is_ready: impl Fn(&Path) -> bool,
    ) -> Result<Self, LabError> {
        let socket = scratch.join(format!("{}.sock", node.name()));
        let log = scratch.join(format!("{}.log", node.name()));
        let failed = || LabError::io("start sluice in", node.name());
        let arguments = [
            "proxy",
            "--hostname-override",
            node.name(),
            "--socket",
            &socket.to_string_lossy(),
        ];
        let arguments = [&arguments[..], flags].concat();
        let file = File::create(&log).map_err(LabError::io("create", log.to_string_lossy()))?;
        let mut command = node.netns().command(&program.to_string_lossy(), &arguments);
        let process = command
            .stdout(file.try_clone().map_err(failed())?)
            .stderr(file)
            .spawn()
            .map_err(failed())?;
        let mut agent = Self {
            process,
            socket,
            log,
        };
        agent.wait_until(node.name(), is_ready)?;
        Ok(agent)
    }

    /// Its status socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    fn wait_until(&mut self, node: &str, is_ready: impl Fn(&Path) -> bool) -> Result<(), LabError> {
        let ready = eventually(STARTS_WITHIN, || {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(Err(format!("ended with {status}")));
            }
            is_ready(&self.socket).then_some(Ok(()))
        });
        let problem = match ready {
            Some(Ok(())) => return Ok(()),
            Some(Err(ended)) => ended,
            None => "is not ready".to_owned(),
        };
        Err(LabError::Agent {
            node: node.to_owned(),
            problem,
            log: fs::read_to_string(&self.log).unwrap_or_default(),
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A process that is gone already is as good.
        let _ = kill(self.pid(), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}
