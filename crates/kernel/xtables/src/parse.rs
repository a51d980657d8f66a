//! What `iptables-save` prints and `iptables-restore` reads, as values.
//!
//! Total: what we would never write becomes [`Rule::Foreign`], and a line that is no line of
//! iptables is passed over. The text of a program that succeeded has none.

mod line;

use std::collections::BTreeMap;

use crate::rule::{ChainName, Rule, Table};

/// Chains and their rules, in order. A chain without rules is there, too; one that only `nft` can have
/// made, by its long name, is not.
pub type Ruleset = BTreeMap<Key, Vec<Rule>>;

/// A chain among all tables.
pub type Key = (Table, ChainName);

/// Reads a whole ruleset, with or without counters.
pub fn parse(text: &str) -> Ruleset {
    let mut ruleset = Ruleset::new();
    play(&mut ruleset, text);
    ruleset
}

/// Does to `ruleset` what `iptables-restore --noflush` does with `script`, if nothing is refused:
/// a declared chain is emptied, `-A`, `-I`, `-D`, `-F` and `-X` do what they say. Costs what the
/// script costs, however large the ruleset is.
pub fn play(ruleset: &mut Ruleset, script: &str) {
    let mut table = None;
    for line in script.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = Table::ALL.into_iter().find(|it| it.as_str() == name.trim());
        } else if let Some(table) = table {
            play_line(ruleset, table, line);
        }
    }
}

/// `None`: no line of iptables, or no chain can have the name.
fn play_line(ruleset: &mut Ruleset, table: Table, line: &str) -> Option<()> {
    if let Some(declared) = line.strip_prefix(':') {
        let chain = ChainName::read(word(declared).0)?;
        ruleset.insert((table, chain), Vec::new());
        return Some(());
    }
    let (command, name, rest) = command(line)?;
    let key = (table, ChainName::read(name)?);
    match command {
        "-A" => ruleset.entry(key).or_default().push(line::rule(rest)),
        "-I" => ruleset.entry(key).or_default().insert(0, line::rule(rest)),
        "-D" => {
            let (rules, rule) = (ruleset.entry(key).or_default(), line::rule(rest));
            if let Some(index) = rules.iter().position(|it| *it == rule) {
                rules.remove(index);
            }
        }
        "-N" | "-F" => drop(ruleset.insert(key, Vec::new())),
        "-X" => drop(ruleset.remove(&key)),
        _ => {}
    }
    Some(())
}

/// One rule, as it stands after `-A CHAIN `.
pub fn parse_rule(text: &str) -> Rule {
    line::rule(text)
}

/// The chains that follow `-j` or `-g` in what stands after `-A CHAIN `.
pub(crate) fn jumps(text: &str) -> Vec<ChainName> {
    line::jumps(text)
}

/// `[1:60] -A CHAIN rest` in parts.
fn command(line: &str) -> Option<(&str, &str, &str)> {
    let line = match line.strip_prefix('[') {
        Some(counted) => counted.split_once("] ")?.1,
        None => line,
    };
    let (command, rest) = word(line);
    let (name, rest) = word(rest);
    (command.starts_with('-') && !name.is_empty()).then_some((command, name, rest.trim()))
}

/// Up to the next blank, and what follows it.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests;
