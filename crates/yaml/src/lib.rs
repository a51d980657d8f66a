//! Text → a small tree that knows its lines → API objects.
//!
//! Which text means what follows sigs.k8s.io/yaml (YAML 1.1 scalars, as `kubectl` reads them):
//! see [`Scalar`]. JSON has a reader of its own, since YAML forbids things that JSON allows.

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
pub use node::{Key, Node, Place, Value};
pub use scalar::{Meaning, Scalar};
pub use split::{Chunk, documents};
pub use text::{escaped, push_field, push_index, quoted};

/// Why a document cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where the reader stopped.
    pub place: Place,
    /// What it did not like.
    pub message: String,
}

/// Deepest nesting: Kubernetes objects have about ten levels.
pub const MAX_DEPTH: usize = 64;

/// Most nodes of one document, each alias counted as what it stands for.
pub const MAX_NODES: usize = 5_000_000;

#[cfg(test)]
mod tests;
