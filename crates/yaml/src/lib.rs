//! Text → a tree of nodes with lines → API objects.
//!
//! Scalars mean what they mean to `kubectl`, that is to sigs.k8s.io/yaml (YAML 1.1): see
//! [`Meaning`]. JSON has a reader of its own, since YAML forbids some JSON, such as surrogate pairs
//! in escapes. The tree serves what serde deserializers of YAML do not: every type error of an
//! object at once, each with line and path, repeated keys, and limits for aliases and depth.

mod build;
mod de;
mod json;
mod node;
mod scalar;
mod split;
mod text;

pub use build::{Parsed, parse_yaml};
pub use de::{TypeFault, decode};
pub use json::parse_json;
pub use node::{Key, Node, Position, Value};
pub use scalar::{Meaning, Scalar};
pub use split::{Chunk, documents};
pub use text::{escaped, message, push_field, push_index, quoted, readable, shown, shown_json};

/// Why a document cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where the reader stopped.
    pub place: Position,
    /// What is wrong there.
    pub message: String,
}

type Read<T> = Result<T, SyntaxError>;

impl SyntaxError {
    fn at<T>(place: Position, message: impl Into<String>) -> Read<T> {
        let message = message.into();
        Err(Self { place, message })
    }
}

/// Deepest nesting: Kubernetes objects have about ten levels.
pub const MAX_DEPTH: usize = 64;

/// Most nodes of one document, each alias counted as what it stands for.
pub const MAX_NODES: usize = 5_000_000;

#[cfg(test)]
mod tests;
