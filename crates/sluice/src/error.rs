//! How errors leave the program.

use std::env;
use std::io::{IsTerminal, Write};
use std::panic;
use std::process::{self, ExitCode};

use sluice_config::Invalid;
use sluice_node::chain;
use sluice_yaml::shown;

/// Prints an error, one `sluice:` line per problem, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(invalid) = error.downcast_ref::<Invalid>() {
        invalid.problems.iter().for_each(|it| say(it));
        return ExitCode::from(invalid.exit_code);
    }
    say(&chain(error.as_ref()));
    ExitCode::FAILURE
}

/// Prints a text on stderr, coloured on a terminal, without a character that cannot be seen.
pub(crate) fn say(text: &str) {
    let plain = env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let mut stderr = std::io::stderr().lock();
    let name = if stderr.is_terminal() && !plain {
        "\x1b[1;31msluice:\x1b[0m"
    } else {
        "sluice:"
    };
    // The reader may have closed the pipe.
    let _ = writeln!(stderr, "{name} {}", shown(text));
}

/// Ends the process when any thread panics: an agent without one of its threads would look healthy.
/// The rules stay. An answer of the DNS server that panics costs its client an answer.
pub(crate) fn end_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        if sluice_dns::is_caught() {
            return;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a hook cannot end the process otherwise"
        )]
        process::exit(101);
    }));
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The hook is the process's, and a test is one.
    #[test]
    fn an_answer_that_panics_does_not_end_the_process() {
        end_on_panic();
        let answer = pin!(sluice_dns::caught(async { panic!("bad") }));
        let polled = answer.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(None::<()>));
    }
}
