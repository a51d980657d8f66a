//! Problems of fields, with their lines.

use std::collections::BTreeMap;
use std::fmt;

use sluice_yaml::escaped;

/// A problem of a field, as `iptables.masqueradeBit: 32: must be within 0 to 31`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field as in the file; empty for a problem of the whole file.
    pub field: String,
    /// Line in the file, from 1; `None` where the file does not set the field.
    pub line: Option<u32>,
    /// What is wrong with the value, in one line.
    pub message: String,
}

impl Problem {
    /// A problem of a field whose line is not known.
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            line: None,
            message: message.into(),
        }
    }

    /// The same, at a line.
    pub(crate) fn at(self, line: u32) -> Self {
        let line = Some(line);
        Self { line, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", escaped(&self.field))?;
        }
        f.write_str(&escaped(&self.message))
    }
}

/// The line of each field that the file sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, u32>);

impl Lines {
    pub(crate) fn insert(&mut self, field: &str, line: u32) {
        self.0.insert(field.to_owned(), line);
    }

    /// The line of a field; if the file does not set it, of the section that would contain it.
    pub fn of(&self, field: &str) -> Option<u32> {
        let mut path = field;
        loop {
            if let Some(line) = self.0.get(path) {
                return Some(*line);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}
