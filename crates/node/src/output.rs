//! How the text of a command leaves the program: without a character that cannot be seen, because names in it may be
//! anybody's, and without a panic when its reader goes, as in `sluice lab draw | head`.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use sluice_yaml::{shown, shown_json};

/// Where a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, for the answer.
    Out,
    /// Standard error, for what is said beside it.
    Err,
}

/// Why a stream took nothing any more.
static FAILURE: Mutex<Option<io::Error>> = Mutex::new(None);

fn failure<T>(of: impl FnOnce(&mut Option<io::Error>) -> T) -> T {
    // Nothing panics with the lock held.
    of(&mut FAILURE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Writes a text at once. [`result`] tells whether that worked.
pub fn write(to: Stream, text: fmt::Arguments<'_>) {
    write_raw(to, shown(&text.to_string()).as_bytes());
}

/// Writes JSON as a line, without a change of its meaning.
pub fn write_json(to: Stream, json: &str) {
    write_raw(to, format!("{}\n", shown_json(json)).as_bytes());
}

/// Writes a text in bold letters.
pub fn write_bold(to: Stream, text: &str) {
    write_raw(to, format!("\x1b[1m{}\x1b[0m", shown(text)).as_bytes());
}

/// Writes what only this program has made, such as a page of its manual.
pub fn write_raw(to: Stream, text: &[u8]) {
    let write = |stream: &mut dyn Write| stream.write_all(text).and_then(|()| stream.flush());
    let written = match to {
        Stream::Out => write(&mut io::stdout().lock()),
        Stream::Err => write(&mut io::stderr().lock()),
    };
    if let Err(error) = written {
        failure(|it| it.get_or_insert(error).kind());
    }
}

/// Whether there is still a reader: who writes without end ends without one.
pub fn has_reader() -> bool {
    failure(|it| it.is_none())
}

/// Whether everything was written since the last call. A reader that has read enough is no error.
///
/// # Errors
///
/// Why something was not, such as a full disk.
pub fn result() -> io::Result<()> {
    match failure(Option::take) {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
