//! Follows a packet through iptables rules without a kernel. A property test compares the outcomes
//! with `Plan::lookup`. The tracer reads the text that the kernel's programs would read, parsed to a
//! [`Ruleset`].
//!
//! ```text
//!  arrives ─▶ prerouting ─┬─ for us ─▶ filter_input
//!                         └─ else ───▶ filter_forward ─▶ postrouting
//!  node sends ─▶ output ─▶ filter_output ─▶ postrouting ─ for us ─▶ filter_input
//! ```
//!
//! [`outcomes`] goes this way. IPVS acts between the hooks, at the end of `filter_input` and of
//! `output`: there the caller goes through the hooks of a [`Tracer`] itself, in a function that
//! [`every`] calls for each combination of random choices.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_model::Protocol;
use sluice_plan::lookup::Packet;
use sluice_plan::state::HostAddresses;

use sluice_xtables::parse::Ruleset;
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, Side, States, Table, Target};

mod flaws;

pub use crate::chance::{Chance, Outcome, every};
pub use flaws::{Flaw, flaws};

/// Most nested jumps that the tracer follows. `NFT_JUMP_STACK_SIZE` (`nf_tables.h`) is smaller, so
/// only rulesets with [`flaws`] reach this depth.
const DEEPEST: usize = 32;

/// The value of [`Match::Random`] that always matches.
const CERTAIN: u32 = 1 << 31;

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source address, as the client wrote it.
    pub source: IpAddr,
    /// The current destination.
    pub destination: SocketAddr,
    pub protocol: Protocol,
    /// Interface that it arrived through; `None` when the node itself sends it.
    pub interface: Option<Arc<str>>,
    /// The mark on it.
    pub mark: u32,
    /// Its state in conntrack.
    pub states: States,
    /// Its destination was translated, by a rule or by IPVS.
    pub translated: bool,
    /// Its source will be the node's.
    pub masqueraded: bool,
    /// It belongs to a connection of IPVS.
    pub ipvs: bool,
}

impl Flow {
    /// The first packet of a connection, before it meets a rule.
    pub fn new(packet: &Packet) -> Self {
        Self {
            source: packet.source,
            destination: SocketAddr::new(packet.destination, packet.port),
            protocol: packet.protocol,
            interface: packet.interface.clone(),
            mark: 0,
            states: States::NEW,
            translated: false,
            masqueraded: false,
            ipvs: false,
        }
    }

    /// The outcome when no rule dropped or rejected the packet.
    pub fn outcome(&self) -> Outcome {
        if self.translated {
            Outcome::Translated {
                to: self.destination,
                masqueraded: self.masqueraded,
            }
        } else {
            Outcome::Untouched
        }
    }
}

/// Lookup in ipsets: the mark of the member that the packet matches with these sides (0 for a member
/// without mark); `None` when no member matches.
pub type Members<'a> = &'a dyn Fn(&str, &[Side], &Flow) -> Option<u32>;

/// For rules without ipsets.
pub const NO_SETS: Members<'static> = &|_, _, _| None;

/// The rules, addresses and ipsets of a node.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The rules of one family; rules that the parser does not know never match.
    pub rules: &'a Ruleset,
    /// The node's addresses, loopback included.
    pub host: &'a HostAddresses,
    /// The ipsets.
    pub members: Members<'a>,
}

/// Every outcome that random choices allow for the first packet of a connection of a client without
/// affinity.
pub fn outcomes(world: World<'_>, packet: &Packet) -> BTreeSet<Outcome> {
    every(|chance| {
        let mut flow = Flow::new(packet);
        let mut tracer = Tracer { world, chance };
        match tracer.pass(&mut flow) {
            Ok(()) => flow.outcome(),
            Err(outcome) => outcome,
        }
    })
}

/// Takes packets through hooks. Each hook changes the packet, or says as its error how it ended.
pub struct Tracer<'a, 'c> {
    /// The rules, addresses and ipsets.
    pub world: World<'a>,
    /// Decides the random matches.
    pub chance: &'c mut Chance,
}

impl Tracer<'_, '_> {
    /// All hooks on the way of the packet.
    ///
    /// # Errors
    ///
    /// [`Outcome::Dropped`] or [`Outcome::Rejected`], as for every hook.
    pub fn pass(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        if flow.interface.is_some() {
            self.prerouting(flow)?;
            if self.is_ours(flow.destination.ip()) {
                return self.filter_input(flow);
            }
            self.filter_forward(flow)?;
            return self.postrouting(flow);
        }
        self.output(flow)?;
        self.filter_output(flow)?;
        self.postrouting(flow)?;
        if self.is_ours(flow.destination.ip()) {
            // Packets from the node to itself arrive through loopback.
            flow.interface = Some("lo".into());
            self.filter_input(flow)?;
        }
        Ok(())
    }

    /// `PREROUTING` of mangle and nat: packets that arrive.
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn prerouting(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.base(Table::Mangle, "PREROUTING", flow)?;
        self.base(Table::Nat, "PREROUTING", flow)
    }

    /// `OUTPUT` of mangle and nat: packets that the node sends.
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn output(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.mangle_output(flow)?;
        self.base(Table::Nat, "OUTPUT", flow)
    }

    /// `OUTPUT` of mangle alone: for packets that IPVS forwards, nat has decided already.
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn mangle_output(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.base(Table::Mangle, "OUTPUT", flow)
    }

    /// `OUTPUT` of filter, after [`Tracer::output`].
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn filter_output(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.base(Table::Filter, "OUTPUT", flow)
    }

    /// `INPUT` of mangle and filter: packets to the node itself.
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn filter_input(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.base(Table::Mangle, "INPUT", flow)?;
        self.base(Table::Filter, "INPUT", flow)
    }

    /// `FORWARD` of mangle and filter: packets that arrived and go to other machines.
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn filter_forward(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.base(Table::Mangle, "FORWARD", flow)?;
        self.base(Table::Filter, "FORWARD", flow)
    }

    /// `POSTROUTING` of mangle and nat: what leaves, through loopback, too.
    ///
    /// # Errors
    ///
    /// How the packet ended.
    pub fn postrouting(&mut self, flow: &mut Flow) -> Result<(), Outcome> {
        self.base(Table::Mangle, "POSTROUTING", flow)?;
        self.base(Table::Nat, "POSTROUTING", flow)
    }

    /// Whether a packet to this address is delivered here.
    pub fn is_ours(&self, addr: IpAddr) -> bool {
        addr.is_loopback() || self.world.host.contains(&addr)
    }

    fn base(&mut self, table: Table, chain: &str, flow: &mut Flow) -> Result<(), Outcome> {
        match self.chain(table, &ChainName::new(chain), flow, 0) {
            Step::Next | Step::Accept => Ok(()),
            Step::End(outcome) => Err(outcome),
        }
    }

    /// [`Step::Next`] when no rule of the chain decided.
    fn chain(&mut self, table: Table, name: &ChainName, flow: &mut Flow, depth: usize) -> Step {
        let rules: &[Rule] = match self.world.rules.get(&(table, *name)) {
            Some(rules) if depth < DEEPEST => rules,
            _ => return Step::Next,
        };
        for rule in rules {
            let Rule::Known { matches, target } = rule else {
                continue;
            };
            if !matches.iter().all(|it| self.holds(it, flow)) {
                continue;
            }
            let step = match target {
                None => Step::Next,
                Some(Target::Return) => return Step::Next,
                Some(Target::Jump(chain)) => self.chain(table, chain, flow, depth + 1),
                Some(target) => self.act(target, flow),
            };
            if !matches!(step, Step::Next) {
                return step;
            }
        }
        Step::Next
    }

    fn holds(&mut self, condition: &Match, flow: &Flow) -> bool {
        let is = |sense: &Sense, it: bool| it == (*sense == Sense::Is);
        let destination = flow.destination.ip();
        match condition {
            Match::Comment(_) | Match::Remember { .. } | Match::Nfacct(_) => true,
            // No client has affinity.
            Match::SeenWithin { .. } => false,
            Match::Protocol(protocol) => flow.protocol == *protocol,
            Match::Source(sense, net) => is(sense, net.contains(&flow.source)),
            Match::Destination(sense, net) => is(sense, net.contains(&destination)),
            Match::DestinationPort(port) => flow.destination.port() == *port,
            Match::InInterface(sense, name) => {
                let interface = flow.interface.as_deref().unwrap_or("");
                is(sense, is_named(interface, name))
            }
            Match::Mark { sense, value, mask } => is(sense, flow.mark & mask == *value),
            Match::SourceIsLocal(sense) => is(sense, self.is_ours(flow.source)),
            Match::DestinationIsLocal(sense) => is(sense, self.is_ours(destination)),
            Match::State(sense, states) => is(sense, states.intersects(flow.states)),
            Match::Random(0) => false,
            Match::Random(units) => *units >= CERTAIN || self.chance.choose(2) == 0,
            Match::Set { sense, set, fields } => {
                is(sense, (self.world.members)(set, fields, flow).is_some())
            }
            Match::Ipvs(sense) => is(sense, flow.ipvs),
        }
    }

    fn act(&self, target: &Target, flow: &mut Flow) -> Step {
        match target {
            Target::Drop => return Step::End(Outcome::Dropped),
            Target::Reject => return Step::End(Outcome::Rejected),
            Target::Accept => return Step::Accept,
            Target::Dnat(to) => {
                flow.destination = *to;
                flow.translated = true;
                flow.states = flow.states.or(States::DNAT);
                return Step::Accept;
            }
            Target::Masquerade { .. } => {
                flow.masqueraded = true;
                return Step::Accept;
            }
            Target::Mark { clear, flip } => flow.mark = (flow.mark & !clear) ^ flip,
            Target::MapMark { set, fields } => {
                if let Some(mark) = (self.world.members)(set, fields, flow) {
                    flow.mark = mark;
                }
            }
            // The caller follows jumps and returns.
            Target::Jump(_) | Target::Return => {}
        }
        Step::Next
    }
}

/// What the tracer does after a rule.
enum Step {
    /// The next rule.
    Next,
    /// The base chain ends, and the packet continues at the next hook.
    Accept,
    /// The packet ends with this outcome.
    End(Outcome),
}

/// Whether an interface has this name; a final `+` matches any rest.
fn is_named(interface: &str, name: &str) -> bool {
    match name.strip_suffix('+') {
        Some(prefix) => interface.starts_with(prefix),
        None => interface == name,
    }
}

#[cfg(test)]
mod tests;
