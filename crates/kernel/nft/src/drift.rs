//! Notices when another program changes our tables.
//!
//! The monitor is opened after the first sync: while any program listens, the kernel builds a message for each
//! element that is written, which costs more than writing it. Changes before that show in the generation of the
//! ruleset. Later the kernel itself drops the notices about our own port ids (a socket filter), so our writes cause
//! no wake-up.

use std::collections::BTreeSet;
use std::thread;

use tracing::{info, warn};

use crate::connection::{Connection, Purpose};
use crate::generation::Generation;
use crate::kernel::Kernel as _;
use crate::monitor::{Change, ChangeKind, Monitor, Notice};

/// Reports foreign changes of the tables of this name from now on, in the network namespace of the caller, and at once
/// if the ruleset has another generation than `generation`. `port_id` is that of the tables' writer; what this process
/// writes for another [`Purpose`] is no foreign change either.
pub fn watch(
    table: &'static str,
    port_id: u32,
    generation: u32,
    report: impl Fn(String) + Send + 'static,
) {
    let own = Purpose::ALL.map(Purpose::port_id);
    let monitor = match Monitor::ignoring(&[&own[..], &[port_id]].concat()) {
        Ok(monitor) => monitor,
        Err(error) => return unwatched(&error.to_string()),
    };
    let current = Connection::open()
        .ok()
        .and_then(|mut it| it.generation().ok());
    if current.as_ref().map(|it| it.id) != Some(generation) {
        info!(
            table,
            "the ruleset changed before the watch began: looking again"
        );
        report("somebody, before the watch began".to_owned());
    }
    let thread = thread::Builder::new().name("drift".into());
    if let Err(error) = thread.spawn(move || run(table, monitor, &report)) {
        unwatched(&error.to_string());
    }
}

fn unwatched(error: &str) {
    warn!(
        error,
        "no watch for foreign changes: only the periodic resync repairs them"
    );
}

fn run(table: &'static str, mut monitor: Monitor, report: &impl Fn(String)) {
    let mut foreign = Foreign::of(table);
    loop {
        match monitor.wait(None) {
            Ok(notice) => {
                if let Some(what) = notice.and_then(|it| foreign.take(it)) {
                    report(what);
                }
            }
            Err(error) => return unwatched(&error.to_string()),
        }
    }
}

/// Collects the notices of one transaction.
struct Foreign {
    /// The name of our tables.
    ours: &'static str,
    /// The changes of our tables by the transaction that is being reported.
    touched: BTreeSet<&'static str>,
}

impl Foreign {
    const fn of(ours: &'static str) -> Self {
        Self {
            ours,
            touched: BTreeSet::new(),
        }
    }

    /// One line about a transaction that changed our tables, at its last notice.
    fn take(&mut self, notice: Notice) -> Option<String> {
        match notice {
            Notice::Change(change) => {
                let table = change.table.as_deref().unwrap_or_default();
                if table == self.ours && !is_expiry(&change) {
                    self.touched.insert(verb(change.kind));
                }
                None
            }
            Notice::Generation(by) => self.describe(&by),
            Notice::Lost => {
                self.touched.clear();
                Some("unknown: the kernel dropped notices".to_owned())
            }
        }
    }

    /// One line, about a transaction that has ended; `None` when no table of ours was changed.
    fn describe(&mut self, by: &Generation) -> Option<String> {
        let touched: Vec<&str> = std::mem::take(&mut self.touched).into_iter().collect();
        if touched.is_empty() {
            return None;
        }
        // Any program names itself as it likes.
        let (name, pid) = (by.process_name.escape_debug(), by.process_id);
        let (touched, table) = (touched.join(", "), self.ours);
        Some(format!("{name} (pid {pid}): {touched} in table {table}"))
    }
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
            table: Some(table.to_owned()),
            port_id,
        })
    }

    fn end() -> Notice {
        Notice::Generation(Generation {
            id: 7,
            process_id: 4711,
            process_name: "nft".to_owned(),
        })
    }

    #[test]
    fn a_transaction_is_one_line_that_names_who() {
        let mut foreign = Foreign::of("sluice");
        assert_eq!(
            foreign.take(change(ChangeKind::DelRule, "sluice", 4711)),
            None
        );
        assert_eq!(
            foreign.take(change(ChangeKind::DelRule, "sluice", 4711)),
            None
        );
        assert_eq!(
            foreign.take(change(ChangeKind::DelTable, "sluice", 4711)),
            None
        );
        assert_eq!(
            foreign.take(end()).as_deref(),
            Some("nft (pid 4711): rule deleted, table deleted in table sluice")
        );
        assert_eq!(foreign.take(end()), None, "said once");
    }

    #[test]
    fn a_program_with_a_hostile_name_is_shown_escaped() {
        let mut foreign = Foreign::of("sluice");
        foreign.take(change(ChangeKind::DelTable, "sluice", 4711));
        let by = Generation {
            id: 7,
            process_id: 4711,
            process_name: "\u{202e}tfn\n".to_owned(),
        };
        assert_eq!(
            foreign.take(Notice::Generation(by)).as_deref(),
            Some(r"\u{202e}tfn\n (pid 4711): table deleted in table sluice")
        );
    }

    #[test]
    fn other_tables_and_expiring_elements_are_no_drift() {
        let mut foreign = Foreign::of("sluice");
        foreign.take(change(ChangeKind::DelTable, "filter", 4711));
        foreign.take(change(ChangeKind::DelElement, "sluice", 0));
        assert_eq!(foreign.take(end()), None);
    }

    #[test]
    fn lost_notices_may_have_been_anything() {
        let mut foreign = Foreign::of("sluice");
        assert!(foreign.take(Notice::Lost).is_some());
    }
}
