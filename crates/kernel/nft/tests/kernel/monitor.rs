//! The monitor reports changes of other programs and not our own.

use std::time::{Duration, Instant};

use sluice_nft::{
    Batch, Change, ChangeKind, Connection, Create, ElementRef, Kernel as _, Monitor, Notice, Set,
};

use crate::netns;
use crate::table::{self, SCOPE};

const DEADLINE: Duration = Duration::from_secs(20);

/// Notices up to the end of the next transaction.
#[track_caller]
fn transaction(monitor: &mut Monitor) -> Vec<Notice> {
    let deadline = Instant::now() + DEADLINE;
    let mut notices = Vec::new();
    while Instant::now() < deadline {
        if let Some(notice) = monitor.wait(Some(Duration::from_secs(1))).unwrap() {
            let end = matches!(notice, Notice::Generation(_));
            notices.push(notice);
            if end {
                return notices;
            }
        }
    }
    panic!("no transaction in time, only {notices:?}");
}

#[test]
fn a_foreign_flush_is_seen_and_our_own_commits_are_not() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let known = 1 << 22;
        let mut monitor = Monitor::ignoring(&[1, connection.port_id(), known]).unwrap();
        let mut later = Connection::open_at(known).unwrap();
        assert_eq!(later.port_id(), known);
        assert!(Connection::open_at(known).is_err(), "it is taken");
        connection.commit(&table::batch_with_table()).unwrap();
        let mut batch = Batch::new();
        batch.delete_table(0, SCOPE);
        batch.add_table(0, SCOPE, None, Create::New);
        later.commit(&batch).unwrap();
        // A notice is queued before the commit returns: ours would be here by now.
        assert_eq!(monitor.wait(Some(Duration::ZERO)).unwrap(), None);

        netns::program("nft", &["flush", "ruleset"], "");
        let notices = transaction(&mut monitor);
        let deleted = |it: &Notice| {
            matches!(it, Notice::Change(Change { kind: ChangeKind::DelTable, table: Some(table), port_id })
                if table == "t" && *port_id != connection.port_id())
        };
        assert!(notices.iter().any(deleted), "{notices:?}");
        let Some(Notice::Generation(generation)) = notices.last() else {
            panic!("{notices:?}")
        };
        assert_eq!(generation.process_name, "nft");
        assert_eq!(generation.id, connection.generation().unwrap().id);
    });
}

#[test]
fn every_kind_of_change_has_a_name() {
    netns::run(|| {
        let mut monitor = Monitor::ignoring(&[]).unwrap();
        let ruleset = "add table ip x; add chain ip x c; add rule ip x c accept; add set ip x s { type ipv4_addr; }; \
            add element ip x s { 10.0.0.1 }";
        netns::program("nft", &["-f", "-"], &format!("{ruleset}\n"));
        let mut kinds = Vec::new();
        for notice in transaction(&mut monitor) {
            if let Notice::Change(change) = notice {
                assert_eq!(change.table.as_deref(), Some("x"));
                kinds.push(change.kind);
            }
        }
        use ChangeKind::{NewChain, NewElement, NewRule, NewSet, NewTable};
        for kind in [NewTable, NewChain, NewRule, NewSet, NewElement] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
    });
}

#[test]
fn a_flood_is_reported_as_lost() {
    netns::run(|| {
        let set = Set {
            name: "s".into(),
            key_type: 7,
            key_length: 4,
            ..Set::default()
        };
        let mut monitor = Monitor::ignoring(&[]).unwrap();
        table::commit(|batch| {
            batch.add_set(1, SCOPE, &set, Create::New);
            for index in 0..300_000_u32 {
                let key = index.to_be_bytes();
                batch.add_element(
                    2,
                    SCOPE,
                    "s",
                    &ElementRef {
                        key: &key,
                        ..ElementRef::default()
                    },
                    Create::New,
                );
            }
        });
        let mut lost = false;
        while let Some(notice) = monitor.wait(Some(Duration::ZERO)).unwrap() {
            lost |= notice == Notice::Lost;
        }
        assert!(lost);
    });
}
