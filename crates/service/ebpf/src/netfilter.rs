//! Connections that rules of an earlier proxy opened stay with netfilter until they end, also when its rules are gone.
//!
//! The kernel translates them as long as it has hooks of NAT and of conntrack, which it removes with the last rule that
//! needs them (`nf_nat_unregister_fn`, `nf_ct_netns_put`). So a table of ours has such a rule, which matches nothing, until
//! the last of these connections has ended.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use sluice_bpf::{BpfError, Pins};
use sluice_bpf_abi::Tuple;
use sluice_netlink::{Family, RequestError};
use sluice_nft::{
    Batch, Chain, ChainKind, CmpOp, Connection, Create, CtKey, Expr, Hook, HookPoint, Kernel,
    KernelRule, Policy, Register, Scope,
};
use tracing::{debug, info, warn};

use crate::flows::{RulesOpen, enter_all, forget_netfilters, list, open};
use crate::maps::Maps;

/// The table, in each family.
const TABLE: &str = "opened-by-rules";
const COMMENT: &str = "sluice: keeps NAT for connections that rules opened before the ebpf mode";
const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// Time between two looks at netfilter's connections, at least, and in proportion to the duration of a look.
const PERIOD: Duration = Duration::from_secs(5);
const SHARE: u32 = 50;
/// The first look comes when the rules have just gone. What they opened for the node meanwhile, and what has ended, would
/// give other source ports to its next connections.
const FIRST: Duration = Duration::from_secs(1);
/// How long rules of the earlier proxy may still open connections of the node itself.
const RULES_GO: Duration = Duration::from_secs(60);

/// Keeps the hooks of each family that has a chain of NAT. Legacy tables of iptables keep theirs, also when they are
/// empty. Returns whether there are hooks to keep.
pub(crate) fn hold() -> bool {
    let Ok(mut kernel) = Connection::open() else {
        return false;
    };
    let mut holds = false;
    for family in FAMILIES {
        match has_nat(&mut kernel, family) {
            Ok(true) => {}
            Ok(false) => continue,
            // A kernel without nf_tables has none of its chains.
            Err(error) => {
                debug!(%error, ?family, "chains of NAT");
                continue;
            }
        }
        holds = true;
        if let Err(error) = kernel.commit(&table(family)) {
            warn!(%error, table = TABLE, "connections of an earlier proxy may end with its rules");
        }
    }
    holds
}

/// Whether netfilter translates connections of a family. What it remembers of them after its last rule of NAT went is of
/// no effect. True also when that cannot be known.
pub(crate) fn translates(family: Family) -> bool {
    let legacy = match family {
        Family::Ipv4 => "/proc/net/ip_tables_names",
        Family::Ipv6 => "/proc/net/ip6_tables_names",
    };
    let legacy = match fs::read_to_string(legacy) {
        Ok(tables) => tables.lines().any(|it| it == "nat"),
        // Without the file there are no legacy tables; only root may read it.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    legacy || Connection::open().map_or(true, |mut it| has_nat(&mut it, family).unwrap_or(true))
}

fn has_nat(kernel: &mut impl Kernel, family: Family) -> Result<bool, RequestError> {
    for table in kernel.tables(family)? {
        let scope = Scope {
            family,
            table: &table.name,
        };
        let chains = kernel.chains(scope)?;
        let mut hooks = chains.iter().filter_map(|it| it.hook);
        if hooks.any(|it| it.kind == ChainKind::Nat) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets netfilter's hooks go. Returns whether there was a table.
pub(crate) fn release() -> bool {
    let Ok(mut kernel) = Connection::open() else {
        return false;
    };
    let mut batch = Batch::new();
    for family in FAMILIES {
        let tables = kernel.tables(family).unwrap_or_default();
        if tables
            .iter()
            .any(|it| it.name == TABLE && it.comment.as_deref() == Some(COMMENT))
        {
            batch.delete_table(0, scope(family));
        }
    }
    if let Err(error) = kernel.commit(&batch) {
        warn!(%error, table = TABLE, "a table stays");
    }
    !batch.is_empty()
}

const fn scope(family: Family) -> Scope<'static> {
    Scope {
        family,
        table: TABLE,
    }
}

/// The table with a chain of NAT, and a rule that asks conntrack for a state that no packet has.
fn table(family: Family) -> Batch {
    let scope = scope(family);
    let chain = Chain {
        name: "postrouting".to_owned(),
        hook: Some(Hook {
            kind: ChainKind::Nat,
            point: HookPoint::Postrouting,
            priority: 100,
            policy: Policy::Accept,
        }),
        comment: None,
    };
    let state = Register::word(0);
    let rule = KernelRule {
        chain: chain.name.clone(),
        exprs: vec![
            Expr::Ct {
                key: CtKey::State,
                dreg: state,
            },
            Expr::Cmp {
                op: CmpOp::Equal,
                sreg: state,
                data: vec![0; 4],
            },
        ],
        comment: None,
    };
    let mut batch = Batch::new();
    batch.add_table(0, scope, Some(COMMENT), Create::IfMissing);
    batch.add_chain(0, scope, &chain, Create::IfMissing);
    batch.flush_chain(0, scope, &chain.name);
    batch.add_rule(0, scope, &rule);
    batch
}

/// Follows netfilter's connections until the last has ended, on a thread of its own. It ends with the value.
#[derive(Debug)]
pub(crate) struct Watch {
    _stop: Sender<()>,
}

impl Watch {
    pub(crate) fn start(pins: Pins, first: BTreeSet<Tuple>) -> Result<Self, std::io::Error> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let begun = Instant::now();
            let mut wait = FIRST;
            let mut last = first;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let looked = Instant::now();
                match look(&pins, &last) {
                    Ok(kept) => {
                        let is_over = last.is_empty() && kept.is_empty();
                        if is_over && begun.elapsed() >= RULES_GO {
                            if release() {
                                info!("the last connection that netfilter translated has ended");
                            }
                            return;
                        }
                        last = kept;
                    }
                    Err(error) => warn!(%error, "connections that netfilter translates"),
                }
                wait = PERIOD.max(looked.elapsed() * SHARE);
            }
        };
        thread::Builder::new()
            .name("netfilter".to_owned())
            .spawn(run)?;
        Ok(Self { _stop: stop })
    }
}

/// One look, and what it found. What neither this one nor the last found has ended: a listing may miss one. The tables may
/// have been replaced by larger ones since.
fn look(pins: &Pins, last: &BTreeSet<Tuple>) -> Result<BTreeSet<Tuple>, BpfError> {
    let mut maps = Maps::open(pins)?;
    let listed = list(&maps)?;
    let open = open(&listed);
    // Ended connections are removed first: they make room for new entries.
    forget_netfilters(&mut maps, |it| last.contains(it) || open.contains(it))?;
    enter_all(&mut maps, &listed, RulesOpen::Nothing)
}
