//! Runs a page in a lab of its own.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::page::{Page, Step, fits, missing};
use crate::args::ExperimentArgs;
use sluice_node::output::{Stream, write_bold};

use crate::output::{put, say};

/// Timeout until the output of a command is as the page says.
const WITHIN: Duration = Duration::from_secs(30);

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
    let lab = Lab {
        name: format!("{name}-{}", std::process::id()),
        program,
        keep: args.keep,
    };
    let pauses = !args.fast && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    heading(&page.title);
    let mut up = vec!["lab".to_owned(), "up".to_owned()];
    up.extend(page.lab.iter().cloned());
    let (said, good) = lab.run(&up).context("start the lab")?;
    if !good {
        bail!(
            "start the lab: {}",
            said.trim().trim_start_matches("sluice: ")
        );
    }
    for step in &page.steps {
        match step {
            Step::Text(text) => say!("{text}"),
            Step::Manifests(text) => lab.apply(text)?,
            Step::Command {
                line,
                words,
                expected,
            } => {
                if pauses {
                    pause()?;
                }
                lab.show(line, words, expected)?;
            }
        }
    }
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
}

impl Lab<'_> {
    /// Runs a command. Returns its stdout and stderr, and whether it succeeded.
    fn run(&self, words: &[String]) -> anyhow::Result<(String, bool)> {
        let mut command = Command::new(self.program);
        command.args(words).env("SLUICE_LAB", &self.name);
        let output = command.stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        stdout.push_str(&stderr);
        Ok((stdout, output.status.success()))
    }

    fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("page.yaml");
        std::fs::write(&file, manifests)?;
        let path = file.display().to_string();
        let words = ["lab", "apply", "-f", &path].map(str::to_owned);
        let (text, good) = self.run(&words)?;
        put!("{text}");
        if !good {
            bail!("the manifests are refused");
        }
        Ok(())
    }

    fn show(&self, line: &str, words: &[String], expected: &[String]) -> anyhow::Result<()> {
        say!("\n$ {line}");
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
            let words = ["lab", "down"].map(str::to_owned);
            // The lab may not have started.
            drop(self.run(&words));
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

fn pause() -> anyhow::Result<()> {
    put!("[Enter]");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
