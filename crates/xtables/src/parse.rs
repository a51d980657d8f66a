//! What `iptables-save` prints and `iptables-restore` reads, as values.
//!
//! Total: what we would never write becomes [`Rule::Foreign`], and a line that is no line of
//! iptables is passed over. The text of a program that succeeded has none.

mod line;

use std::collections::{BTreeMap, HashMap};
use std::mem;

use crate::rule::{ChainName, Rule, Table};

/// Chains and their rules, in order. A chain without rules is there, too.
pub type Ruleset = BTreeMap<(Table, ChainName), Vec<Rule>>;

/// Reads a whole ruleset, with or without counters.
pub fn parse(text: &str) -> Ruleset {
    let mut ruleset = Ruleset::new();
    play(&mut ruleset, text);
    ruleset
}

/// Does to `ruleset` what `iptables-restore --noflush` does with `script`, if nothing is refused:
/// a declared chain is emptied, `-A`, `-I`, `-D`, `-F` and `-X` do what they say.
pub fn play(ruleset: &mut Ruleset, script: &str) {
    let mut player = Player {
        ruleset,
        names: Names::default(),
        table: None,
        open: None,
    };
    script.lines().for_each(|it| player.line(it));
    player.close();
}

/// One rule, as it stands after `-A CHAIN `.
pub fn parse_rule(text: &str) -> Rule {
    line::rule(text, &mut Names::default())
}

/// Chain names that were seen: most are written several times.
#[derive(Default)]
struct Names<'a>(HashMap<&'a str, ChainName>);

impl<'a> Names<'a> {
    fn get(&mut self, name: &'a str) -> ChainName {
        let known = self.0.entry(name);
        known.or_insert_with(|| ChainName::new(name)).clone()
    }
}

struct Player<'a, 'r> {
    ruleset: &'r mut Ruleset,
    names: Names<'a>,
    table: Option<Table>,
    /// The chain that the last line was about, taken out of the ruleset: lines of a chain follow
    /// each other, and looking a chain up costs more than reading its rule.
    open: Option<(&'a str, (Table, ChainName), Vec<Rule>)>,
}

impl<'a> Player<'a, '_> {
    fn line(&mut self, line: &'a str) {
        if let Some(name) = line.strip_prefix('*') {
            self.close();
            self.table = Table::ALL.into_iter().find(|it| it.as_str() == name.trim());
            return;
        }
        let Some(table) = self.table else { return };
        if let Some(declared) = line.strip_prefix(':') {
            let (name, _) = word(declared);
            self.chain(table, name).clear();
            return;
        }
        let Some((command, name, rest)) = command(line) else {
            return;
        };
        match command {
            "-A" => {
                let rule = line::rule(rest, &mut self.names);
                self.chain(table, name).push(rule);
            }
            "-I" => {
                let rule = line::rule(rest, &mut self.names);
                self.chain(table, name).insert(0, rule);
            }
            "-D" => {
                let rule = line::rule(rest, &mut self.names);
                let rules = self.chain(table, name);
                if let Some(index) = rules.iter().position(|it| *it == rule) {
                    rules.remove(index);
                }
            }
            "-N" | "-F" => self.chain(table, name).clear(),
            "-X" => {
                self.close();
                let name = self.names.get(name);
                self.ruleset.remove(&(table, name));
            }
            _ => {}
        }
    }

    fn chain(&mut self, table: Table, name: &'a str) -> &mut Vec<Rule> {
        if !matches!(&self.open, Some((open, _, _)) if *open == name) {
            self.close();
        }
        let (names, ruleset) = (&mut self.names, &mut *self.ruleset);
        let open = self.open.get_or_insert_with(|| {
            let key = (table, names.get(name));
            let rules = mem::take(ruleset.entry(key.clone()).or_default());
            (name, key, rules)
        });
        &mut open.2
    }

    fn close(&mut self) {
        if let Some((_, key, rules)) = self.open.take() {
            self.ruleset.insert(key, rules);
        }
    }
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
