//! Problems and notes, with their place.

use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file, as the caller or an `import` names it.
    pub file: Arc<str>,
    /// Line in the file, from 1.
    pub line: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.escape_debug(), self.line)
    }
}

/// Why a Corefile is refused, as `Corefile:7: unknown plugin "forwrd": did you mean "forward"?`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where the Corefile is wrong.
    pub place: Location,
    /// The problem in one line.
    pub message: String,
}

impl Problem {
    pub(crate) fn at(place: &Location, message: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            message: message.into(),
        }
    }

    /// The same, as an error.
    pub(crate) fn fail<T>(place: &Location, message: impl Into<String>) -> Result<T, Self> {
        Err(Self::at(place, message))
    }
}

/// A plugin or an option that is valid and has no effect here, as `Corefile:3: debug: has no effect`.
///
/// Each plugin or option is named once, at its first place.
pub type Note = Problem;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
