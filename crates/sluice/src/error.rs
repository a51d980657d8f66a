//! How errors leave the program.

use std::env;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use sluice_node::chain;

/// Everything that is wrong with the flags and the configuration file.
#[derive(Debug)]
pub(crate) struct Invalid {
    /// One line each.
    pub(crate) problems: Vec<String>,
    /// 2 for wrong usage, 1 when only the file is wrong.
    pub(crate) exit_code: u8,
}

impl Invalid {
    /// Fails with exit code 1 if there is any problem.
    ///
    /// # Errors
    ///
    /// All of them.
    pub(crate) fn check(problems: Vec<String>) -> Result<(), Self> {
        let exit_code = 1;
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self {
                problems,
                exit_code,
            })
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for Invalid {}

/// Prints an error, one `sluice:` line per problem, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(invalid) = error.downcast_ref::<Invalid>() {
        invalid.problems.iter().for_each(|it| say(it));
        return ExitCode::from(invalid.exit_code);
    }
    say(&chain(error.as_ref()));
    ExitCode::FAILURE
}

/// Prints one line on stderr, coloured on a terminal.
pub(crate) fn say(text: &str) {
    let plain = env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let mut stderr = std::io::stderr().lock();
    let name = if stderr.is_terminal() && !plain {
        "\x1b[1;31msluice:\x1b[0m"
    } else {
        "sluice:"
    };
    // The reader may have closed the pipe.
    let _ = writeln!(stderr, "{name} {text}");
}
