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

pub(crate) use build::{Parsed, parse_yaml};
pub(crate) use de::decode;
pub(crate) use json::parse_json;
pub(crate) use node::{Key, Node, Place, Value};
pub(crate) use scalar::{Meaning, Scalar};
pub(crate) use split::documents;

/// Why a document cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Where the reader stopped.
    pub(crate) place: Place,
    /// What it did not like.
    pub(crate) message: String,
}

/// Deepest nesting: Kubernetes objects have about ten levels.
pub(crate) const MAX_DEPTH: usize = 64;

/// Most nodes of one document, each alias counted as what it stands for.
pub(crate) const MAX_NODES: usize = 5_000_000;

#[cfg(test)]
mod tests;
