//! Reads the output of `iptables-save` and the input of `iptables-restore`.
//!
//! Reading never fails: a rule of a form that we do not write becomes [`Rule::Foreign`], and any other
//! line is ignored.

mod rule;

use std::collections::BTreeMap;

use crate::rule::{ChainName, Rule, Table};
pub use rule::{jumps, parse_rule};

/// Chains and their rules, in order, with empty chains. Without chains whose names are too long for
/// iptables: `nft` made them.
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

/// `None` for other lines, and for names that no chain of iptables can have.
fn play_line(ruleset: &mut Ruleset, table: Table, line: &str) -> Option<()> {
    let (command, chain, rule) = match Line::read(line)? {
        Line::Chain { name, .. } => ("-N", name, ""),
        Line::Rule {
            command,
            chain,
            rule,
        } => (command, chain, rule),
    };
    let key = (table, ChainName::read(chain)?);
    match command {
        "-A" => ruleset.entry(key).or_default().push(parse_rule(rule)),
        "-I" => ruleset.entry(key).or_default().insert(0, parse_rule(rule)),
        "-D" => {
            let (rules, rule) = (ruleset.entry(key).or_default(), parse_rule(rule));
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

/// A line about a chain or a rule, with or without counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// `:NAME POLICY [0:0]`: the chain exists and is empty.
    Chain {
        name: &'a str,
        /// `ACCEPT` or `DROP` of a built-in chain, else `-`.
        policy: &'a str,
    },
    /// `COMMAND CHAIN RULE`, as `-A`.
    Rule {
        /// `-A`, `-I`, `-D`, or of a whole chain `-N`, `-F`, `-X`.
        command: &'a str,
        chain: &'a str,
        /// The text of the rule; empty for a whole chain.
        rule: &'a str,
    },
}

impl<'a> Line<'a> {
    /// Reads a line; `None` for every other line.
    pub fn read(line: &'a str) -> Option<Self> {
        if let Some(declared) = line.strip_prefix(':') {
            let (name, rest) = word(declared);
            let (policy, _) = word(rest);
            return Some(Self::Chain { name, policy });
        }
        let line = match line.strip_prefix('[') {
            Some(counted) => counted.split_once("] ")?.1,
            None => line,
        };
        let (command, rest) = word(line);
        let (chain, rest) = word(rest);
        let is_command = command.starts_with('-') && !chain.is_empty();
        is_command.then_some(Self::Rule {
            command,
            chain,
            rule: rest.trim(),
        })
    }
}

/// The packets and bytes of a line about a rule; `None` for a line without counters.
pub fn counters(line: &str) -> Option<(u64, u64)> {
    let (packets, rest) = line.strip_prefix('[')?.split_once(':')?;
    let (bytes, _) = rest.split_once(']')?;
    Some((packets.parse().ok()?, bytes.parse().ok()?))
}

/// Up to the next blank, and what follows it.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests;
