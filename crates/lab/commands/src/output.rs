//! How answers of the lab's commands leave the program. `println!` panics when its reader goes, as in
//! `sluice lab draw | head`.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

/// Why stdout or stderr took nothing any more.
static FAILURE: Mutex<Option<io::Error>> = Mutex::new(None);

/// As `println!`, without a panic: see [`result`].
macro_rules! say {
    ($($text:tt)*) => { $crate::output::write(true, format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;

/// As `print!`, without a panic.
macro_rules! put {
    ($($text:tt)*) => { $crate::output::write(true, format_args!($($text)*)) };
}
pub(crate) use put;

/// As `eprintln!`, without a panic.
macro_rules! tell {
    ($($text:tt)*) => { $crate::output::write(false, format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use tell;

/// Writes to stdout, or to stderr, at once.
pub(crate) fn write(is_answer: bool, text: fmt::Arguments<'_>) {
    let written = if is_answer {
        let mut out = io::stdout().lock();
        out.write_fmt(text).and_then(|()| out.flush())
    } else {
        io::stderr().write_fmt(text)
    };
    if let Err(error) = written {
        let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }
}

/// Whether there is still a reader: who writes without end ends without one.
pub(crate) fn has_reader() -> bool {
    FAILURE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .is_none()
}

/// Whether everything was written. A reader that has read enough is no error.
///
/// # Errors
///
/// Why something was not, such as a full disk.
pub(crate) fn result() -> io::Result<()> {
    let failure = FAILURE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match failure {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
