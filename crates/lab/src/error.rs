//! What can go wrong while a lab is built or used.

use std::io;

/// A failure of the lab itself; what a probe met is an [`Outcome`](crate::Outcome), not an error.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The operating system refused.
    #[error("{op} {object}: {source}")]
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        object: String,
        /// The system's answer.
        source: io::Error,
    },
    /// `ip` refused a line of its batch; the lines before it are in effect.
    #[error("configure {object}: `{line}`: ip said: {stderr}")]
    Ip {
        /// The namespace that was being configured.
        object: String,
        /// The refused line.
        line: String,
        /// First line of what `ip` wrote to stderr.
        stderr: String,
    },
    /// The wanted cluster contradicts itself: a name twice, an unknown node, too many of something.
    #[error("cluster topology: {0}")]
    Topology(String),
    /// Links did not come up in time.
    #[error("wait for links of {object}: {missing} not ready")]
    NotReady {
        /// The namespace that was waited for.
        object: String,
        /// Its interfaces that are down or have no link-local address.
        missing: String,
    },
    /// An agent did not get ready.
    #[error("sluice in {node} {problem}: {log}")]
    Agent {
        /// The node.
        node: String,
        /// How it ended, or that it did not become ready.
        problem: String,
        /// Everything that it logged.
        log: String,
    },
    /// A long-lived connection no longer echoes.
    #[error("ping {object}: {problem}")]
    Session {
        /// The address that was connected to.
        object: String,
        /// What came instead of the echo.
        problem: String,
    },
}

impl LabError {
    /// The system's answer to `op` on `object`, as an error.
    pub fn io(op: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let object = object.into();
        move |source| Self::Io { op, object, source }
    }
}
