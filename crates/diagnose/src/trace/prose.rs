//! Reports as hooks and rules, with the text of the rules.
//!
//! The comment comes over netlink. The text is what `iptables-nft -S` prints for the tables of iptables,
//! and `nft -a -t list ruleset` for all others: `list chain` reads the elements of all sets, also when it does not print
//! them (1.0.6).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_nft::{Fate, NumberedRule, Step, TableFamily, Verdict};
use sluice_xtables::programs;

use super::checkpoints::{Checkpoint, Checkpoints};
use super::reports::Reports;
use super::way::{Hop, Owner, Stage, interface};

/// Time for the programs, all together.
const PROGRAMS: Duration = Duration::from_secs(5);

/// The tables that `iptables-nft` and `ip6tables-nft` make.
const IPTABLES: [&str; 5] = ["raw", "mangle", "nat", "filter", "security"];

/// A chain of any table.
type ChainId = (TableFamily, String, String);

/// Comment and text of the rules of a chain by number.
type Rules = BTreeMap<u64, (Option<String>, Option<String>)>;

/// The hooks that the packet reached. A hook begins with our first chain in it, whose first report has
/// the packet's header.
pub(super) fn stages(checkpoints: &mut Checkpoints, reports: &Reports) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    let mut rules = BTreeMap::new();
    let mut printer = Printer {
        deadline: Instant::now() + PROGRAMS,
        rulesets: BTreeMap::new(),
    };
    for (step, checkpoint) in &reports.steps {
        let header = step.header.map(Into::into);
        match (checkpoint, stages.last_mut()) {
            (Some(Checkpoint::First(hook)), _) if header.is_some() => stages.push(Stage {
                hook: hook.word(),
                arrived: header,
                left: None,
                incoming: interface(step.incoming),
                outgoing: interface(step.outgoing),
                hops: Vec::new(),
            }),
            (Some(Checkpoint::Last(_)), Some(stage)) if header.is_some() => {
                stage.left = header;
                stage.outgoing = interface(step.outgoing);
            }
            // The end of a chain is news when it is a policy.
            (None, Some(stage)) if step.handle.is_some() || is_policy(step) => {
                let id: ChainId = (step.family, step.table.clone(), step.chain.clone());
                let rules = rules
                    .entry(id)
                    .or_insert_with_key(|id| read(checkpoints, id, &mut printer));
                stage.hops.push(hop(checkpoints, step, rules));
            }
            _ => {}
        }
    }
    stages
}

fn hop(checkpoints: &Checkpoints, step: &Step, rules: &Rules) -> Hop {
    let rule = step.handle.and_then(|it| rules.get(&it));
    let (comment, text) = rule.cloned().unwrap_or_default();
    Hop {
        family: step.family.as_str(),
        owner: Owner::of(&step.table, &step.chain),
        table: printable(&step.table),
        chain: printable(&step.chain),
        priority: checkpoints.priority(step),
        handle: step.handle,
        verdict: if is_policy(step) {
            format!("policy {}", step.fate)
        } else {
            printable(&step.fate.to_string())
        },
        mark: step.mark,
        comment: comment.as_deref().map(printable),
        text: text.as_deref().map(printable),
    }
}

/// The text without control characters, which would move a terminal's cursor: names and comments may be
/// those of any program.
fn printable(text: &str) -> String {
    let escaped = |it: char| {
        if it.is_control() {
            it.escape_debug().to_string()
        } else {
            it.to_string()
        }
    };
    text.chars().map(escaped).collect()
}

fn is_policy(step: &Step) -> bool {
    step.handle.is_none() && matches!(step.fate, Fate::Verdict(Verdict::Accept | Verdict::Drop))
}

/// The rules of a chain. A chain that cannot be read, or is gone, has none.
fn read(
    checkpoints: &mut Checkpoints,
    (family, table, chain): &ChainId,
    printer: &mut Printer,
) -> Rules {
    let connection = &mut checkpoints.connection;
    let listed = connection.numbered_rules(*family, table, Some(chain));
    let listed = listed.unwrap_or_default();
    let mut texts = printer.texts(*family, table, chain, &listed);
    let rule = |it: NumberedRule| (it.handle, (it.comment, texts.remove(&it.handle)));
    listed.into_iter().map(rule).collect()
}

/// Texts of rules by table and number.
type Ruleset = BTreeMap<(String, u64), String>;

/// What programs print about rules.
struct Printer {
    deadline: Instant,
    /// As nft prints them.
    rulesets: BTreeMap<TableFamily, Ruleset>,
}

impl Printer {
    /// The output of a program; `None` when it fails or takes too long.
    fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let is_time = !left.is_zero();
        is_time.then(|| programs::output(program, arguments, left).ok())?
    }

    /// The text of the rules of a chain by number, as far as the programs print it in time.
    fn texts(
        &mut self,
        family: TableFamily,
        table: &str,
        chain: &str,
        listed: &[NumberedRule],
    ) -> BTreeMap<u64, String> {
        if listed.is_empty() {
            return BTreeMap::new();
        }
        let program = match family {
            TableFamily::Ip => Some("iptables-nft"),
            TableFamily::Ip6 => Some("ip6tables-nft"),
            _ => None,
        };
        if let Some(program) = program.filter(|_| IPTABLES.contains(&table) && is_word(chain))
            && let Some(printed) = self.run(program, &["-t", table, "-S", chain])
        {
            let lines: Vec<&str> = printed.lines().filter(|it| it.starts_with("-A ")).collect();
            // It prints no numbers: the n-th line is the n-th rule.
            if lines.len() == listed.len() {
                let rules = listed.iter().zip(lines);
                return rules
                    .map(|(it, line)| (it.handle, line.to_owned()))
                    .collect();
            }
        }
        if !self.rulesets.contains_key(&family) {
            let arguments = ["-a", "-t", "list", "ruleset", family.as_str()];
            let printed = self.run("nft", &arguments).unwrap_or_default();
            self.rulesets.insert(family, ruleset(&printed));
        }
        let texts = self.rulesets[&family].iter();
        let texts = texts.filter(|((of, handle), _)| {
            of == table && listed.iter().any(|it| it.handle == *handle)
        });
        texts.map(|((_, it), text)| (*it, text.clone())).collect()
    }
}

/// Reads what nft prints about all tables of a family.
fn ruleset(printed: &str) -> Ruleset {
    let mut table = "";
    let mut all = Ruleset::new();
    for line in printed.lines() {
        if let Some(head) = line.strip_prefix("table ") {
            // `table ip sluice { # handle 1`
            table = head.split(' ').nth(1).unwrap_or_default();
        } else if let Some((handle, text)) = numbered_line(line) {
            all.insert((table.to_owned(), handle), text);
        }
    }
    all
}

/// Reads `tcp dport 80 drop # handle 7`. The line of the chain itself ends with a brace.
fn numbered_line(line: &str) -> Option<(u64, String)> {
    let (text, handle) = line.trim().rsplit_once("# handle ")?;
    let text = text.trim_end();
    (!text.ends_with('{')).then_some(())?;
    Some((handle.parse().ok()?, text.to_owned()))
}

/// Whether a name is one that programs of iptables take for a chain, and not for an option: the kernel permits any byte in
/// a name.
fn is_word(name: &str) -> bool {
    let is_inside = |it: char| it.is_ascii_alphanumeric() || "_.-/".contains(it);
    let is_first = |it: char| it.is_ascii_alphabetic() || it == '_';
    name.starts_with(is_first) && name.chars().all(is_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nft_would_read_as_more_are_no_words() {
        for name in ["KUBE-SVC-X", "service-2QRH-default/web/tcp/http", "_x"] {
            assert!(is_word(name), "{name}");
        }
        for name in ["-f", "x; flush ruleset", "x\ny", "", "9", "é", "{"] {
            assert!(!is_word(name), "{name}");
        }
    }

    /// Numbers of rules are those of their table.
    #[test]
    fn rules_are_told_apart_by_table() {
        let printed = "table ip one { # handle 1\n\tmap m { # handle 2\n\t\ttype ipv4_addr : verdict\n\t}\n\n\
            \tchain c { # handle 3\n\t\tdrop # handle 4\n\t}\n}\n\
            table ip two { # handle 2\n\tchain c { # handle 3\n\t\taccept # handle 4\n\t}\n}\n";
        let read: Vec<_> = ruleset(printed).into_iter().collect();
        let rule = |table: &str, text: &str| ((table.to_owned(), 4), text.to_owned());
        assert_eq!(read, [rule("one", "drop"), rule("two", "accept")]);
    }

    #[test]
    fn the_line_of_a_rule_has_its_number() {
        let line = "\t\ttcp dport { 80, 443 } drop comment \"# handle 1\" # handle 7";
        let text = "tcp dport { 80, 443 } drop comment \"# handle 1\"".to_owned();
        assert_eq!(numbered_line(line), Some((7, text)));
        assert_eq!(numbered_line("\tchain forward { # handle 3"), None);
        assert_eq!(numbered_line("\t}"), None);
    }
}
