//! Objects of a data plane as a person reads them.

use serde::Serialize;

/// One object of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderedObject {
    /// Its identity, as a person would name it.
    pub key: String,
    /// Which Service it is for; empty when it is for all, or when the text says it.
    pub comment: String,
    /// As the program reads it that would load it.
    pub text: String,
}
