//! `sluice proxy` processes in the nodes of a lab.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{LabError, Node, eventually};

/// Timeout of an agent's start, in seconds: long enough to read back 50,000 Services.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// `sluice proxy` as a process in a node; dropping the value ends the process.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Agent {
    /// Starts `program` in `node` as an agent with these flags; one of them must name a source. The
    /// socket and the log are in `scratch`. Returns when `is_ready` is true for the agent's socket.
    ///
    /// # Errors
    ///
    /// [`LabError::Io`] when the program cannot be started; [`LabError::Agent`], with the log, when it
    /// ended or was not ready after 180 seconds.
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

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    fn wait_until(&mut self, node: &str, is_ready: impl Fn(&Path) -> bool) -> Result<(), LabError> {
        let ready = eventually(START_TIMEOUT, || {
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
            log: fs::read_to_string(&self.log)
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The signal fails when the process has ended already, which is the goal.
        let _ = kill(self.pid(), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}
