//! Input of `iptables-restore --noflush` that knows what each of its lines is for.

use std::fmt::{self, Display};

use crate::programs::Variant;
use crate::rule::{ChainName, Rule, Table};
use crate::rule_list::RuleList;
use crate::text::Word;

/// Lines of input, made anew whenever somebody wants them: the text of a large ruleset is larger
/// than everything that it is made from, so nobody keeps it.
pub struct Script<'a> {
    write: Box<dyn Fn(&mut Lines<'_>) + Sync + 'a>,
}

impl<'a> Script<'a> {
    /// The lines that `write` writes, the same each time.
    pub fn new(write: impl Fn(&mut Lines<'_>) + Sync + 'a) -> Self {
        let write = Box::new(write);
        Self { write }
    }

    /// No lines.
    pub(crate) fn empty() -> Self {
        Self::new(|_| {})
    }

    /// Shows every line, in order.
    pub(crate) fn read(&self, mut to: impl FnMut(&Line<'_>)) {
        let mut lines = Lines {
            to: &mut to,
            count: 0,
            table: None,
            declared: 0,
            owner: None,
        };
        (self.write)(&mut lines);
        lines.commit();
    }

    /// The whole input.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.read(|line| line.write(&mut text));
        text
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        let mut count = 0;
        self.read(|_| count += 1);
        count
    }

    /// Whose line `number` is, counted from 1, and the line without its end. Nobody's are `*table`
    /// and `COMMIT`.
    pub fn line(&self, number: usize) -> Option<(Option<usize>, String)> {
        let mut found = None;
        self.read(|line| {
            if line.number == number {
                found = Some((line.owner, line.text.to_string()));
            }
        });
        found
    }

    /// How many steps are committed before line `number`, counted from 1.
    pub fn commits_before(&self, number: usize) -> u32 {
        let mut commits = 0;
        self.read(|line| commits += u32::from(line.is_commit && line.number < number));
        commits
    }
}

impl fmt::Debug for Script<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.text()).finish()
    }
}

/// One line of a script.
pub(crate) struct Line<'a> {
    /// Counted from 1.
    number: usize,
    owner: Option<usize>,
    is_commit: bool,
    text: fmt::Arguments<'a>,
}

impl Line<'_> {
    /// Adds it to a text, with its end.
    pub(crate) fn write(&self, text: &mut String) {
        fmt::Write::write_fmt(text, self.text).expect("a String takes all text");
        text.push('\n');
    }
}

/// Takes the lines of a script. Lines belong to the table and the owner that were named last.
pub struct Lines<'a> {
    to: &'a mut dyn FnMut(&Line<'_>),
    /// Lines that were written.
    count: usize,
    table: Option<Table>,
    /// Chains that the open step declares.
    declared: usize,
    owner: Option<usize>,
}

impl Lines<'_> {
    /// The following lines are about this table. Each table is written at once: what comes before
    /// is committed, and stays when a later table is refused.
    pub fn table(&mut self, table: Table) {
        if self.table != Some(table) {
            self.commit();
            self.table = Some(table);
            self.put(None, false, format_args!("*{table}"));
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
        self.declared += 1;
        self.line(format_args!(":{} - [0:0]", Word(chain.as_str())));
    }

    /// `-A`: the rule is the last of the chain.
    pub fn append(&mut self, chain: &ChainName, rule: &Rule) {
        self.rule("-A", chain, rule);
    }

    /// `-A` for each of these, in their order.
    pub fn append_all(&mut self, chain: &ChainName, rules: &RuleList) {
        for rule in rules.texts() {
            self.on_chain("-A", chain, rule.is_empty(), rule);
        }
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
        self.line(format_args!("-X {}", Word(chain.as_str())));
    }

    fn rule(&mut self, command: &str, chain: &ChainName, rule: &Rule) {
        let is_empty = matches!(
            rule,
            Rule::Known { matches, target: None } if matches.is_empty()
        );
        self.on_chain(command, chain, is_empty, rule);
    }

    /// A rule without text has no blank before it either.
    fn on_chain(&mut self, command: &str, chain: &ChainName, is_empty: bool, rule: impl Display) {
        let chain = Word(chain.as_str());
        match is_empty {
            true => self.line(format_args!("{command} {chain}")),
            false => self.line(format_args!("{command} {chain} {rule}")),
        }
    }

    fn commit(&mut self) {
        if self.table.take().is_some() {
            self.declared = 0;
            self.put(None, true, format_args!("COMMIT"));
        }
    }

    fn line(&mut self, text: fmt::Arguments<'_>) {
        self.put(self.owner, false, text);
    }

    fn put(&mut self, owner: Option<usize>, is_commit: bool, text: fmt::Arguments<'_>) {
        self.count += 1;
        (self.to)(&Line {
            number: self.count,
            owner,
            is_commit,
            text,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Match, Target};

    #[test]
    fn lines_know_their_owners() {
        let (a, b) = (ChainName::new("A"), ChainName::new("B"));
        let rule = Rule::when([Match::comment("c d")], Target::Jump(b));
        assert!(Script::new(|_| {}).is_empty());
        let script = Script::new(|lines| {
            lines.table(Table::Filter);
            lines.about(Some(7));
            lines.declare(&a);
            lines.declare(&b);
            lines.append(&a, &rule);
            lines.table(Table::Nat);
            lines.about(None);
            lines.insert(&a, &Rule::count([]));
            lines.about(Some(9));
            lines.delete(&a, &rule);
            lines.remove(&b);
        });
        assert_eq!(script.len(), 10);
        let text = "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -m comment --comment \"c d\" -j B\nCOMMIT\n\
                    *nat\n-I A\n-D A -m comment --comment \"c d\" -j B\n-X B\nCOMMIT\n";
        assert_eq!(script.text(), text);
        let owner = |number| script.line(number).and_then(|(owner, _)| owner);
        let owners: Vec<_> = (0..=11).map(owner).collect();
        let (none, seven, nine) = (None, Some(7), Some(9));
        let expected = [
            none, none, seven, seven, seven, none, none, none, nine, nine, none, none,
        ];
        assert_eq!(owners, expected);
        assert_eq!(script.line(9), Some((nine, "-X B".to_owned())));
        assert_eq!(script.line(0), None);
        assert_eq!(
            [5, 6, 10, 11].map(|it| script.commits_before(it)),
            [0, 1, 1, 2]
        );
    }

    #[test]
    fn large_steps_are_cut_where_the_variant_gains() {
        let steps = |variant: Variant| {
            let script = Script::new(|lines| {
                lines.may_cut(variant);
                lines.table(Table::Nat);
                for number in 0..2 * Variant::Nft.largest_step() {
                    lines.declare(&ChainName::new(&format!("C{number}")));
                    lines.may_cut(variant);
                }
            });
            let text = script.text();
            let count = |word: &str| text.lines().filter(|it| *it == word).count();
            assert_eq!(count("*nat"), count("COMMIT"));
            count("COMMIT")
        };
        assert_eq!(steps(Variant::Nft), 3);
        assert_eq!(steps(Variant::Legacy), 1);
    }
}
