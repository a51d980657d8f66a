//! What `iptables-save` prints and `iptables-restore` reads, as values.
//!
//! Total: what we would never write becomes [`Rule::Foreign`], and a line that is no line of
//! iptables is passed over. The text of a program that succeeded has none.

mod line;

use std::collections::{BTreeMap, HashMap};
use std::mem;

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
    let mut player = Player {
        ruleset,
        places: HashMap::new(),
        touched: Vec::new(),
        table: None,
        open: None,
    };
    script.lines().for_each(|it| player.line(it));
    player.end();
}

/// One rule, as it stands after `-A CHAIN `.
pub fn parse_rule(text: &str) -> Rule {
    line::rule(text)
}

/// Chains are changed in a list of their own and sorted in at the end: to look one up among
/// hundred thousand costs more than to read its rule.
struct Player<'a, 'r> {
    ruleset: &'r mut Ruleset,
    /// Where `touched` has a chain, in each table.
    places: HashMap<&'a str, [Option<usize>; Table::ALL.len()]>,
    /// Chains that a line was about; `None` for one that was removed.
    touched: Vec<(Key, Option<Vec<Rule>>)>,
    table: Option<Table>,
    /// The chain of the last line, and its place: lines of a chain follow each other.
    open: Option<(&'a str, usize)>,
}

impl<'a> Player<'a, '_> {
    fn line(&mut self, line: &'a str) {
        if let Some(name) = line.strip_prefix('*') {
            self.open = None;
            self.table = Table::ALL.into_iter().find(|it| it.as_str() == name.trim());
            return;
        }
        let Some(table) = self.table else { return };
        if let Some(declared) = line.strip_prefix(':') {
            let (name, _) = word(declared);
            if let Some(place) = self.place(table, name) {
                self.chain(place).clear();
            }
            return;
        }
        let Some((command, name, rest)) = command(line) else {
            return;
        };
        let Some(place) = self.place(table, name) else {
            return;
        };
        match command {
            "-A" => self.chain(place).push(line::rule(rest)),
            "-I" => self.chain(place).insert(0, line::rule(rest)),
            "-D" => {
                let rule = line::rule(rest);
                let rules = self.chain(place);
                if let Some(index) = rules.iter().position(|it| *it == rule) {
                    rules.remove(index);
                }
            }
            "-N" | "-F" => self.chain(place).clear(),
            "-X" => self.touched[place].1 = None,
            _ => {}
        }
    }

    fn chain(&mut self, place: usize) -> &mut Vec<Rule> {
        self.touched[place].1.get_or_insert_default()
    }

    /// `None`: no chain can have this name.
    fn place(&mut self, table: Table, name: &'a str) -> Option<usize> {
        if let Some((open, place)) = self.open
            && open == name
        {
            return Some(place);
        }
        let chain = ChainName::read(name)?;
        let places = self.places.entry(name).or_default();
        let place = *places[table as usize].get_or_insert_with(|| {
            let key = (table, chain);
            let rules = self.ruleset.get_mut(&key).map(mem::take);
            self.touched.push((key, rules));
            self.touched.len() - 1
        });
        self.open = Some((name, place));
        Some(place)
    }

    fn end(self) {
        let is_new = self.ruleset.is_empty();
        if is_new {
            let present = self.touched.into_iter();
            // Sorted once, which is how a map is made from many.
            *self.ruleset = present
                .filter_map(|(key, rules)| Some((key, rules?)))
                .collect();
            return;
        }
        for (key, rules) in self.touched {
            match rules {
                Some(rules) => self.ruleset.insert(key, rules),
                None => self.ruleset.remove(&key),
            };
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
