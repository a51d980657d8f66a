//! Input of `iptables-restore --noflush` that knows what each of its lines is for.

use std::fmt::Write;

use crate::programs::Variant;
use crate::rule::{ChainName, Rule, Table};
use crate::text::Word;

/// Builds the input. Lines belong to the table and the owner that were named last.
#[derive(Clone, Debug, Default)]
pub struct Script {
    text: String,
    /// Lines that were written.
    lines: usize,
    table: Option<Table>,
    /// Chains that the open step declares.
    declared: usize,
    owner: Option<usize>,
    /// From which line on, counted from 1, lines are whose. Ascending.
    owners: Vec<(usize, Option<usize>)>,
}

impl Script {
    /// One without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines
    }

    /// The following lines are about this table. Each table is written at once: what comes before
    /// is committed, and stays when a later table is refused.
    pub fn table(&mut self, table: Table) {
        if self.table != Some(table) {
            self.commit();
            self.table = Some(table);
            self.own(None);
            self.line(format_args!("*{table}"));
        }
    }

    /// What is above may be written before what is below: where a step has become as large as
    /// `variant` takes well, it ends here, and the table goes on in another one.
    pub fn may_cut(&mut self, variant: Variant) {
        if let Some(table) = self.table
            && self.declared >= variant.largest_step()
        {
            self.commit();
            self.table(table);
        }
    }

    /// What is above is written before what is below, also of the same table.
    pub fn cut(&mut self) {
        self.commit();
    }

    /// Whose the following lines are: a number that the caller understands.
    pub fn about(&mut self, owner: Option<usize>) {
        self.owner = owner;
    }

    /// `:CHAIN - [0:0]`: the chain exists and is empty, its counters are zero.
    pub fn declare(&mut self, chain: &ChainName) {
        self.own(self.owner);
        self.declared += 1;
        self.line(format_args!(":{} - [0:0]", Word(chain.as_str())));
    }

    /// `-A`: the rule is the last of the chain.
    pub fn append(&mut self, chain: &ChainName, rule: &Rule) {
        self.rule("-A", chain, rule);
    }

    /// `-I`: the rule is the first of the chain.
    pub fn insert(&mut self, chain: &ChainName, rule: &Rule) {
        self.rule("-I", chain, rule);
    }

    /// `-D`: the first rule of the chain that is equal goes; refused when there is none.
    pub fn delete(&mut self, chain: &ChainName, rule: &Rule) {
        self.rule("-D", chain, rule);
    }

    /// `-X`: the chain goes; refused when it has rules or one leads to it. Declare it first, which
    /// empties it.
    pub fn remove(&mut self, chain: &ChainName) {
        self.own(self.owner);
        self.line(format_args!("-X {}", Word(chain.as_str())));
    }

    /// The whole input.
    pub fn finish(mut self) -> Finished {
        self.commit();
        Finished {
            text: self.text,
            owners: self.owners,
        }
    }

    fn rule(&mut self, command: &str, chain: &ChainName, rule: &Rule) {
        self.own(self.owner);
        let chain = Word(chain.as_str());
        match rule {
            Rule::Known { matches, target } if matches.is_empty() && target.is_none() => {
                self.line(format_args!("{command} {chain}"));
            }
            rule => self.line(format_args!("{command} {chain} {rule}")),
        }
    }

    fn commit(&mut self) {
        if self.table.take().is_some() {
            self.own(None);
            self.declared = 0;
            self.line(format_args!("COMMIT"));
        }
    }

    /// The next line is of this owner.
    fn own(&mut self, owner: Option<usize>) {
        if self.owners.last().is_none_or(|(_, last)| *last != owner) {
            self.owners.push((self.lines + 1, owner));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.lines += 1;
        writeln!(self.text, "{line}").expect("a String takes all text");
    }
}

/// The input of one call, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    text: String,
    owners: Vec<(usize, Option<usize>)>,
}

impl Finished {
    /// What the program reads.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line `number`, counted from 1.
    pub fn line(&self, number: usize) -> Option<&str> {
        self.text.lines().nth(number.checked_sub(1)?)
    }

    /// Whose line `number` is, counted from 1. Nobody's are `*table` and `COMMIT`.
    pub fn owner(&self, number: usize) -> Option<usize> {
        let after = self.owners.partition_point(|(from, _)| *from <= number);
        self.owners[..after].last().and_then(|(_, owner)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Match, Target};

    #[test]
    fn lines_know_their_owners() {
        let (a, b) = (ChainName::new("A"), ChainName::new("B"));
        let rule = Rule::when([Match::comment("c d")], Target::Jump(b.clone()));
        let mut script = Script::new();
        assert!(script.is_empty());
        script.table(Table::Filter);
        script.about(Some(7));
        script.declare(&a);
        script.declare(&b);
        script.append(&a, &rule);
        script.table(Table::Nat);
        script.about(None);
        script.insert(&a, &Rule::count([]));
        script.about(Some(9));
        script.delete(&a, &rule);
        script.remove(&b);
        assert_eq!(script.len(), 9);
        let finished = script.finish();
        let text = "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -m comment --comment \"c d\" -j B\nCOMMIT\n\
                    *nat\n-I A\n-D A -m comment --comment \"c d\" -j B\n-X B\nCOMMIT\n";
        assert_eq!(finished.text(), text);
        let owners: Vec<_> = (0..=12).map(|it| finished.owner(it)).collect();
        let (none, seven, nine) = (None, Some(7), Some(9));
        let expected = [
            none, none, seven, seven, seven, none, none, none, nine, nine, none, none, none,
        ];
        assert_eq!(owners, expected);
        assert_eq!(finished.line(9), Some("-X B"));
        assert_eq!(finished.line(0), None);
    }

    #[test]
    fn large_steps_are_cut_where_the_variant_gains() {
        let steps = |variant: Variant| {
            let mut script = Script::new();
            script.may_cut(variant);
            script.table(Table::Nat);
            for number in 0..2 * Variant::Nft.largest_step() {
                script.declare(&ChainName::new(format!("C{number}")));
                script.may_cut(variant);
            }
            let finished = script.finish();
            let count = |word: &str| finished.text().lines().filter(|it| *it == word).count();
            assert_eq!(count("*nat"), count("COMMIT"));
            count("COMMIT")
        };
        assert_eq!(steps(Variant::Nft), 3);
        assert_eq!(steps(Variant::Legacy), 1);
    }
}
