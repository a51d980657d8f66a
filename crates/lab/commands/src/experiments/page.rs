//! A page as steps.

use anyhow::{Context, bail};

/// One experiment.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) title: String,
    /// Flags of `sluice lab up`.
    pub(super) lab: Vec<String>,
    pub(super) steps: Vec<Step>,
}

/// A part of a page, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Headings and paragraphs.
    Text(String),
    /// Manifests to apply.
    Manifests(String),
    /// A command, as a shell would split it, and lines of its output.
    Command {
        line: String,
        words: Vec<String>,
        expected: Vec<String>,
    },
}

impl Page {
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let (first, rest) = text.split_once('\n').context("an empty page")?;
        let lab = first
            .strip_prefix("<!-- lab:")
            .and_then(|it| it.strip_suffix("-->"))
            .context("the first line is no `<!-- lab: FLAGS -->`")?;
        let mut page = Self {
            title: String::new(),
            lab: lab.split_whitespace().map(str::to_owned).collect(),
            steps: Vec::new(),
        };
        let mut lines = rest.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.strip_prefix("```") else {
                page.text(line);
                continue;
            };
            let block: Vec<&str> = lines.by_ref().take_while(|it| *it != "```").collect();
            match language {
                "yaml" => page.steps.push(Step::Manifests(block.join("\n"))),
                "console" => page.commands(&block)?,
                "text" => page.text(&block.join("\n")),
                other => bail!("a fence of {other:?}: yaml, console or text"),
            }
        }
        Ok(page)
    }

    /// The data plane of the lab, if the page names one.
    pub(super) fn mode(&self) -> Option<&str> {
        let mut flags = self.lab.iter().skip_while(|it| *it != "--proxy-mode");
        flags.nth(1).map(String::as_str)
    }

    /// How many lines of output are compared.
    #[cfg(test)]
    pub(super) fn checks(&self) -> usize {
        let lines = |it: &Step| match it {
            Step::Command { expected, .. } => expected.len(),
            _ => 0,
        };
        self.steps.iter().map(lines).sum()
    }

    fn text(&mut self, line: &str) {
        if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut self.title);
            return;
        }
        match self.steps.last_mut() {
            Some(Step::Text(text)) => {
                text.push('\n');
                text.push_str(line);
            }
            _ if line.is_empty() => {}
            _ => self.steps.push(Step::Text(line.to_owned())),
        }
    }

    fn commands(&mut self, block: &[&str]) -> anyhow::Result<()> {
        for line in block {
            if let Some(command) = line.strip_prefix("$ ") {
                let words = words(command).with_context(|| command.to_owned())?;
                if words.first().map(String::as_str) != Some("sluice") {
                    bail!("{command}: only commands of sluice run");
                }
                self.steps.push(Step::Command {
                    line: command.to_owned(),
                    words: words.into_iter().skip(1).collect(),
                    expected: Vec::new(),
                });
                continue;
            }
            match self.steps.last_mut() {
                Some(Step::Command { expected, .. }) if line.trim() != "…" => {
                    expected.push((*line).to_owned());
                }
                Some(Step::Command { .. }) => {}
                _ => bail!("{line}: output without a command"),
            }
        }
        Ok(())
    }
}

/// Words between spaces; quotes keep them together.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for it in line.chars() {
        match (it, quote) {
            (_, Some(open)) if it == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(it),
            ('\'' | '"', None) => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            (' ', None) => words.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(it),
        }
    }
    if quote.is_some() {
        bail!("a quote is open");
    }
    words.extend(word);
    Ok(words)
}

/// Whether `output` has all `expected` lines in this order, with any others between them.
pub(super) fn missing<'a>(expected: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    expected
        .iter()
        .find(|wanted| !lines.any(|line| fits(wanted, line)))
        .map(String::as_str)
}

/// Whether a line is as a pattern says, where `…` stands for anything.
pub(super) fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.trim().strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    // What is at the end of a pattern is at the end of the line.
    last.is_some_and(|it| it.is_empty() || line.trim().ends_with(it)) || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_leave_out_what_differs() {
        for (pattern, line, expect) in [
            ("web-1  Running", "web-1  Running", true),
            ("web-1", "web-1  Running", false),
            ("web-1 …", "web-1  Running", true),
            ("… Running", "web-1  Running", true),
            ("web … Run … ing", "web-1  Running", true),
            ("… Running", "web-1  Running 5s", false),
            ("tcp dport …:80", "  tcp dport 10.0.0.1:80  ", true),
        ] {
            assert_eq!(fits(pattern, line), expect, "{pattern:?} {line:?}");
        }
        let expected = ["a", "c"].map(str::to_owned);
        assert_eq!(missing(&expected, "a\nb\nc"), None);
        assert_eq!(missing(&expected, "c\na"), Some("c"));
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(
            words("sluice lab exec a -- sh -c 'x | y' \"\"").unwrap(),
            ["sluice", "lab", "exec", "a", "--", "sh", "-c", "x | y", ""]
        );
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn a_page_is_text_manifests_and_commands() {
        let page = Page::read(
            "<!-- lab: --nodes 2 --proxy-mode ipvs -->\n# Title\n\nWhy.\n\n```yaml\nkind: Pod\n```\n\n\
             ```console\n$ sluice lab get pods\nweb-1 …\n…\n```\n",
        );
        let page = page.unwrap();
        assert_eq!((page.title.as_str(), page.checks()), ("Title", 1));
        assert_eq!(page.lab, ["--nodes", "2", "--proxy-mode", "ipvs"]);
        assert_eq!(page.mode(), Some("ipvs"));
        assert_eq!(page.steps.len(), 3);
        assert!(Page::read("# Title\n").is_err());
    }
}
