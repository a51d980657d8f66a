//! How errors leave the program.

use std::env;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Wrong usage: everything that is wrong with the flags.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) Vec<String>);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Usage {}

/// Everything that is wrong with the configuration file.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Vec<String>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Refused {}

/// Says what went wrong, one `sluice:` line per problem; 2 for wrong usage, else 1.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(Usage(problems)) = error.downcast_ref() {
        problems.iter().for_each(|it| say(it));
        return ExitCode::from(2);
    }
    match error.downcast_ref() {
        Some(Refused(problems)) => problems.iter().for_each(|it| say(it)),
        None => say(&chain(error)),
    }
    ExitCode::FAILURE
}

/// One line on stderr. Only a terminal gets colour.
pub(crate) fn say(text: &str) {
    let plain = env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let mut stderr = std::io::stderr().lock();
    let name = match stderr.is_terminal() && !plain {
        true => "\x1b[1;31msluice:\x1b[0m",
        false => "sluice:",
    };
    // Nobody listens any more, so nobody misses it.
    let _ = writeln!(stderr, "{name} {text}");
}

/// An error and its causes in one line; what a message already contains is not said twice.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
