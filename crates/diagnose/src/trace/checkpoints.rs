//! The table that marks the packet and sees it before and behind all other chains.

use std::net::{IpAddr, SocketAddr};

use sluice_model::Protocol;
use sluice_netlink::Family;
use sluice_nft::rule::{Action, Match, Sense, Side};
use sluice_nft::{
    AnyChain, Batch, Chain, ChainKind, Connection, Contents, Hook, HookPoint, Kernel as _, Policy,
    Rule, Scope, Step, Tracer,
};

use super::{Request, Sender, Source, TraceError};

/// Begins the name of the table. The port id of its socket follows, which no other socket has.
const PREFIX: &str = "sluice-trace-";

/// Behind the hook of bridges (`ip_sabotage_in` of `br_netfilter`), which has the lowest priority.
const FIRST: i32 = i32::MIN + 1;
/// Before conntrack takes the connection into its table, which has the highest priority.
const LAST: i32 = i32::MAX - 1;

/// Every hook of IP.
const HOOKS: [HookPoint; 5] = [
    HookPoint::Prerouting,
    HookPoint::Input,
    HookPoint::Forward,
    HookPoint::Output,
    HookPoint::Postrouting,
];

/// Flags of the TCP header.
const TCP_FIN_SYN_RST_ACK: u8 = 0x17;
const TCP_SYN: u8 = 0x02;

/// The packets of one flow that open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    protocol: Protocol,
    source: Option<IpAddr>,
    source_port: Option<u16>,
    destination: SocketAddr,
    /// The destination does not count.
    is_to_anywhere: bool,
}

impl Filter {
    /// The packet that `sender` will send, or those that the request waits for.
    pub(super) fn of(request: &Request, sender: Option<&Sender>) -> Self {
        Self {
            protocol: request.protocol,
            source: match (request.source, sender) {
                (Source::Address(ip), _) => Some(ip),
                (Source::Node | Source::Anyone, _) => None,
            },
            source_port: sender.map(Sender::port),
            destination: request.destination,
            is_to_anywhere: false,
        }
    }

    /// The packet with any destination, since programs may have changed it.
    pub(super) fn to_anywhere(self) -> Self {
        Self {
            is_to_anywhere: true,
            ..self
        }
    }

    fn family(&self) -> Family {
        Family::of(self.destination.ip())
    }

    /// Marks the packet. A flow of others may be busy and would flood us, so it is one in a second.
    fn rule(&self) -> Rule {
        let address = |side, ip: IpAddr| Match::Address(side, Sense::Is, ip.into());
        let to = (!self.is_to_anywhere).then_some(self.destination);
        let flags = Match::TcpFlags {
            mask: TCP_FIN_SYN_RST_ACK,
            value: TCP_SYN,
        };
        let matches = [
            Some(Match::Protocol(self.protocol.number())),
            self.source.map(|it| address(Side::Source, it)),
            to.map(|it| address(Side::Destination, it.ip())),
            self.source_port.map(|it| Match::Port(Side::Source, it)),
            to.map(|it| Match::Port(Side::Destination, it.port())),
            (self.protocol == Protocol::Tcp).then_some(flags),
            self.source_port.is_none().then_some(Match::OnePerSecond),
        ];
        Rule {
            matches: matches.into_iter().flatten().collect(),
            actions: vec![Action::Trace],
        }
    }
}

/// The table, until this is dropped.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Owns the table.
    pub(super) connection: Connection,
    pub(super) tracer: Tracer,
    /// The chains of all tables.
    chains: Vec<AnyChain>,
    table: String,
}

/// The position of the packet that a report from one of our chains proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// It enters the hook.
    First(HookPoint),
    /// It has passed all chains of the hook.
    Last(HookPoint),
}

impl Checkpoints {
    /// Makes the table in the network namespace of the calling thread.
    pub(super) fn set(filter: &Filter) -> Result<Self, TraceError> {
        let mut connection = Connection::open()?;
        let tracer = Tracer::open()?;
        let table = format!("{PREFIX}{}", connection.port_id());
        let scope = Scope {
            family: filter.family(),
            table: &table,
        };
        let mut batch = Batch::new();
        batch.add_owned_table(0, scope);
        let mut contents = Contents::default();
        for point in HOOKS {
            for priority in [FIRST, LAST] {
                let chain = Chain {
                    name: chain_name(point, priority),
                    hook: Some(Hook {
                        kind: ChainKind::Filter,
                        point,
                        priority,
                        policy: Policy::Accept,
                    }),
                    comment: None,
                };
                let begins = matches!(point, HookPoint::Prerouting | HookPoint::Output);
                let rules = (begins && priority == FIRST).then(|| filter.rule());
                contents.chains.push((chain, rules.into_iter().collect()));
            }
        }
        batch.add_contents(0, scope, &contents);
        match connection.commit(&batch) {
            Ok(()) => {}
            Err(source) => return Err(TraceError::Checkpoints { table, source }),
        }
        let chains = connection.all_chains()?;
        Ok(Self {
            connection,
            tracer,
            chains,
            table,
        })
    }

    /// The priority of the base chain that a report is about; `None` for other chains.
    pub(super) fn priority(&self, step: &Step) -> Option<i32> {
        let is_it = |it: &&AnyChain| {
            (it.family, &it.table, &it.name) == (step.family, &step.table, &step.chain)
        };
        Some(self.chains.iter().find(is_it)?.hook?.priority)
    }

    /// The checkpoint of a report; `None` for a chain that is not ours.
    pub(super) fn at(&self, step: &Step) -> Option<Checkpoint> {
        if step.table != self.table {
            return None;
        }
        let named = |priority| {
            let mut hooks = HOOKS.into_iter();
            hooks.find(|it| chain_name(*it, priority) == step.chain)
        };
        let first = named(FIRST).map(Checkpoint::First);
        first.or_else(|| named(LAST).map(Checkpoint::Last))
    }
}

fn chain_name(point: HookPoint, priority: i32) -> String {
    let place = if priority == FIRST { "first" } else { "last" };
    format!("{}-{place}", point.word())
}
