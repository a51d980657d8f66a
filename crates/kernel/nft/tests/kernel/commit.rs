//! A refused transaction changes nothing and names the refused object.

use sluice_netlink::Errno;
use sluice_nft::{
    Batch, Chain, CommitError, Connection, Create, DataRef, ElementRef, Expr, Failure, Family,
    Kernel as _, KernelRule, Set, SetData, Verdict,
};

use crate::netns;
use crate::table::{self, SCOPE};

#[track_caller]
fn failures(connection: &mut Connection, batch: &Batch) -> Vec<Failure> {
    match connection.commit(batch) {
        Err(CommitError::Refused { failures }) => failures,
        other => panic!("expected a refusal, not {other:?}"),
    }
}

fn map(data: SetData) -> Set {
    Set {
        name: "m".into(),
        key_type: 7,
        key_length: 4,
        data: Some(data),
        ..Set::default()
    }
}

fn add(batch: &mut Batch, tag: u32, key: u32, data: DataRef<'_>) {
    let key = key.to_be_bytes();
    batch.add_element(
        tag,
        SCOPE,
        "m",
        &ElementRef {
            key: &key,
            data: Some(data),
            ..ElementRef::default()
        },
        Create::New,
    );
}

#[test]
fn the_guilty_element_of_a_packed_message_is_named() {
    netns::run(|| {
        let value = DataRef::Value(&[0, 80]);
        let mut connection = table::commit(|batch| {
            batch.add_set(
                1,
                SCOPE,
                &map(SetData::Value {
                    type_id: 13,
                    length: 2,
                }),
                Create::New,
            );
            add(batch, 2, 137, value);
        });
        let mut batch = Batch::new();
        for index in 0..500 {
            add(&mut batch, 1000 + index, index, DataRef::Value(&[0, 81]));
        }
        let failures = failures(&mut connection, &batch);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].tags, [1137]);
        assert!(
            matches!(failures[0].errno, Errno::EEXIST | Errno::EBUSY),
            "{failures:?}"
        );

        let mut count = 0;
        connection
            .for_each_element(SCOPE, "m", |_| count += 1)
            .unwrap();
        assert_eq!(count, 1, "a refused transaction changes nothing");
    });
}

#[test]
fn every_transaction_that_is_sent_is_told() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let (told, exchanges) = std::sync::mpsc::channel();
        let told = std::sync::Mutex::new(told);
        connection.on_exchange(move |it| told.lock().unwrap().send(it).unwrap());
        connection.commit(&Batch::new()).unwrap();
        assert_eq!(exchanges.try_iter().count(), 0, "nothing was sent");
        connection.commit(&table::batch_with_table()).unwrap();
        let mut refused = Batch::new();
        refused.add_rule(1, SCOPE, &KernelRule::default());
        failures(&mut connection, &refused);
        let exchanges: Vec<_> = exchanges.try_iter().collect();
        assert_eq!(exchanges.len(), 2, "{exchanges:?}");
        assert!(exchanges.iter().all(|it| it.sent > 20 && it.received > 20));
    });
}

#[test]
fn an_element_that_leads_nowhere_is_named() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let mut batch = table::batch_with_table();
        batch.add_chain(
            1,
            SCOPE,
            &Chain {
                name: "there".into(),
                ..Chain::default()
            },
            Create::New,
        );
        batch.add_set(2, SCOPE, &map(SetData::Verdict), Create::New);
        for index in 0..50 {
            let chain = if index == 31 { "missing" } else { "there" };
            add(
                &mut batch,
                100 + index,
                index,
                DataRef::Verdict(Verdict::Goto(chain)),
            );
        }
        let failures = failures(&mut connection, &batch);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(
            (failures[0].tags.as_slice(), failures[0].errno),
            ([131].as_slice(), Errno::ENOENT)
        );
        assert_eq!(connection.tables(Family::Ipv4).unwrap(), []);
    });
}

#[test]
fn a_rule_that_leads_nowhere_is_named() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let mut batch = table::batch_with_table();
        batch.add_chain(
            1,
            SCOPE,
            &Chain {
                name: "c".into(),
                ..Chain::default()
            },
            Create::New,
        );
        let rule = |chain: &str| KernelRule {
            chain: "c".into(),
            exprs: vec![Expr::Verdict(Verdict::Jump(chain.into()))],
            comment: None,
        };
        batch.add_rule(7, SCOPE, &rule("missing"));
        batch.delete_chain(8, SCOPE, "missing too");
        let failures = failures(&mut connection, &batch);
        let blamed: Vec<_> = failures
            .iter()
            .map(|it| (it.tags.as_slice(), it.errno))
            .collect();
        assert_eq!(
            blamed,
            [
                ([7].as_slice(), Errno::ENOENT),
                ([8].as_slice(), Errno::ENOENT)
            ]
        );
    });
}

#[test]
fn the_kernels_words_are_passed_on() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let mut batch = table::batch_with_table();
        batch.add_chain(
            1,
            SCOPE,
            &Chain {
                name: "c".into(),
                ..Chain::default()
            },
            Create::New,
        );
        let other = Expr::Other {
            name: "no such expression".into(),
        };
        batch.add_rule(
            2,
            SCOPE,
            &KernelRule {
                chain: "c".into(),
                exprs: vec![other],
                comment: None,
            },
        );
        // Refusals of nf_tables itself have no text, but those of the attribute parser do.
        batch.add_chain(
            3,
            SCOPE,
            &Chain {
                name: "x".repeat(400),
                ..Chain::default()
            },
            Create::New,
        );
        let failures = failures(&mut connection, &batch);
        assert!(
            failures
                .iter()
                .any(|it| it.tags == [2] && it.errno == Errno::ENOENT),
            "{failures:?}"
        );
        let spoken = failures.iter().find(|it| it.tags == [3]).unwrap();
        assert!(
            spoken
                .message
                .as_ref()
                .is_some_and(|it| it.contains("policy")),
            "{failures:?}"
        );
        assert!(spoken.to_string().contains("policy"));
    });
}

#[test]
fn new_refuses_what_exists_and_if_missing_does_not() {
    netns::run(|| {
        let mut connection = table::commit(|_| {});
        assert_eq!(
            failures(&mut connection, &table::batch_with_table())[0].errno,
            Errno::EEXIST
        );
        let mut batch = Batch::new();
        batch.add_table(5, SCOPE, None, Create::IfMissing);
        batch.delete_table(6, SCOPE);
        batch.add_table(7, SCOPE, Some("again"), Create::New);
        connection.commit(&batch).unwrap();
        assert_eq!(
            connection.tables(Family::Ipv4).unwrap()[0]
                .comment
                .as_deref(),
            Some("again")
        );
    });
}

#[test]
fn more_failures_than_fit_the_queue_are_still_a_refusal() {
    netns::run(|| {
        let mut connection = table::commit(|_| {});
        let mut batch = Batch::new();
        for tag in 0..100_000 {
            batch.delete_chain(tag, SCOPE, "missing");
        }
        let failures = failures(&mut connection, &batch);
        assert_eq!(failures[0].tags, [0]);
        // The connection still works.
        let mut batch = Batch::new();
        batch.delete_table(0, SCOPE);
        connection.commit(&batch).unwrap();
    });
}

#[test]
fn an_object_that_fits_no_message_is_refused_before_it_is_sent() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let mut batch = table::batch_with_table();
        batch.delete_chain(9, SCOPE, &"x".repeat(70_000));
        let failures = failures(&mut connection, &batch);
        assert_eq!(
            (failures[0].tags.as_slice(), failures[0].errno),
            ([9].as_slice(), Errno::EMSGSIZE)
        );
    });
}
