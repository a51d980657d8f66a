//! Objects of a data plane as text.

use serde::Serialize;

/// One object of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderedObject {
    /// Its identity, for a person.
    pub key: String,
    /// Its Service; empty when it is for all Services, or when the text has the Service.
    pub comment: String,
    /// The input of the program that loads it.
    pub text: String,
}
