//! Files and variables that a Corefile refers to.

use std::io;
use std::path::Path;

/// Files and variables that a Corefile names. It is all that reading a Corefile asks of the machine.
pub trait Sources {
    /// The text of a file: of an `import`, or of a file like resolv.conf.
    ///
    /// # Errors
    /// The file cannot be read, is a folder, or is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// The names in a folder, in any order, for an `import` with `*` or `?`.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// An environment variable, for `{$NAME}` and `{%NAME%}`; one that is not set counts as empty.
    fn variable(&self, name: &str) -> Option<String>;
}
