//! A problem of a manifest.

use std::fmt;

use sluice_yaml::escaped;

use serde::Serialize;

/// One problem of a manifest, and its place.
///
/// Displays as `web.yaml:12: Service default/web: spec.ports[0].port: 0 is not in 1..=65535`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// File name, without the folder.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// The object as `Service default/web`; empty when the problem belongs to none. Names that
    /// no Kubernetes object can have are quoted and escaped.
    pub object: String,
    /// The field as `spec.ports[0].port`; empty when the whole object is meant.
    pub field: String,
    /// The reason.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        for part in [&self.object, &self.field, &self.message] {
            if !part.is_empty() {
                write!(f, ": {}", escaped(part))?;
            }
        }
        Ok(())
    }
}
