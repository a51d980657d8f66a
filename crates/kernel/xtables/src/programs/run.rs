//! One run of a program.

use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::pipe::Pipe;
use super::running::Listed;
use super::{Lock, RunError, find, refusal};
use crate::script::Script;

/// Bytes of a script that are written at once: as many as a pipe holds (pipe(7)).
const PIECE: usize = 1 << 16;

/// How long the pipes of a killed program are read: a process that has left its group was not killed, and may hold them.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a program ended, and its stderr.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stderr: String,
}

/// A program with its arguments, and how it is run.
pub(super) struct Run<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [&'a str],
    pub(super) lock: &'a Lock,
    /// Timeout, to which the seconds of the lock are added.
    pub(super) timeout: Duration,
}

impl Run<'_> {
    /// Runs the program with a script on its stdin.
    pub(super) fn with_input(&self, script: &Script<'_>) -> Result<Finished, RunError> {
        let (stdin, stdout) = (Stdio::piped(), Stdio::null());
        let finished = self.run(stdin, stdout, |child, until| {
            let stdin = child.stdin.take().expect("stdin is piped");
            write(Pipe::new(stdin, until)?, script)
        });
        finished.map(|((), it)| it)
    }

    /// Runs the program, which must succeed, while `read` reads its stdout to the end.
    pub(super) fn output<T>(
        &self,
        read: impl FnOnce(Pipe<ChildStdout>) -> io::Result<T>,
    ) -> Result<T, RunError> {
        let (stdin, stdout) = (Stdio::null(), Stdio::piped());
        let (output, finished) = self.run(stdin, stdout, |child, until| {
            let stdout = child.stdout.take().expect("stdout is piped");
            read(Pipe::new(stdout, until)?)
        })?;
        if finished.status.success() {
            Ok(output)
        } else {
            Err(self.failure(&finished))
        }
    }

    /// Why the program failed, in its own first words.
    pub(super) fn failure(&self, finished: &Finished) -> RunError {
        let words = refusal::first_words(&finished.stderr);
        RunError::Failed {
            program: self.program.to_owned(),
            problem: words.unwrap_or_else(|| finished.status.to_string()),
        }
    }

    /// Runs the program to its end, while `talk` uses its pipes until the moment that it gets. When the time is up, the program
    /// is killed with every process of its group.
    fn run<T>(
        &self,
        stdin: Stdio,
        stdout: Stdio,
        talk: impl FnOnce(&mut Child, Instant) -> io::Result<T>,
    ) -> Result<(T, Finished), RunError> {
        let broken = |source| RunError::Start {
            program: self.program.to_owned(),
            source,
        };
        let timeout = self.timeout + Duration::from_secs(self.lock.seconds.into());
        let mut command = self.command();
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(broken)?;
        // The processes that it starts are in the same process group.
        let group = Pid::from_raw(child.id().cast_signed());
        let listed = Listed::new(group, self.described());
        let ended = until_end(&mut child, group, timeout, talk);
        if ended.is_err() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        drop(listed);
        let status = child.wait().map_err(broken)?;
        let (output, stderr, is_late) = ended.map_err(broken)?;
        if is_late {
            return Err(RunError::TimedOut {
                program: self.program.to_owned(),
                arguments: self.arguments.join(" "),
                seconds: timeout.as_secs(),
            });
        }
        Ok((output.map_err(broken)?, Finished { status, stderr }))
    }

    fn described(&self) -> String {
        let program = self.program.display();
        format!("{program} {}", self.arguments.join(" "))
    }

    /// The program gets PATH, the lock and the folder of its extensions from our environment, and nothing
    /// else.
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.arguments).env_clear();
        command.env("PATH", find::search_path());
        command.env("LC_ALL", "C");
        command.env("XTABLES_LOCKFILE", &self.lock.file);
        if let Some(folder) = find::variable("XTABLES_LIBDIR") {
            command.env("XTABLES_LIBDIR", folder);
        }
        command.process_group(0);
        command
    }
}

/// Waits until a program has ended, and does not reap it. Returns the result of `talk`, stderr, and
/// whether the program was killed because its time was up.
fn until_end<T>(
    child: &mut Child,
    group: Pid,
    timeout: Duration,
    talk: impl FnOnce(&mut Child, Instant) -> io::Result<T>,
) -> io::Result<(io::Result<T>, String, bool)> {
    let until = Instant::now() + timeout + LAST_WORDS;
    let stderr = child.stderr.take().expect("stderr is piped");
    let mut stderr = Pipe::new(stderr, until)?;
    let (ended, wait_for_end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watchdog = Builder::new().spawn_scoped(scope, move || {
            let is_late = wait_for_end.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
            is_late && killpg(group, Signal::SIGKILL).is_ok()
        })?;
        // In a thread of its own: a program blocks when the pipe is full.
        let stderr = Builder::new().spawn_scoped(scope, move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })?;
        let output = talk(child, until);
        let stderr = stderr.join().unwrap_or_default();
        // Before the program is reaped, no other process group can get its id.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(group), flags) == Err(Errno::EINTR) {}
        drop(ended);
        Ok((output, stderr, watchdog.join().unwrap_or_default()))
    })
}

/// Writes a script. A program that ends before it has read everything writes its error to stderr.
fn write(to: Pipe<ChildStdin>, script: &Script<'_>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(PIECE, to);
    match script.write(&mut to).and_then(|()| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests;
