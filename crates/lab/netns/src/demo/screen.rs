//! The output of the demonstration: lines on stdout, and frames for a recording.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use super::svg::Frame;
use crate::Interrupt;

/// Characters in a line.
pub(super) const WIDTH: usize = 80;

/// Whether there are pauses in which a person can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Pauses after each picture.
    Slow,
    /// No pauses.
    Fast,
}

/// One page at a time: a heading and lines below it. The last lines of a page may change.
#[derive(Debug)]
pub(super) struct Screen {
    pace: Pace,
    terminal: bool,
    colour: bool,
    pub(super) interrupt: Interrupt,
    /// The page so far; the first line is its heading.
    page: Vec<String>,
    /// Lines that the next [`live`](Self::live) replaces, already on a terminal.
    live: Vec<String>,
    frames: Vec<Frame>,
}

impl Screen {
    pub(super) fn new(pace: Pace) -> anyhow::Result<Self> {
        let terminal = std::io::stdout().is_terminal();
        Ok(Self {
            pace,
            terminal,
            colour: terminal && std::env::var_os("NO_COLOR").is_none(),
            interrupt: Interrupt::new()?,
            page: Vec::new(),
            live: Vec::new(),
            frames: Vec::new(),
        })
    }

    /// Starts a page.
    pub(super) fn page(&mut self, title: &str) {
        self.settle();
        if self.colour {
            show(&format!("\n\x1b[1m{title}\x1b[0m\n"))
        } else {
            show(&format!("\n{title}\n"))
        }
        self.page = vec![title.to_owned()];
    }

    /// Adds lines to the page.
    pub(super) fn say(&mut self, text: &str) {
        self.settle();
        let lines = fit(text);
        show(&(lines.join("\n") + "\n"));
        self.page.extend(lines);
    }

    /// Shows `text` in place of what the last call showed. Where stdout is no terminal, only the last
    /// text before a [`say`](Self::say) or a new page is printed.
    pub(super) fn live(&mut self, text: &str) {
        let lines = fit(text);
        if self.terminal {
            let back = match self.live.len() {
                0 => String::new(),
                count => format!("\x1b[{count}A\x1b[J"),
            };
            show(&format!("{back}{}\n", lines.join("\n")));
        }
        self.live = lines;
    }

    /// The changing lines stay as they are.
    fn settle(&mut self) {
        if !self.terminal && !self.live.is_empty() {
            show(&(self.live.join("\n") + "\n"));
        }
        self.page.append(&mut self.live);
    }

    /// Gives time to read what is on the page.
    ///
    /// # Errors
    ///
    /// The user interrupts.
    pub(super) fn hold(&mut self, time: Duration) -> anyhow::Result<()> {
        let lines = self.page.iter().chain(&self.live).cloned().collect();
        self.frames.push(Frame { lines, time });
        let pause = match self.pace {
            Pace::Slow => time,
            Pace::Fast => Duration::ZERO,
        };
        self.interrupt.wait(pause)
    }

    /// Every page that was shown, with its time.
    pub(super) fn frames(&mut self) -> &[Frame] {
        self.settle();
        &self.frames
    }
}

/// A reader that closes the pipe misses the rest.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The lines of `text`, none longer than [`WIDTH`] if its words are not; a long one goes on in the
/// next, indented.
fn fit(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let shown = line.trim_start();
        let indent = " ".repeat(line.chars().count() - shown.chars().count());
        let mut current = indent.clone();
        for (position, word) in shown.split(' ').enumerate() {
            let gap = usize::from(position > 0);
            if gap > 0 && current.chars().count() + gap + word.chars().count() > WIDTH {
                let next = format!("{indent}    {word}");
                lines.push(std::mem::replace(&mut current, next));
            } else {
                current.push_str(&" ".repeat(gap));
                current.push_str(word);
            }
        }
        lines.push(current);
    }
    lines
        .into_iter()
        .map(|it| it.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_goes_on_in_the_next() {
        let long = format!("  {} tail of the line", "x".repeat(70));
        let first = format!("  {} tail of", "x".repeat(70));
        let found = fit(&long);
        assert_eq!(found, [first, "      the line".to_owned()]);
    }

    #[test]
    fn columns_and_empty_lines_stay() {
        assert_eq!(fit("a   b\n\n  c  d"), ["a   b", "", "  c  d"]);
        assert_eq!(fit(""), Vec::<String>::new());
    }
}
