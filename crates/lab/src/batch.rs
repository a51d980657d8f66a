//! Input for `ip -batch -`: one process configures a whole namespace.

use std::{
    io::{ErrorKind, Write},
    process::{Command, Stdio},
};

use crate::{LabError, Netns};

/// Commands of `ip`, without the word `ip`, run in order until one fails.
#[derive(Debug, Default)]
pub struct Batch {
    lines: Vec<String>,
}

impl Batch {
    /// Adds a command to the end of the batch.
    pub fn push(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Runs the lines inside `netns`.
    ///
    /// The process inherits the namespace from its thread; `ip -n` would also remount `/sys`, which
    /// takes longer than the work itself.
    ///
    /// # Errors
    /// `ip` cannot be started, or refused a line.
    pub fn apply(&self, netns: &Netns) -> Result<(), LabError> {
        netns.run(|| self.apply_here(netns.name()))
    }

    /// Runs the lines in the namespace of the calling thread; `object` names it in the error.
    ///
    /// # Errors
    /// As of [`apply`](Self::apply).
    pub fn apply_here(&self, object: &str) -> Result<(), LabError> {
        let run = || LabError::io("run ip for", object);
        let mut child = Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(run())?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(self.text().as_bytes()) {
                // `ip` stops reading at the line that failed; its stderr has the reason.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                written => written.map_err(run())?,
            }
        }
        let output = child.wait_with_output().map_err(run())?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(LabError::Ip {
            object: object.to_owned(),
            line: self.failed_line(&stderr).to_owned(),
            stderr: stderr.lines().next().unwrap_or("nothing").to_owned(),
        })
    }

    fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// The line that stderr names by its number, as in `Command failed -:7`; `?` when it names none.
    fn failed_line(&self, stderr: &str) -> &str {
        let number = stderr
            .lines()
            .find_map(|line| line.strip_prefix("Command failed -:"));
        let index = number
            .and_then(|it| it.trim().parse::<usize>().ok())
            .unwrap_or(0);
        self.lines
            .get(index.wrapping_sub(1))
            .map_or("?", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_line_is_named() {
        let mut batch = Batch::default();
        batch.push("link set lo up");
        batch.push("link set eth7 up");
        let stderr = "Cannot find device \"eth7\"\nCommand failed -:2\n";
        assert_eq!(batch.failed_line(stderr), "link set eth7 up");
        assert_eq!(batch.failed_line("killed"), "?");
        assert_eq!(batch.text(), "link set lo up\nlink set eth7 up\n");
    }
}
