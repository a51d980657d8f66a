//! One run of a program.

use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Lock, RunError, find};
use crate::script::Script;

/// For so many lines of input, beside what every run may take: a fast machine takes a second and a
/// half.
const LINES: usize = 10_000;
const EACH_LINES: Duration = Duration::from_secs(30);
/// How long a program that was killed may take to end. One that hangs in the kernel does not.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What is written or read at once.
const PIECE: usize = 1 << 16;
/// What the pipe to a program may hold: the most that everybody may ask for
/// (`/proc/sys/fs/pipe-max-size`).
const ROOM: i32 = 1 << 20;
/// Bytes that no program reads in a millisecond.
const SWIFT: u32 = 50_000;

/// How a program ended, and what it complained about.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
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

/// A program with its arguments, and how it is run.
pub(super) struct Run<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [&'a str],
    pub(super) lock: &'a Lock,
    /// How long it may take with little input, apart from waiting for the lock.
    pub(super) patience: Duration,
}

impl Run<'_> {
    /// Runs the program to its end with `input` on stdin, and hands on what it prints as it comes. It
    /// sees nothing of our environment but PATH, the lock and where its extensions are. After its
    /// time it is killed, with every process that it started.
    pub(super) fn with(
        &self,
        input: &Script<'_>,
        stdout: &mut dyn Write,
    ) -> Result<Finished, RunError> {
        let mut command = Command::new(self.program);
        command.args(self.arguments).env_clear();
        command.env("PATH", find::search_path());
        command.env("LC_ALL", "C");
        command.env("XTABLES_LOCKFILE", &self.lock.file);
        if let Some(folder) = env::var_os("XTABLES_LIBDIR") {
            command.env("XTABLES_LIBDIR", folder);
        }
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // What it starts can be killed with it.
        command.process_group(0);
        let broken = |source| RunError::Start {
            program: self.program.to_owned(),
            source,
        };
        let time = self.time_for(input);
        let deadline = Instant::now() + time;
        let mut child = command.spawn().map_err(broken)?;
        let result = talk(&mut child, input, stdout, deadline);
        let result = result.and_then(|stderr| {
            let status = end(&mut child, deadline)?;
            Ok(Finished { status, stderr })
        });
        match result {
            Ok(finished) => Ok(finished),
            Err(error) => {
                kill(&mut child);
                Err(match error.kind() {
                    ErrorKind::TimedOut => RunError::TimedOut {
                        program: self.program.to_owned(),
                        arguments: self.arguments.join(" "),
                        seconds: time.as_secs(),
                    },
                    _ => broken(error),
                })
            }
        }
    }

    fn time_for(&self, input: &Script<'_>) -> Duration {
        let times = u32::try_from(input.len() / LINES).unwrap_or(u32::MAX);
        let waiting = Duration::from_secs(self.lock.seconds.into());
        let working = EACH_LINES.saturating_mul(times);
        self.patience
            .saturating_add(waiting)
            .saturating_add(working)
    }
}

/// The pipes of a program; `None` what is closed.
struct Talk<'a> {
    to: Option<ChildStdin>,
    /// How long a full pipe lasts.
    lasts: Duration,
    from: (Option<ChildStdout>, Option<ChildStderr>),
    stdout: &'a mut dyn Write,
    stderr: Vec<u8>,
    deadline: Instant,
}

/// Makes room in a pipe. Returns how long it lasts when it is full.
fn enlarge(pipe: &ChildStdin) -> Duration {
    // Refused where the user has very many: the usual room does, too.
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(ROOM));
    let room = fcntl(pipe, FcntlArg::F_GETPIPE_SZ).unwrap_or_default();
    Duration::from_millis(u64::from(room.unsigned_abs() / SWIFT))
}

/// Writes all lines and listens until the program says no more. Returns what it complained about.
fn talk(
    child: &mut Child,
    input: &Script<'_>,
    stdout: &mut dyn Write,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    let to = child.stdin.take();
    let mut talk = Talk {
        lasts: to.as_ref().map_or(Duration::ZERO, enlarge),
        to,
        from: (child.stdout.take(), child.stderr.take()),
        stdout,
        stderr: Vec::new(),
        deadline,
    };
    let stdin = talk.to.as_ref().map(AsFd::as_fd);
    for fd in talk.outputs().chain(stdin) {
        let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
        fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    }
    let mut piece = String::with_capacity(PIECE);
    let mut result = Ok(());
    input.read(|line| {
        if result.is_err() || talk.to.is_none() {
            return;
        }
        line.write(&mut piece);
        if piece.len() >= PIECE {
            result = talk.say(piece.as_bytes());
            piece.clear();
        }
    });
    result?;
    talk.say(piece.as_bytes())?;
    talk.to = None;
    talk.listen()?;
    Ok(talk.stderr)
}

impl Talk<'_> {
    /// Writes all of `input`, and reads meanwhile, so that a program that talks before it has read
    /// everything does not wait for us while we wait for it.
    fn say(&mut self, mut input: &[u8]) -> io::Result<()> {
        loop {
            self.write(&mut input)?;
            self.read()?;
            if input.is_empty() {
                return Ok(());
            }
            // Who waits for room is woken for each page of it.
            self.wait(self.lasts)?;
        }
    }

    /// Reads until the program says no more.
    fn listen(&mut self) -> io::Result<()> {
        loop {
            self.read()?;
            if let (None, None) = self.from {
                return Ok(());
            }
            self.wait(Duration::MAX)?;
        }
    }

    /// Until something can be read, or so long.
    fn wait(&self, longest: Duration) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut fds: Vec<PollFd<'_>> = self
            .outputs()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let timeout = PollTimeout::try_from(left.min(longest) + Duration::from_millis(1));
        match poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn outputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (stdout, stderr) = &self.from;
        let from = [
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        from.into_iter().flatten()
    }

    /// As much of `input` as there is room for; all of it when nobody reads any more.
    fn write(&mut self, input: &mut &[u8]) -> io::Result<()> {
        while !input.is_empty() {
            let Some(to) = &mut self.to else {
                *input = &[];
                break;
            };
            match to.write(input) {
                Ok(count) => *input = &input[count..],
                // It ended early, and has said why on stderr.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.to = None,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        if take(self.from.0.as_mut(), self.stdout)? {
            self.from.0 = None;
        }
        if take(self.from.1.as_mut(), &mut self.stderr)? {
            self.from.1 = None;
        }
        Ok(())
    }
}

/// Takes what there is, or some of it: who never stops talking has a deadline. Whether that was the
/// end.
fn take(from: Option<&mut impl Read>, to: &mut dyn Write) -> io::Result<bool> {
    let Some(from) = from else {
        return Ok(false);
    };
    let mut piece = [0; PIECE];
    match from.read(&mut piece) {
        Ok(0) => return Ok(true),
        Ok(count) => to.write_all(&piece[..count])?,
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) if error.kind() == ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(false)
}

/// Its end, which comes soon after its last word.
fn end(child: &mut Child, deadline: Instant) -> io::Result<ExitStatus> {
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Ends a program that we started, and what it started: they are a process group of their own.
fn kill(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // Whoever is gone already need not be killed.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    // One that hangs in the kernel is left alone: nobody can end it.
    let _ = end(child, Instant::now() + LAST_WORDS);
}

#[cfg(test)]
mod tests;
