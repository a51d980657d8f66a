//! One run of a program.

use std::env;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;

use super::{Lock, RunError, find};

/// What a program said, and how it ended.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Finished {
    /// Why it failed, in its own first words.
    pub(super) fn failure(&self, program: &Path) -> RunError {
        let said = String::from_utf8_lossy(&self.stderr);
        let problem = match super::refusal::first_words(&said) {
            Some(words) => words,
            None => self.status.to_string(),
        };
        RunError::Failed {
            program: program.to_owned(),
            problem,
        }
    }
}

/// Runs `program` to its end with `input` on stdin. It sees nothing of our environment but PATH,
/// the lock and where its extensions are.
pub(super) fn run(
    program: &Path,
    arguments: &[&str],
    lock: &Lock,
    input: &str,
) -> Result<Finished, RunError> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.env("PATH", find::search_path());
    command.env("LC_ALL", "C");
    command.env("XTABLES_LOCKFILE", &lock.file);
    if let Some(folder) = env::var_os("XTABLES_LIBDIR") {
        command.env("XTABLES_LIBDIR", folder);
    }
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().and_then(|child| feed(child, input));
    match output {
        Ok(Output {
            status,
            stdout,
            stderr,
        }) => Ok(Finished {
            status,
            stdout,
            stderr,
        }),
        Err(source) => Err(RunError::Start {
            program: program.to_owned(),
            source,
        }),
    }
}

/// Writes in a thread of its own, so that a program that talks before it has read everything does
/// not wait for us while we wait for it.
fn feed(mut child: Child, input: &str) -> io::Result<Output> {
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        let writer =
            scope.spawn(
                move || match stdin.map(|mut it| it.write_all(input.as_bytes())) {
                    // It ended early, and has said why on stderr.
                    Some(Err(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                    Some(result) => result,
                    None => Ok(()),
                },
            );
        let output = child.wait_with_output();
        let written = writer
            .join()
            .unwrap_or_else(|_| Err(ErrorKind::Other.into()));
        let output = output?;
        written.map(|()| output)
    })
}
