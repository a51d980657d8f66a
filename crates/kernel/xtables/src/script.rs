//! Input of `iptables-restore --noflush`.

use std::fmt::{self, Display};
use std::io;

use crate::rule::{ChainName, Rule, Table};
use crate::rule_list::RuleList;
use crate::text::Word;

/// Lines of input, rendered again for each reader: the text of a large ruleset is larger than
/// everything that it is rendered from, so it is never in memory as a whole.
pub struct Script<'a> {
    render: Box<dyn Fn(&mut Lines<'_>) + Sync + 'a>,
}

impl<'a> Script<'a> {
    /// The lines that `render` adds, which are the same each time.
    pub fn new(render: impl Fn(&mut Lines<'_>) + Sync + 'a) -> Self {
        let render = Box::new(render);
        Self { render }
    }

    /// Calls `line` with each line, without its end. Returns how many of them are `COMMIT`.
    fn for_each(&self, mut line: impl FnMut(fmt::Arguments<'_>)) -> u32 {
        let mut lines = Lines {
            add: &mut line,
            table: None,
            declared: 0,
            commits: 0,
        };
        (self.render)(&mut lines);
        lines.cut();
        lines.commits
    }

    /// Writes every line. After an error nothing more is written.
    ///
    /// # Errors
    ///
    /// The first error of `to`.
    pub(crate) fn write(&self, to: &mut dyn io::Write) -> io::Result<()> {
        let mut result = Ok(());
        self.for_each(|line| {
            if result.is_ok() {
                result = writeln!(to, "{line}");
            }
        });
        result
    }

    /// The whole input.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.for_each(|line| {
            fmt::Write::write_fmt(&mut text, line).expect("a String takes all text");
            text.push('\n');
        });
        text
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.commits() == 0
    }

    /// Line `number`, counted from 1, without its end.
    pub fn line(&self, number: usize) -> Option<String> {
        let (mut count, mut found) = (0, None);
        self.for_each(|line| {
            count += 1;
            if count == number {
                found = Some(line.to_string());
            }
        });
        found
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> u32 {
        let mut count = 0;
        self.for_each(|_| count += 1);
        count
    }

    /// How many transactions the kernel gets at most: one for each `COMMIT`.
    pub(crate) fn commits(&self) -> u32 {
        self.for_each(|_| {})
    }
}

impl fmt::Debug for Script<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.text()).finish()
    }
}

/// Takes the lines of a script. Lines belong to the table that was named last.
pub struct Lines<'a> {
    add: &'a mut dyn FnMut(fmt::Arguments<'_>),
    table: Option<Table>,
    /// Chains that the open step declares.
    declared: usize,
    commits: u32,
}

impl Lines<'_> {
    /// The following lines are about this table. Each table is written at once: what comes before
    /// is committed, and stays when a later table is refused.
    pub fn table(&mut self, table: Table) {
        if self.table != Some(table) {
            self.cut();
            self.table = Some(table);
            (self.add)(format_args!("*{table}"));
        }
    }

    /// Ends the step here if it declares this many chains, and goes on with another one.
    pub fn may_cut(&mut self, largest: usize) {
        if let Some(table) = self.table
            && self.declared >= largest
        {
            self.cut();
            self.table(table);
        }
    }

    /// `:CHAIN - [0:0]`: the chain exists and is empty, its counters are zero.
    pub fn declare(&mut self, chain: &ChainName) {
        self.declared += 1;
        (self.add)(format_args!(":{} - [0:0]", Word(chain.as_str())));
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
        (self.add)(format_args!("-X {}", Word(chain.as_str())));
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
        if is_empty {
            (self.add)(format_args!("{command} {chain}"))
        } else {
            (self.add)(format_args!("{command} {chain} {rule}"))
        }
    }

    /// Ends the step here. The next line has to name a table.
    pub fn cut(&mut self) {
        if self.table.take().is_some() {
            self.declared = 0;
            self.commits += 1;
            (self.add)(format_args!("COMMIT"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Variant;
    use crate::rule::{Match, Target};

    #[test]
    fn lines_are_rendered_in_tables() {
        let (a, b) = (ChainName::new("A"), ChainName::new("B"));
        let rule = Rule::when([Match::comment("c d")], Target::Jump(b));
        assert!(Script::new(|_| {}).is_empty());
        let script = Script::new(|lines| {
            lines.table(Table::Filter);
            lines.declare(&a);
            lines.declare(&b);
            lines.append(&a, &rule);
            lines.table(Table::Nat);
            lines.insert(&a, &Rule::count([]));
            lines.delete(&a, &rule);
            lines.remove(&b);
        });
        let text = "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -m comment --comment \"c d\" -j B\nCOMMIT\n\
                    *nat\n-I A\n-D A -m comment --comment \"c d\" -j B\n-X B\nCOMMIT\n";
        assert_eq!(script.text(), text);
        let mut written = Vec::new();
        script.write(&mut written).unwrap();
        assert_eq!(written, text.as_bytes());
        assert_eq!(script.commits(), 2);
        let numbered = |number| script.line(number);
        assert_eq!(numbered(9), Some("-X B".to_owned()));
        assert_eq!([0, 11].map(numbered), [None, None]);
    }

    #[test]
    fn large_steps_are_cut_where_the_variant_gains() {
        let steps = |variant: Variant| {
            let script = Script::new(|lines| {
                lines.may_cut(variant.largest_step());
                lines.table(Table::Nat);
                for number in 0..2 * Variant::Nft.largest_step() {
                    lines.declare(&ChainName::new(&format!("C{number}")));
                    lines.may_cut(variant.largest_step());
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
