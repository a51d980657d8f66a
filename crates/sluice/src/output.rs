//! How answers leave the program: on stdout, as text or JSON.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::cli::Output;

/// Writes to stdout. A reader that closes the pipe (`sluice man | head`) is no error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to stdout"),
    }
}

/// An answer as a text that ends with a line feed: for people, or as indented JSON.
pub(crate) fn format<T: Serialize + ?Sized>(
    format: Output,
    answer: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<String> {
    Ok(match format {
        Output::Text => text(answer),
        Output::Json => serde_json::to_string_pretty(answer)? + "\n",
    })
}

/// 0 when all is well, else 1.
pub(crate) fn exit_code(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
