//! Processes that outlive the server that started them.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process. Its start time tells it from a later process with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`.
    started: u64,
}

impl Identity {
    /// The process `pid`. A child that was not waited for has an identity even after its end.
    #[must_use]
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let (started, _) = read(pid)?;
        Some(Self { pid, started })
    }

    #[must_use]
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// Whether the process has not ended.
    #[must_use]
    pub(crate) fn is_running(&self) -> bool {
        read(self.pid) == Some((self.started, true))
    }

    /// Whether the process has a handler of its own for a signal, or ignores it.
    pub(crate) fn handles(&self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let has = |line: &str| {
            let masks = ["SigCgt:", "SigIgn:"];
            let mask = masks.iter().find_map(|it| line.strip_prefix(it));
            let mask = mask.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
            mask.is_some_and(|it| it >> (signal as i32 - 1) & 1 == 1)
        };
        status.lines().any(has)
    }

    /// Its root, for processes that see it.
    pub(crate) fn root(&self) -> PathBuf {
        format!("/proc/{}/root", self.pid).into()
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.is_running() {
            // The process may end by itself meanwhile.
            let _ = kill(self.pid(), signal);
        }
    }
}

/// Start time of a process, and whether it is no zombie.
fn read(pid: i32) -> Option<(u64, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let field = stat_fields(&stat)?;
    let alive = !matches!(field(3)?, "Z" | "X");
    Some((field(22)?.parse().ok()?, alive))
}

/// The fields of `/proc/PID/stat` by their numbers in `proc_pid_stat(5)`, from the third one on: the name before them may
/// contain spaces and brackets.
pub fn stat_fields<'a>(stat: &'a str) -> Option<impl Fn(usize) -> Option<&'a str>> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&'a str> = rest.split_whitespace().collect();
    Some(move |number: usize| fields.get(number.checked_sub(3)?).copied())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn handlers_of_signals_are_known() {
        let script = "trap 'exit 3' TERM; trap '' USR1; echo; read it";
        let mut shell = Command::new("sh");
        let shell = shell
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert!(identity.handles(Signal::SIGTERM));
        assert!(identity.handles(Signal::SIGUSR1));
        assert!(!identity.handles(Signal::SIGUSR2));
        identity.signal(Signal::SIGTERM);
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }

    #[test]
    fn a_process_is_known_until_it_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        assert!(identity.is_running());
        identity.signal(Signal::SIGKILL);
        child.wait().unwrap();
        assert!(!identity.is_running());
        assert_eq!(Identity::of(0), None);
    }
}
