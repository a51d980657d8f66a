//! An agent in a namespace, with a folder of manifests.

use std::fmt::Debug;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use serde::de::DeserializeOwned;
use sluice_agent::status::Status;
use sluice_lab::{Netns, eventually};
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);

pub(crate) const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// Folders of one node.
pub(crate) struct Files(pub(crate) TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a temporary directory"));
        fs::create_dir(files.manifests()).expect("an empty directory");
        files
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        self.0.path().join("manifests")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.path().join("run/sluice.sock")
    }

    /// Replaces a manifest in one step, as people should.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let draft = self.0.path().join("draft");
        fs::write(&draft, text).expect("writable");
        fs::rename(draft, self.manifests().join(name)).expect("the same file system");
    }

    pub(crate) fn proxy(&self, netns: &Netns) -> Command {
        let mut command = netns.command(SLUICE, &["proxy", "--hostname-override=node-a"]);
        command.arg("--manifests").arg(self.manifests());
        command.arg("--socket").arg(self.socket());
        command
    }

    pub(crate) fn status(&self) -> Option<Status> {
        self.status_as()
    }

    /// The status, or the part of it that this type reads.
    pub(crate) fn status_as<T: DeserializeOwned>(&self) -> Option<T> {
        let mut command = Command::new(SLUICE);
        command.args(["status", "-o", "json", "--socket"]);
        let output = command.arg(self.socket()).output().expect("it was built");
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Asks for the status until it is as wanted.
    #[track_caller]
    pub(crate) fn await_status(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        self.await_status_as(what, wanted)
    }

    /// The same of the part of it that this type reads.
    #[track_caller]
    pub(crate) fn await_status_as<T: Clone + Debug + DeserializeOwned>(
        &self,
        what: &str,
        wanted: impl Fn(&T) -> bool,
    ) -> T {
        let mut last: Option<T> = None;
        let found = eventually(WITHIN, || {
            last = self.status_as();
            last.clone().filter(|it| wanted(it))
        });
        found.unwrap_or_else(|| panic!("{what}: {last:#?}"))
    }
}

/// A running agent, killed when dropped.
pub(crate) struct Agent(pub(crate) Child);

impl Agent {
    /// Runs [`Files::proxy`] until the rules are written.
    #[track_caller]
    pub(crate) fn run(files: &Files, mut proxy: Command) -> Self {
        let agent = Self(proxy.spawn().expect("it was built"));
        files.await_status("synced", |it| it.synced && it.agent.pid == agent.0.id());
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The answer to a request for a path, with its head; `None` where nobody listens or the answer breaks off.
pub(crate) fn get(from: &Netns, to: SocketAddr, path: &str, within: Duration) -> Option<String> {
    let mut stream = from.run(|| TcpStream::connect_timeout(&to, within)).ok()?;
    stream.set_read_timeout(Some(within)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: node\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
