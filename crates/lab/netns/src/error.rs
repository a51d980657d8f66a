//! Errors of building and using a lab.

use std::io;

use sluice_netlink::RequestError;

/// A failure of the lab itself. The result of a probe is an [`Outcome`](crate::Outcome), not an error.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The operating system refused.
    #[error("{op} {object}: {source}")]
    Io {
        /// The operation.
        op: &'static str,
        /// The object of the operation.
        object: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel refused an interface, address or route; what was made before it is in effect.
    #[error("configure {object}: {source}")]
    Wire {
        /// The namespace that was being configured.
        object: String,
        /// The refused object, and the kernel's words.
        source: RequestError,
    },
    /// The description of the cluster contradicts itself: a name twice, an unknown node, too many machines.
    #[error("cluster topology: {0}")]
    Topology(String),
    /// Links did not come up in time.
    #[error("wait for links of {object}: {missing} not ready")]
    NotReady {
        /// The namespace that was waited for.
        object: String,
        /// Its interfaces that are down, or do not receive IPv6 packets yet.
        missing: String,
    },
    /// An agent ended, or was not ready in time.
    #[error("sluice in {node} {problem}: {log}")]
    Agent {
        node: String,
        /// How the agent ended, or that it is not ready.
        problem: String,
        /// The agent's log.
        log: String,
    },
    /// No echo came on a long-lived connection.
    #[error("ping {object}: {problem}")]
    Session {
        /// The address that was connected to.
        object: String,
        /// The result instead of the echo.
        problem: String,
    },
}

impl LabError {
    /// Makes a [`LabError::Io`] of the system's error for `op` on `object`.
    pub fn io(op: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let object = object.into();
        move |source| Self::Io { op, object, source }
    }
}
