//! Runs the instructions of rules for one packet, which is the first of its connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use sluice_model::IpFamily;
use sluice_netlink::octets;
use sluice_netlink::request::uninterrupted;
use sluice_nft::{
    CmpOp, Connection, CtKey, Expr, FibAddress, Kernel, KernelRule, MetaKey, PayloadBase, Reader,
    Register, Scope, Set, SetFlags, Verdict,
};
use sluice_plane::live::{Chains, End, Evidence, Question, Step};
use sluice_reconcile::BackendError;

use super::elements::{self, Data, Found};
use super::{failed, place, words};
use crate::name::netlink;

/// Most values of a random number: a Service has fewer endpoints.
const VALUES: u32 = 65_536;

/// `RTN_UNICAST` and `RTN_LOCAL` (`rtnetlink.h`).
const RTN: [u32; 2] = [1, 2];

/// `NF_CT_STATE_BIT(IP_CT_NEW)`.
const STATE_NEW: u32 = 8;

/// Instructions that decide nothing: remembering a client, logs, named counters.
const NEUTRAL: [&str; 3] = ["dynset", "log", "objref"];

/// The rules of a table, read as the packet meets them.
pub(super) struct Machine<'a> {
    connection: Connection,
    scope: Scope<'a>,
    question: &'a Question,
    rules: BTreeMap<String, Vec<KernelRule>>,
    sets: BTreeMap<String, Option<Set>>,
    pub(super) evidence: Vec<Evidence>,
    pub(super) wrong: Vec<String>,
    /// Elements that the packet did not find in maps.
    pub(super) missing: Vec<String>,
}

/// A chain, and the number of a rule in it.
type At<'a> = (&'a str, usize);

/// The registers, with one value of each random number.
#[derive(Clone)]
struct Thread {
    registers: [u8; 64],
    /// The elements that this thread found.
    found: Vec<Evidence>,
    /// A map has given the thread a value.
    has_value: bool,
}

/// The state of a rule after an instruction.
struct State {
    threads: Vec<Thread>,
    steps: BTreeSet<Step>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(connection: Connection, scope: Scope<'a>, question: &'a Question) -> Self {
        Self {
            connection,
            scope,
            question,
            rules: BTreeMap::new(),
            sets: BTreeMap::new(),
            evidence: Vec::new(),
            wrong: Vec::new(),
            missing: Vec::new(),
        }
    }
}

impl Chains for Machine<'_> {
    fn rules(&mut self, chain: &str) -> Result<usize, BackendError> {
        let rules = uninterrupted(|| self.connection.rules(self.scope, Some(chain)));
        let rules = rules.map_err(|error| failed(self.scope, error))?;
        let count = rules.len();
        self.rules.insert(chain.to_owned(), rules);
        Ok(count)
    }

    fn steps(&mut self, chain: &str, rule: usize) -> Result<BTreeSet<Step>, BackendError> {
        let rules = self.rules.get(chain).and_then(|it| it.get(rule));
        let Some(exprs) = rules.map(|it| it.exprs.clone()) else {
            return Ok([Step::Next].into());
        };
        // The rule marks the packet, for masquerading.
        if let Some(Expr::MetaSet { .. }) = exprs.last() {
            return Ok([Step::Next].into());
        }
        let thread = Thread {
            registers: [0; 64],
            found: Vec::new(),
            has_value: false,
        };
        let mut state = State {
            threads: vec![thread],
            steps: BTreeSet::new(),
        };
        for expr in &exprs {
            if is_not_followed(expr) {
                let name = expr.name();
                let what = format!("rule {} of chain {} {chain}", rule + 1, place(self.scope));
                let text = format!("is not followed: it has `{name}`");
                self.evidence.push(Evidence::new(what, text));
                return Ok([Step::Next].into());
            }
            self.run(expr, (chain, rule), &mut state)?;
            if state.threads.is_empty() {
                return Ok(state.steps);
            }
        }
        // The packet passed the whole rule, which has no verdict.
        state.steps.insert(Step::Next);
        Ok(state.steps)
    }
}

/// Whether an expression sets the packet to a state that this machine cannot compute.
fn is_not_followed(expr: &Expr) -> bool {
    match expr {
        Expr::PayloadSet { .. } | Expr::Untrack => true,
        Expr::Meta { key, .. } => *key == MetaKey::OutgoingName,
        Expr::Other { name } => !NEUTRAL.contains(&name.as_str()),
        _ => false,
    }
}

impl Machine<'_> {
    fn run(&mut self, expr: &Expr, at: At<'_>, state: &mut State) -> Result<(), BackendError> {
        let load = |state: &mut State, dreg: Register, bytes: &[u8]| {
            state
                .threads
                .iter_mut()
                .for_each(|it| it.store(dreg, bytes));
        };
        match expr {
            Expr::Payload {
                dreg,
                base,
                offset,
                len,
            } => match self.header(*base, *offset, *len) {
                Some(bytes) => load(state, *dreg, &bytes),
                None => state.end(|_| Step::Next),
            },
            Expr::Meta { key, dreg } => load(state, *dreg, &self.meta(*key)),
            Expr::Ct { key, dreg } => {
                let value = match key {
                    CtKey::State => STATE_NEW,
                    CtKey::Status => 0,
                };
                load(state, *dreg, &value.to_ne_bytes());
            }
            Expr::FibType { dreg, address } => {
                let packet = &self.question.packet;
                let ip = match address {
                    FibAddress::Source => packet.source,
                    FibAddress::Destination => packet.destination,
                };
                let kind = RTN[usize::from(self.question.is_ours(ip))];
                load(state, *dreg, &kind.to_ne_bytes());
            }
            Expr::ImmediateData { dreg, data } => load(state, *dreg, data),
            Expr::Bitwise {
                sreg,
                dreg,
                mask,
                xor,
            } => {
                for thread in &mut state.threads {
                    let source = thread.load(*sreg, mask.len());
                    let bits = source.iter().zip(mask).zip(xor);
                    let bytes: Vec<u8> = bits.map(|((it, mask), xor)| it & mask ^ xor).collect();
                    thread.store(*dreg, &bytes);
                }
            }
            Expr::ToNetworkOrder { reg } => {
                for thread in &mut state.threads {
                    let mut bytes = thread.load(*reg, 4);
                    if cfg!(target_endian = "little") {
                        bytes.reverse();
                    }
                    thread.store(*reg, &bytes);
                }
            }
            Expr::Cmp { op, sreg, data } => state.keep(|thread| {
                let found = thread.load(*sreg, data.len());
                match op {
                    CmpOp::Equal => found == *data,
                    CmpOp::NotEqual => found != *data,
                    CmpOp::Less => found < *data,
                }
            }),
            Expr::Numgen {
                dreg,
                modulus,
                offset,
            } => {
                let values = *offset..offset.saturating_add((*modulus).min(VALUES));
                let each = |thread: &Thread| {
                    values
                        .clone()
                        .map(|value| {
                            let mut thread = thread.clone();
                            thread.store(*dreg, &value.to_ne_bytes());
                            thread
                        })
                        .collect::<Vec<_>>()
                };
                state.threads = state.threads.iter().flat_map(each).collect();
            }
            Expr::Lookup {
                set,
                sreg,
                dreg,
                invert,
            } => self.look_up(set, *sreg, *dreg, *invert, state)?,
            Expr::Verdict(verdict) => {
                let step = step(verdict);
                if matches!(step, Step::End(_)) {
                    self.show(at, &verdict.to_string(), state)?;
                }
                self.evidence(state);
                state.end(|_| step.clone());
            }
            Expr::Reject { .. } => {
                self.show(at, "reject", state)?;
                self.evidence(state);
                state.end(|_| Step::End(End::Reject));
            }
            Expr::Dnat {
                addr_reg, port_reg, ..
            } => {
                let family = self.question.family();
                let to = |thread: &Thread| thread.endpoint(family, *addr_reg, *port_reg);
                for thread in &mut state.threads {
                    if !thread.has_value
                        && let Some(to) = to(thread)
                    {
                        let what = format!("rule of chain {} {}", place(self.scope), at.0);
                        thread
                            .found
                            .push(Evidence::new(what, format!("dnat to {to}")));
                    }
                }
                self.evidence(state);
                state.end(|it| to(it).map_or(Step::Next, |it| Step::End(End::Translated(it))));
            }
            Expr::Snat { .. } | Expr::Masquerade => state.end(|_| Step::End(End::Accept)),
            // For some packets the rule ends here.
            Expr::OnePerSecond => drop(state.steps.insert(Step::Next)),
            Expr::Counter
            | Expr::Log { .. }
            | Expr::MetaSet { .. }
            | Expr::Update { .. }
            | Expr::PayloadSet { .. }
            | Expr::Untrack
            | Expr::Other { .. } => {}
        }
        Ok(())
    }

    /// Keeps the threads that find an element; with `invert`, those that find none.
    fn look_up(
        &mut self,
        name: &str,
        sreg: Register,
        dreg: Option<Register>,
        invert: bool,
        state: &mut State,
    ) -> Result<(), BackendError> {
        let error = |error| failed(self.scope, error);
        if !self.sets.contains_key(name) {
            let set = self.connection.set(self.scope, name).map_err(error)?;
            self.sets.insert(name.to_owned(), set);
        }
        let Some(Some(set)) = self.sets.get(name) else {
            // A transaction replaced the set meanwhile.
            state.end(|_| Step::Next);
            return Ok(());
        };
        let key = |thread: &Thread| thread.load(sreg, set.key_length as usize);
        let keys: BTreeSet<Vec<u8>> = state.threads.iter().map(key).collect();
        let found = elements::find(&mut self.connection, self.scope, set, keys.iter().cloned());
        let found = found.map_err(error)?;
        let kind = if set.data.is_some() { "map" } else { "set" };
        let place = format!("{} {name}", place(self.scope));
        if dreg.is_some() {
            let missing = keys.iter().filter(|it| !found.contains_key(*it));
            let missing = missing.map(|it| {
                let key = words::value(set.key_type, it);
                format!("{kind} {place} has no element {key}")
            });
            match keys.len() {
                1 => self.missing.extend(missing),
                // Some of the random values lead to a missing element.
                _ => self.wrong.extend(missing),
            }
        }
        // The clients of session affinity: others go on, to a random endpoint.
        let remembers = set.flags.contains(SetFlags::DYNAMIC);
        let mut goes_on = Vec::new();
        for mut thread in std::mem::take(&mut state.threads) {
            let found = found.get(&key(&thread));
            if found.is_some() == invert || (remembers && found.is_some()) {
                state.steps.insert(Step::Next);
            }
            if found.is_some() == invert {
                continue;
            }
            if let Some(found) = found {
                let note = if remembers {
                    ", a client that is remembered"
                } else {
                    ""
                };
                thread.found.push(Evidence {
                    packets: found.packets,
                    ..Evidence::new(
                        format!("element of {kind} {place}"),
                        format!("{}{note}", found.text),
                    )
                });
                if let Some(ended) = thread.take(found, dreg) {
                    self.evidence.append(&mut thread.found);
                    state.steps.insert(ended);
                    continue;
                }
            }
            goes_on.push(thread);
        }
        state.threads = goes_on;
        Ok(())
    }

    /// Adds the rule itself to the evidence of its packets, with its counter if it has one.
    fn show(
        &mut self,
        (chain, rule): At<'_>,
        text: &str,
        state: &mut State,
    ) -> Result<(), BackendError> {
        let rules = self.rules.get(chain).and_then(|it| it.get(rule));
        let counts = rules.is_some_and(|it| it.exprs.contains(&Expr::Counter));
        let packets = if counts {
            uninterrupted(|| self.connection.rule_packets(self.scope, chain))
        } else {
            Ok(Vec::new())
        };
        let packets = packets.map_err(|error| failed(self.scope, error))?;
        let evidence = Evidence {
            packets: packets.get(rule).copied().flatten(),
            ..Evidence::new(format!("rule of chain {} {chain}", place(self.scope)), text)
        };
        let threads = state.threads.iter_mut();
        threads.for_each(|it| it.found.push(evidence.clone()));
        Ok(())
    }

    /// The packets reach a verdict: the elements that they found are the evidence.
    fn evidence(&mut self, state: &mut State) {
        for evidence in state.threads.iter_mut().flat_map(|it| it.found.drain(..)) {
            if !self.evidence.contains(&evidence) {
                self.evidence.push(evidence);
            }
        }
    }

    /// Bytes of a header that rules of Services look at; `None` beyond the end of the header.
    fn header(&self, base: PayloadBase, offset: u32, len: u32) -> Option<Vec<u8>> {
        let packet = &self.question.packet;
        let header = match base {
            PayloadBase::Network => {
                let (length, source) = match self.question.family() {
                    IpFamily::V4 => (20, 12),
                    IpFamily::V6 => (40, 8),
                };
                let mut header = vec![0; length];
                let addresses = [octets(packet.source), octets(packet.destination)].concat();
                header[source..source + addresses.len()].copy_from_slice(&addresses);
                header
            }
            PayloadBase::Transport => [[0; 2], packet.port.to_be_bytes()].concat(),
        };
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        header.get(start..end).map(<[u8]>::to_vec)
    }

    fn meta(&self, key: MetaKey) -> Vec<u8> {
        match key {
            MetaKey::Mark => vec![0; 4],
            MetaKey::Trace => vec![0],
            // Rules with it are not followed.
            MetaKey::OutgoingName => Vec::new(),
            MetaKey::L4Proto => vec![self.question.packet.protocol.number()],
            MetaKey::IncomingName => {
                let name = self
                    .question
                    .packet
                    .interface
                    .as_deref()
                    .unwrap_or_default();
                let mut bytes = name.as_bytes().to_vec();
                bytes.resize(16, 0);
                bytes
            }
        }
    }
}

impl State {
    /// Ends every thread with a step.
    fn end(&mut self, step: impl Fn(&Thread) -> Step) {
        self.steps
            .extend(self.threads.drain(..).map(|it| step(&it)));
    }

    /// Ends the rule for the threads for which `holds` is false.
    fn keep(&mut self, holds: impl Fn(&Thread) -> bool) {
        let before = self.threads.len();
        self.threads.retain(holds);
        if self.threads.len() < before {
            self.steps.insert(Step::Next);
        }
    }
}

impl Thread {
    /// Bytes from a register on.
    fn load(&self, register: Register, length: usize) -> Vec<u8> {
        let bytes = self.registers.get(start(register)..).unwrap_or_default();
        bytes[..length.min(bytes.len())].to_vec()
    }

    /// Writes bytes from a register on, and zeros to the end of its last word.
    fn store(&mut self, register: Register, bytes: &[u8]) {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(4), 0);
        let slots = self.registers.iter_mut().skip(start(register));
        slots.zip(padded).for_each(|(slot, byte)| *slot = byte);
    }

    /// Takes the data of an element; returns a verdict.
    fn take(&mut self, found: &Found, dreg: Option<Register>) -> Option<Step> {
        match (&found.data, dreg) {
            (Data::Verdict(verdict), Some(_)) => return Some(step(verdict)),
            (Data::Value(bytes), Some(dreg)) => {
                self.store(dreg, bytes);
                self.has_value = true;
            }
            _ => {}
        }
        None
    }

    fn endpoint(&self, family: IpFamily, addr: Register, port: Register) -> Option<SocketAddr> {
        let length = match family {
            IpFamily::V4 => 4,
            IpFamily::V6 => 16,
        };
        let ip: IpAddr = Reader(&self.load(addr, length)).address(netlink(family))?;
        let port = self.load(port, 2);
        Some(SocketAddr::new(
            ip,
            u16::from_be_bytes(*port.first_chunk()?),
        ))
    }
}

/// Where a register begins, in bytes.
fn start(register: Register) -> usize {
    let word = register.number().saturating_sub(Register::word(0).number());
    word as usize * 4
}

fn step(verdict: &Verdict) -> Step {
    match verdict {
        Verdict::Accept => Step::End(End::Accept),
        Verdict::Drop => Step::End(End::Drop),
        Verdict::Return => Step::Return,
        Verdict::Goto(chain) => Step::Goto(chain.clone()),
        Verdict::Jump(chain) => Step::Jump(chain.clone()),
    }
}
