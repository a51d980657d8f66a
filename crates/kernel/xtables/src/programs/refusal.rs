//! Reads the errors of programs of all variants and versions.

use crate::rule::Table;

/// A line that was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) reason: String,
}

/// Reads which line was refused; `None` for another error.
///
/// - `Error occurred at line: 3`, after a reason: what the program does not understand
/// - `iptables-restore: line 3 failed`, or with `: reason`: what cannot be done
/// - `line 3: RULE_APPEND failed (reason): rule in chain A`: the kernel's answer to nft
pub(super) fn refused(said: &str) -> Option<Refused> {
    let (line, own_reason) = said.lines().find_map(numbered)?;
    let reason = match own_reason {
        Some(reason) => Some(reason),
        None => first_words(said),
    };
    Some(Refused {
        line,
        reason: reason.unwrap_or_else(|| "no reason given".to_owned()),
    })
}

fn numbered(said: &str) -> Option<(usize, Option<String>)> {
    if let Some(number) = said.strip_prefix("Error occurred at line: ") {
        return Some((number.trim().parse().ok()?, None));
    }
    let (_, from) = said.split_once("line ").filter(|(before, _)| {
        // In a sentence, `line` is not followed by a line number.
        before.is_empty() || before.ends_with(": ")
    })?;
    let digits = from.find(|it: char| !it.is_ascii_digit())?;
    let (number, rest) = from.split_at(digits);
    let number = number.parse().ok()?;
    if rest == " failed" || rest == " failed." {
        return Some((number, Some("the kernel gave no reason".to_owned())));
    }
    let reason = rest.strip_prefix(" failed: ").or(rest.strip_prefix(": "))?;
    Some((number, Some(shown(reason))))
}

/// Whether another program held the lock.
pub(super) fn is_locked(said: &str) -> bool {
    said.contains("holding the xtables lock")
}

/// The tables that are not in a listing.
///
/// Comments like ``# Table `nat' contains incompatible base-chains, use 'nft' tool to list them.``
/// and ``# Table `nat' is incompatible, use 'nft' tool.`` Chains that iptables does not know beside
/// its own do no harm, so only the latter counts.
pub(super) fn incompatible(text: &str) -> Vec<Table> {
    let comments = text.lines().filter(|it| it.starts_with('#'));
    let incompatible = comments.filter_map(|it| {
        let (table, what) = it.strip_prefix("# Table `")?.split_once('\'')?;
        let table = Table::ALL.into_iter().find(|it| it.as_str() == table)?;
        what.starts_with(" is incompatible").then_some(table)
    });
    incompatible.collect()
}

/// The first line that is no warning, without the program's name.
pub(super) fn first_words(said: &str) -> Option<String> {
    let is_aside = |it: &&str| {
        let asides = ["Warning", "#", "Error occurred", "Try `"];
        it.is_empty() || asides.iter().any(|aside| it.starts_with(aside))
    };
    let mut lines = said.lines().map(|it| without_program(it).trim());
    lines.find(|it| !is_aside(it)).map(shown)
}

/// Without `iptables-nft-restore v1.8.9 (nf_tables): ` and `iptables-restore: `.
fn without_program(line: &str) -> &str {
    let is_program = |it: &str| it.starts_with("iptables") || it.starts_with("ip6tables");
    match line.split_once(": ") {
        Some((program, rest)) if is_program(program) => without_program(rest),
        _ if is_program(line) && line.ends_with(':') => "",
        _ => line,
    }
}

fn shown(text: &str) -> String {
    text.trim()
        .escape_debug()
        .to_string()
        .replace("\\'", "'")
        .replace("\\\"", "\"")
}

#[cfg(test)]
mod tests;
