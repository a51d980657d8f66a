//! Paragraphs on a terminal.

use std::io::{IsTerminal as _, stdout};

use rustix::termios::tcgetwinsize;

/// Columns of the terminal; without one, lines are not wrapped.
pub(super) fn width() -> usize {
    let out = stdout();
    let size = out.is_terminal().then(|| tcgetwinsize(out).ok()).flatten();
    // A terminal that does not know its size says 0.
    let columns = size.map(|it| usize::from(it.ws_col)).filter(|it| *it > 0);
    columns.unwrap_or(usize::MAX)
}

/// Fills the lines of paragraphs that are too long up to so many columns, between words. Headings, tables and items of lists
/// begin lines of their own. A link to a page is its words and the file.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let text = links(text);
    let mut paragraphs: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        let begins = line.is_empty() || line.starts_with(['-', '#', '|']);
        match paragraphs.last_mut() {
            Some(last) if !begins && !last[0].is_empty() => last.push(line),
            _ => paragraphs.push(vec![line]),
        }
    }
    let lines = paragraphs.iter().flat_map(|it| fill(it, width));
    lines.collect::<Vec<_>>().join("\n")
}

fn links(text: &str) -> String {
    let Some((before, after)) = text.split_once("](../") else {
        return text.to_owned();
    };
    let (start, words) = before.rsplit_once('[').unwrap_or(("", before));
    format!("{start}{words} (docs/{}", links(after))
}

fn fill(lines: &[&str], width: usize) -> Vec<String> {
    if lines.iter().all(|it| it.chars().count() <= width) {
        return lines.iter().map(|it| (*it).to_owned()).collect();
    }
    let mut filled: Vec<String> = Vec::new();
    for word in lines.iter().flat_map(|it| it.split_whitespace()) {
        match filled.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => filled.push(word.to_owned()),
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let text = "one two three four\nfive\n\n- an item of\n  a list\n- x\n\nlast";
        assert_eq!(wrapped(text, 99), text);
        assert_eq!(
            wrapped(text, 10),
            "one two\nthree four\nfive\n\n- an item\nof a list\n- x\n\nlast"
        );
        assert_eq!(wrapped("überlang ab", 8), "überlang\nab");
        assert_eq!(
            wrapped("See [a](../concepts/a.md), [b](../b.md).", 99),
            "See a (docs/concepts/a.md), b (docs/b.md)."
        );
    }
}
