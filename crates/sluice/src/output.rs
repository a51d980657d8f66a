//! How answers leave the program: on stdout, as text or JSON.

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use sluice_node::output::{self, Stream};
use sluice_yaml::shown_json;

use crate::cli::Output;

/// Writes a text to stdout.
pub(crate) fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    output::write(Stream::Out, format_args!("{}", text.as_ref()));
    output::result().context("write to stdout")
}

/// Writes to stdout what only this program has made.
pub(crate) fn print_raw(text: &[u8]) -> anyhow::Result<()> {
    output::write_raw(Stream::Out, text);
    output::result().context("write to stdout")
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
