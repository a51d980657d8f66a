//! What the chains of kube-proxy's names do with one packet, whether Sluice or a kube-proxy wrote them.
//!
//! `iptables-save` lists a table with its counters; then the packet is followed from the kernel's chains.
//! In those only the jumps to chains of kube-proxy's names count: rules of others are the matter of a trace.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sluice_model::IpFamily;
use sluice_plan::explain::Explanation;
use sluice_plane::kube_proxy::{HASHED, MARKS, SEP, is_chain, is_hashed};
use sluice_plane::live::{Chains, End, Evidence, Findings, Question, Step, Walk};
use sluice_plane::{Live, chains};
use sluice_reconcile::BackendError;
use sluice_xtables::parse::{Line, counters, parse_rule};
use sluice_xtables::programs::{Programs, Variant};
use sluice_xtables::rule::{Match, Rule, Sense, States, Table, Target};

use crate::name::{EXTERNAL_SERVICES, FORWARD, INPUT, OUTPUT, PREROUTING, SERVICES};

/// Timeout of a listing for a person: `iptables-nft-save` 1.8.9 takes four minutes for 10,000 Services with 10 endpoints.
const LISTING: Duration = Duration::from_secs(10 * 60);

/// The value of [`Match::Random`] that always matches.
const CERTAIN: u32 = 1 << 31;

/// Compares the kernel's decision about the packet of an explanation with the plan's.
///
/// # Errors
///
/// The programs of iptables are not installed, or fail.
pub(crate) fn live(explanation: &Explanation) -> Result<Live, BackendError> {
    let question = Question::of(explanation)?;
    let programs = Programs::detect(MARKS);
    let programs = programs
        .map_err(|error| BackendError::new("find out which iptables this host uses", error))?;
    let programs = programs.with_timeout(LISTING);
    let answers = programs.found(question.family());
    answers.map_err(|error| BackendError::new("ask the programs of iptables", error))?;
    let findings = findings(&question, |table| {
        let mut chains = ByName::new();
        let family = question.family();
        if exists(programs.variant(), family, table)? {
            let read = programs.read_counted(family, table, |line| add(&mut chains, line));
            read.map_err(|error| BackendError::new(format!("list table {table}"), error))?;
        }
        Ok(chains)
    })?;
    Live::of(explanation, &question, findings)
}

/// Follows the packet through tables nat and filter, each read when the packet comes to it.
fn findings(
    question: &Question,
    mut read: impl FnMut(Table) -> Result<ByName, BackendError>,
) -> Result<Findings, BackendError> {
    let mut findings = Findings::default();
    for table in [Table::Nat, Table::Filter] {
        let mut walk = Walk::new(Rules {
            question,
            table,
            chains: read(table)?,
            evidence: Vec::new(),
            wrong: Vec::new(),
        });
        for (chain, to) in hooks(question, table) {
            walk.chains.check(chain, to);
            findings.ends = walk.chain(chain)?;
            if findings.ends.iter().any(is_decision) {
                break;
            }
        }
        findings.evidence.append(&mut walk.chains.evidence);
        findings.wrong.append(&mut walk.chains.wrong);
        if findings.ends.iter().any(is_decision) {
            break;
        }
    }
    Ok(findings)
}

fn is_decision(end: &End) -> bool {
    !matches!(end, End::Past | End::Accept)
}

/// The kernel's chains that the packet meets in a table, and the chain to which each must lead.
fn hooks(question: &Question, table: Table) -> Vec<(&'static str, &'static str)> {
    let to_us = question.is_ours(question.packet.destination);
    let input = (INPUT, EXTERNAL_SERVICES);
    match (table, question.is_sent_here(), to_us) {
        (Table::Nat, true, _) => vec![(OUTPUT, SERVICES)],
        (Table::Nat, false, _) => vec![(PREROUTING, SERVICES)],
        // Packets of the node to itself arrive through loopback.
        (_, true, true) => vec![(OUTPUT, SERVICES), input],
        (_, true, false) => vec![(OUTPUT, SERVICES)],
        (_, false, true) => vec![input],
        (_, false, false) => vec![(FORWARD, SERVICES)],
    }
}

/// A rule as `iptables-save -c` prints it.
struct Counted {
    /// What follows `-A CHAIN `.
    text: Box<str>,
    packets: Option<u64>,
    bytes: Option<u64>,
}

/// The rules of each chain of a table.
type ByName = HashMap<Box<str>, Vec<Counted>>;

/// Adds a line of `iptables-save`.
fn add(chains: &mut ByName, line: &str) {
    match Line::read(line) {
        Some(Line::Rule {
            command: "-A",
            chain,
            rule,
        }) => {
            let counted = counters(line);
            chains.entry(chain.into()).or_default().push(Counted {
                text: rule.into(),
                packets: counted.map(|it| it.0),
                bytes: counted.map(|it| it.1),
            });
        }
        Some(Line::Chain { name, .. }) => drop(chains.entry(name.into()).or_default()),
        _ => {}
    }
}

/// The rules of one table.
struct Rules<'a> {
    question: &'a Question,
    table: Table,
    chains: ByName,
    evidence: Vec<Evidence>,
    wrong: Vec<String>,
}

impl Rules<'_> {
    /// Notes that a chain of the kernel does not lead to the chain of Services.
    fn check(&mut self, chain: &str, to: &str) {
        let table = self.table;
        if !self.chains.contains_key(to) {
            let wrong = format!(
                "chain {to} is not in table {table}: somebody deleted it, or no agent has written it"
            );
            return self.wrong.push(wrong);
        }
        let rules = self.chains.get(chain).into_iter().flatten();
        let mut rules = rules.map(|it| parse_rule(&it.text));
        if !rules.any(|it| it.chains().iter().any(|it| it.as_str() == to)) {
            let wrong = format!("no rule of chain {table} {chain} jumps to {to}");
            self.wrong.push(wrong);
        }
    }

    /// Whether every packet, some or none meet a condition.
    fn holds(&self, condition: &Match) -> Holds {
        let packet = &self.question.packet;
        let is = |sense: &Sense, it: bool| Holds::from(it == (*sense == Sense::Is));
        match condition {
            Match::Comment(_) | Match::Remember { .. } | Match::Nfacct(_) => Holds::Always,
            // By chance, or for a client that is remembered.
            Match::Random(1..CERTAIN) | Match::SeenWithin { .. } => Holds::Sometimes,
            Match::Random(units) => Holds::from(*units >= CERTAIN),
            Match::Protocol(protocol) => Holds::from(packet.protocol == *protocol),
            Match::Source(sense, net) => is(sense, net.contains(&packet.source)),
            Match::Destination(sense, net) => is(sense, net.contains(&packet.destination)),
            Match::DestinationPort(port) => Holds::from(packet.port == *port),
            Match::InInterface(sense, name) => {
                let interface = packet.interface.as_deref().unwrap_or_default();
                is(
                    sense,
                    match name.strip_suffix('+') {
                        Some(prefix) => interface.starts_with(prefix),
                        None => interface == &**name,
                    },
                )
            }
            Match::SourceIsLocal(sense) => is(sense, self.question.is_ours(packet.source)),
            Match::DestinationIsLocal(sense) => {
                is(sense, self.question.is_ours(packet.destination))
            }
            Match::State(sense, states) => is(sense, states.intersects(States::NEW)),
            // Marks are for masquerading, and IPVS and its sets are of the other mode.
            Match::Mark { sense, .. } | Match::Ipvs(sense) | Match::Set { sense, .. } => {
                is(sense, false)
            }
        }
    }
}

/// A table of the legacy variant is created by the program that lists it.
fn exists(variant: Variant, family: IpFamily, table: Table) -> Result<bool, BackendError> {
    if variant == Variant::Nft {
        return Ok(true);
    }
    let tables = chains::legacy_tables(family);
    let tables = tables.map_err(|error| BackendError::new("list legacy tables", error))?;
    Ok(tables.contains(&table))
}

/// How many packets of this kind meet a condition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Never,
    Sometimes,
    Always,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Always } else { Self::Never }
    }
}

impl Chains for Rules<'_> {
    fn rules(&mut self, chain: &str) -> Result<usize, BackendError> {
        Ok(self.chains.get(chain).map_or(0, Vec::len))
    }

    fn steps(&mut self, chain: &str, rule: usize) -> Result<BTreeSet<Step>, BackendError> {
        let Some(counted) = self.chains.get(chain).and_then(|it| it.get(rule)) else {
            return Ok([Step::Next].into());
        };
        let is_own = is_chain(chain);
        let (matches, target) = match parse_rule(&counted.text) {
            Rule::Known { matches, target } => (matches, target),
            Rule::Foreign(text) => {
                if is_own {
                    self.wrong.push(format!(
                        "chain {} {chain} has a rule that neither Sluice nor kube-proxy writes: {text}",
                        self.table
                    ));
                }
                return Ok([Step::Next].into());
            }
        };
        let leads = matches!(&target, Some(Target::Jump(to)) if is_chain(to.as_str()));
        let holds = matches.iter().map(|it| self.holds(it)).min();
        let holds = holds.unwrap_or(Holds::Always);
        let step = target.as_ref().map_or(Step::Next, step);
        if holds == Holds::Never || step == Step::Next || !(is_own || leads) {
            return Ok([Step::Next].into());
        }
        if is_own && is_evidence(&step) {
            self.evidence.push(Evidence {
                packets: counted.packets,
                bytes: counted.bytes,
                ..Evidence::new(
                    format!("rule of chain {} {chain}", self.table),
                    &*counted.text,
                )
            });
        }
        Ok(match holds {
            Holds::Sometimes => [step, Step::Next].into(),
            _ => [step].into(),
        })
    }
}

fn step(target: &Target) -> Step {
    match target {
        Target::Jump(chain) => Step::Jump(chain.as_str().to_owned()),
        Target::Return => Step::Return,
        Target::Accept | Target::Masquerade { .. } => Step::End(End::Accept),
        Target::Drop => Step::End(End::Drop),
        Target::Reject => Step::End(End::Reject),
        Target::Dnat(to) => Step::End(End::Translated(*to)),
        Target::Mark { .. } | Target::MapMark { .. } => Step::Next,
    }
}

/// Whether a rule with this step carries a decision: it leads to the chain of a Service, or ends the
/// packet. The rule that leads to an endpoint's chain says no more than the rule in there.
fn is_evidence(step: &Step) -> bool {
    let of_service = |it: &&str| *it != SEP;
    match step {
        Step::Jump(to) => HASHED
            .iter()
            .copied()
            .filter(of_service)
            .any(|it| is_hashed(to, it)),
        Step::End(end) => *end != End::Accept,
        Step::Goto(_) | Step::Return | Step::Next => false,
    }
}

#[cfg(test)]
mod tests;
