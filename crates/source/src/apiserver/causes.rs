//! Errors of the client as text.

use std::error::Error;

use sluice_yaml::message;

/// An error with its causes, each once and only its first line: the next lines may show the file
/// with its token.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (String::new(), Some(error));
    while let Some(error) = next {
        let line = error.to_string();
        let line = line.lines().next().unwrap_or_default();
        // Links to manuals and names of layers are for developers.
        let line = line.split(": https://").next().unwrap_or_default();
        let line = line.strip_prefix("ServiceError: ").unwrap_or(line);
        if text.is_empty() {
            line.clone_into(&mut text);
        } else if !text.contains(line) {
            text = format!("{text}: {line}");
        }
        next = error.source();
    }
    message(&text)
}
