//! Runs a page in a lab of its own.

use std::io::{IsTerminal as _, Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::{Interrupt, Interrupted};
use sluice_node::output::{Stream, write_bold};

use super::page::{Page, Step, fits, missing};
use super::text;
use crate::args::ExperimentArgs;
use crate::output::{put, say};

/// Timeout until the output of a command is as the page says.
const WITHIN: Duration = Duration::from_secs(30);

/// Interval at which a command that runs is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The command that makes a lab.
const UP: &str = "up";

/// Most lines of an output that is shown whole.
const LINES: usize = 40;

/// Commands that change nothing may run again until their output fits.
const READS: [&str; 6] = ["get", "describe", "logs", "exec", "pcap", "probe"];

pub(super) fn run(
    name: &str,
    page: &Page,
    args: &ExperimentArgs,
    program: &Path,
) -> anyhow::Result<()> {
    let mut lab = Lab {
        name: format!("{name}-{}", std::process::id()),
        program,
        keep: args.keep,
        interrupt: Interrupt::new()?,
    };
    let pauses = !args.fast && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let played = lab.play(page, pauses);
    // Whoever interrupts it does not want to look around.
    lab.keep &= !played.as_ref().is_err_and(|it| it.is::<Interrupted>());
    played?;
    if args.keep {
        say!("the lab stays: sluice lab down --name {}", lab.name);
    }
    Ok(())
}

/// The lab of one experiment; dropping it ends the lab.
struct Lab<'a> {
    name: String,
    program: &'a Path,
    keep: bool,
    interrupt: Interrupt,
}

impl Lab<'_> {
    fn play(&self, page: &Page, pauses: bool) -> anyhow::Result<()> {
        let width = text::width();
        heading(&page.title);
        let mut up = vec!["lab".to_owned(), UP.to_owned()];
        up.extend(page.lab.iter().cloned());
        let (said, good) = self.run(&up)?;
        if !good {
            bail!(
                "start the lab: {}",
                said.trim().trim_start_matches("sluice: ")
            );
        }
        for step in &page.steps {
            match step {
                Step::Text(it) => say!("{}\n", text::wrapped(it, width)),
                Step::Manifests(it) => self.apply(it)?,
                Step::Command {
                    line,
                    words,
                    expected,
                } => {
                    if pauses {
                        put!("[Enter]");
                        self.interrupt.wait_for_line()?;
                    }
                    self.show(line, words, expected)?;
                }
            }
        }
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.env("SLUICE_LAB", &self.name).stdin(Stdio::null());
        command
    }

    /// Runs a command. Returns what it printed, and whether it succeeded.
    ///
    /// # Errors
    ///
    /// [`Interrupted`]: the command has ended, too.
    fn run(&self, words: &[String]) -> anyhow::Result<(String, bool)> {
        let mut output = tempfile::tempfile()?;
        let mut command = self.command();
        command.args(words).stdout(output.try_clone()?);
        let mut child = command.stderr(output.try_clone()?).spawn()?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if let Err(interrupted) = self.interrupt.wait(LOOK) {
                // Signals are blocked in programs that start from here. This one waits for them, and removes what it made.
                let ends_by_itself = words.get(1).is_some_and(|it| it == UP);
                let signal = if ends_by_itself {
                    Signal::SIGTERM
                } else {
                    Signal::SIGKILL
                };
                kill(Pid::from_raw(child.id().cast_signed()), signal)?;
                child.wait()?;
                return Err(interrupted);
            }
        };
        let mut said = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut said)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok((said, status.success()))
    }

    fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("page.yaml");
        std::fs::write(&file, manifests)?;
        say!("{manifests}\n");
        let path = file.display().to_string();
        let words = ["lab", "apply", "-f", &path].map(str::to_owned);
        let (text, good) = self.run(&words)?;
        say!("{text}");
        if !good {
            bail!("the manifests are refused");
        }
        Ok(())
    }

    fn show(&self, line: &str, words: &[String], expected: &[String]) -> anyhow::Result<()> {
        say!("$ {line}");
        let reads = words.get(1).is_some_and(|it| READS.contains(&it.as_str()));
        let mut last = None;
        let mut attempt = || {
            let (text, good) = match self.run(words) {
                Ok(it) => it,
                Err(error) => return Some(Err(error)),
            };
            let fits = missing(expected, &text).is_none() && (good || !expected.is_empty());
            let done = fits || !reads;
            last = Some((text, fits));
            done.then_some(Ok(()))
        };
        if let Some(failed) = sluice_lab::eventually(WITHIN, &mut attempt) {
            failed?;
        }
        let (text, fits) = last.context("the command did not run")?;
        print_output(&text, expected);
        if !fits {
            match missing(expected, &text) {
                Some(line) => bail!("the output has no line as this one: {line}"),
                None => bail!("the command failed"),
            }
        }
        Ok(())
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // The lab may not have started.
            drop(self.command().args(["lab", "down"]).output());
        }
    }
}

/// Prints the output with the lines that the page names in bold. Of a long output only those lines are shown.
fn print_output(text: &str, expected: &[String]) {
    let terminal = std::io::stdout().is_terminal();
    let count = text.lines().count();
    let mut left_out = 0;
    for line in text.lines() {
        let marked = expected.iter().any(|it| fits(it, line));
        if count > LINES && !marked {
            left_out += 1;
            continue;
        }
        match (marked, terminal) {
            (true, true) => write_bold(Stream::Out, line),
            _ => put!("{line}"),
        }
        say!("");
    }
    if left_out > 0 {
        say!("({left_out} more lines)");
    }
    say!("");
}

fn heading(text: &str) {
    if std::io::stdout().is_terminal() {
        write_bold(Stream::Out, text);
    } else {
        put!("{text}");
    }
    put!("\n\n");
}
