//! The error of starting a part of the node agent.

use std::error::Error;

/// An operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {source}")]
pub struct NodeError {
    /// The operation and its object.
    pub operation: String,
    /// The reason.
    pub source: Box<dyn Error + Send + Sync>,
}

/// Makes a [`NodeError`] of an operation's error; for `map_err`.
pub fn failed<E: Into<Box<dyn Error + Send + Sync>>>(
    operation: impl Into<String>,
) -> impl FnOnce(E) -> NodeError {
    let operation = operation.into();
    move |error| NodeError {
        operation,
        source: error.into(),
    }
}
