//! How answers leave the program: on stdout, as text or JSON.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use sluice_yaml::{shown, shown_json};

use crate::cli::Output;

/// Writes a text to stdout, without a character that cannot be seen: names in it may be anybody's.
pub(crate) fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    print_raw(shown(text.as_ref()).as_bytes())
}

/// Writes to stdout what only this program has made. A reader that closes the pipe (`sluice man | head`) is no error.
pub(crate) fn print_raw(text: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
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
        Output::Json => shown_json(&serde_json::to_string_pretty(answer)?).into_owned() + "\n",
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
