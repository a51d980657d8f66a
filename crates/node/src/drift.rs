//! Hears when another program changes our rules.
//!
//! The monitor is opened after the first sync: as long as anybody listens, the kernel builds a
//! message for each element that is written, which costs more than writing it. What happened in
//! between shows in the generation of the ruleset. Later the kernel itself drops the notices about
//! our own port ids (a socket filter), so our writes wake nobody.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::Sender;
use std::thread;

use sluice_netlink::SocketError;
use sluice_netlink::nftables::{Change, ChangeKind, Connection, Generation, Monitor, Notice, Wake};
use tracing::{info, warn};

use crate::agent::{Input, chain};
use crate::takeover::{self, BUILTIN_CHAINS, IPTABLES_TABLES};

/// Watches for foreign changes of tables, in the network namespace of the caller.
#[derive(Debug)]
pub struct Drift(Monitor);

impl Drift {
    /// Begins to listen; what happens from now on is not missed. `port_ids` are our own; what a
    /// takeover removes is no drift either.
    ///
    /// # Errors
    /// The kernel gives no such subscription.
    pub fn listen(port_ids: &[u32]) -> Result<Self, SocketError> {
        let ours = [port_ids, &[takeover::port_id()]].concat();
        Monitor::ignoring(&ours).map(Self)
    }

    /// Reports if the ruleset is not of this generation: then somebody changed it before we
    /// listened.
    pub fn check(&self, expected: u32, inputs: &Sender<Input>) {
        let current = Connection::open()
            .ok()
            .and_then(|mut it| it.generation().ok());
        let current = current.map(|it| it.id);
        if current != Some(expected) {
            info!(
                expected,
                current, "the ruleset changed before the watch began: looking again"
            );
            let what = "somebody, before the watch began".to_owned();
            // The agent has stopped; the process is about to end.
            let _ = inputs.send(Input::KernelChanged(what));
        }
    }

    /// Reports changes of what is watched from a thread of its own.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn report(self, watched: Watched, inputs: Sender<Input>) -> io::Result<()> {
        let run = move || run(self.0, &mut Foreign::new(watched), &inputs);
        thread::Builder::new().name("drift".into()).spawn(run)?;
        Ok(())
    }
}

/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
const FAMILIES: [u8; 2] = [2, 10];

/// What nobody else should change.
pub enum Watched {
    /// Every table of this name.
    Table(&'static str),
    /// Chains of ours in the tables of iptables-nft, and what leads to them.
    Chains {
        /// Whether a chain, by its table and name, is ours or one of the kernel's from which a
        /// rule of ours leads to those.
        has: fn(&str, &str) -> bool,
        /// Whether a write of ours made the generation: programs write for us, so port ids tell
        /// nothing.
        is_ours: Box<dyn Fn(u32) -> bool + Send>,
    },
}

impl Watched {
    fn has(&self, change: &Change) -> bool {
        let table = change.table.as_deref().unwrap_or_default();
        match self {
            Self::Table(ours) => table == *ours && !is_expiry(change),
            Self::Chains { has, .. } => {
                let is_touched = match (change.kind, change.chain.as_deref()) {
                    (ChangeKind::DelTable, _) => IPTABLES_TABLES.contains(&table),
                    // Of these only a rule that went may have been ours.
                    (kind, Some(chain)) if BUILTIN_CHAINS.contains(&chain) => {
                        kind == ChangeKind::DelRule && has(table, chain)
                    }
                    (_, Some(chain)) => has(table, chain),
                    _ => false,
                };
                // `bridge filter` is no table of iptables.
                is_touched && FAMILIES.contains(&change.family)
            }
        }
    }

    fn is_ours(&self, generation: u32) -> bool {
        match self {
            // The kernel drops what our own port ids do.
            Self::Table(_) => false,
            Self::Chains { is_ours, .. } => is_ours(generation),
        }
    }
}

fn run(mut monitor: Monitor, foreign: &mut Foreign, inputs: &Sender<Input>) {
    loop {
        let notice = match monitor.wait(None) {
            Ok(Wake::Notice(notice)) => notice,
            Ok(Wake::TimedOut) => continue,
            Ok(Wake::Stopped) => return,
            Err(error) => {
                let error = chain(&error);
                warn!(
                    error,
                    "watch for foreign changes ended: only the periodic resync repairs them"
                );
                return;
            }
        };
        let Some(what) = foreign.hear(notice) else {
            continue;
        };
        if inputs.send(Input::KernelChanged(what)).is_err() {
            return;
        }
    }
}

/// Puts the notices of one transaction together.
struct Foreign {
    watched: Watched,
    /// What the transaction that is being reported did to our things: in which table.
    touched: BTreeMap<&'static str, String>,
}

impl Foreign {
    fn new(watched: Watched) -> Self {
        Self {
            watched,
            touched: BTreeMap::new(),
        }
    }

    /// One line about a transaction that touched our tables, when its last notice has come.
    fn hear(&mut self, notice: Notice) -> Option<String> {
        match notice {
            Notice::Change(change) => {
                if self.watched.has(&change) {
                    let table = change.table.unwrap_or_default();
                    self.touched.insert(verb(change.kind), table);
                }
                None
            }
            Notice::Generation { generation, .. } => {
                let touched = std::mem::take(&mut self.touched);
                match self.watched.is_ours(generation.id) {
                    true => None,
                    false => describe(&touched, &generation),
                }
            }
            Notice::Lost => {
                self.touched.clear();
                Some("unknown: the kernel dropped notices".to_owned())
            }
        }
    }
}

/// One line; `None` when nothing of ours was touched.
fn describe(touched: &BTreeMap<&str, String>, by: &Generation) -> Option<String> {
    let table = touched.values().next()?;
    let touched: Vec<&str> = touched.keys().copied().collect();
    let touched = touched.join(", ");
    let (name, pid) = (&by.process_name, by.process_id);
    Some(format!("{name} (pid {pid}): {touched} in table {table}"))
}

/// Elements that remember clients come and go by themselves.
fn is_expiry(change: &Change) -> bool {
    let element = matches!(change.kind, ChangeKind::NewElement | ChangeKind::DelElement);
    element && change.port_id == 0
}

fn verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::NewTable => "new table",
        ChangeKind::DelTable => "table deleted",
        ChangeKind::NewChain => "new chain",
        ChangeKind::DelChain => "chain deleted",
        ChangeKind::NewRule => "new rule",
        ChangeKind::DelRule => "rule deleted",
        ChangeKind::NewSet => "new set",
        ChangeKind::DelSet => "set deleted",
        ChangeKind::NewElement => "new element",
        ChangeKind::DelElement => "element deleted",
        ChangeKind::Other => "other change",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, table: &str, port_id: u32) -> Notice {
        Notice::Change(Change {
            kind,
            family: 2,
            table: Some(table.to_owned()),
            chain: None,
            port_id,
        })
    }

    fn end() -> Notice {
        end_of(7)
    }

    fn end_of(id: u32) -> Notice {
        Notice::Generation {
            generation: Generation {
                id,
                process_id: 4711,
                process_name: "nft".to_owned(),
            },
            port_id: 4711,
        }
    }

    #[test]
    fn a_transaction_is_one_line_that_names_who() {
        let mut foreign = Foreign::new(Watched::Table("sluice"));
        assert_eq!(
            foreign.hear(change(ChangeKind::DelRule, "sluice", 4711)),
            None
        );
        assert_eq!(
            foreign.hear(change(ChangeKind::DelRule, "sluice", 4711)),
            None
        );
        assert_eq!(
            foreign.hear(change(ChangeKind::DelTable, "sluice", 4711)),
            None
        );
        assert_eq!(
            foreign.hear(end()).as_deref(),
            Some("nft (pid 4711): rule deleted, table deleted in table sluice")
        );
        assert_eq!(foreign.hear(end()), None, "said once");
    }

    #[test]
    fn other_tables_and_expiring_elements_are_no_drift() {
        let mut foreign = Foreign::new(Watched::Table("sluice"));
        foreign.hear(change(ChangeKind::DelTable, "filter", 4711));
        foreign.hear(change(ChangeKind::DelElement, "sluice", 0));
        assert_eq!(foreign.hear(end()), None);
    }

    #[test]
    fn of_the_tables_of_iptables_only_our_chains_and_the_way_to_them_count() {
        let (ours, others) = (99, 7);
        let mut foreign = Foreign::new(Watched::Chains {
            has: |table, chain| {
                chain.starts_with("KUBE-") || (table, chain) == ("nat", "PREROUTING")
            },
            is_ours: Box::new(move |it| it == ours),
        });
        let mut hear = |kind, table: &str, chain: Option<&str>, id| {
            foreign.hear(Notice::Change(Change {
                kind,
                family: 2,
                table: Some(table.to_owned()),
                chain: chain.map(str::to_owned),
                port_id: 4711,
            }));
            foreign.hear(end_of(id)).is_some()
        };
        let services = Some("KUBE-SERVICES");
        assert!(hear(ChangeKind::DelTable, "nat", None, others));
        assert!(hear(ChangeKind::DelRule, "nat", services, others));
        assert!(hear(ChangeKind::NewRule, "filter", services, others));
        assert!(hear(ChangeKind::DelRule, "nat", Some("PREROUTING"), others));
        assert!(!hear(ChangeKind::DelRule, "nat", services, ours));
        assert!(!hear(
            ChangeKind::NewRule,
            "nat",
            Some("PREROUTING"),
            others
        ));
        assert!(!hear(
            ChangeKind::DelRule,
            "nat",
            Some("CNI-HOSTPORT-DNAT"),
            1
        ));
        assert!(!hear(
            ChangeKind::DelRule,
            "filter",
            Some("PREROUTING"),
            others
        ));
        assert!(!hear(ChangeKind::DelTable, "raw", None, others));
    }

    #[test]
    fn lost_notices_may_have_been_anything() {
        let mut foreign = Foreign::new(Watched::Table("sluice"));
        assert!(foreign.hear(Notice::Lost).is_some());
    }
}
