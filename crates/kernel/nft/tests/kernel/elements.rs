//! Tests that elements are listed as they were written, however many there are.

use std::collections::BTreeMap;

use sluice_nft::{
    Batch, Chain, Connection, Create, DataRef, ElementRef, Kernel as _, Set, SetData, SetFlags,
    Verdict,
};

use crate::element::Element;
use crate::netns;
use crate::table::{self, SCOPE};

fn observe(connection: &mut Connection, set: &str) -> BTreeMap<Vec<u8>, Element> {
    let mut elements = BTreeMap::new();
    connection
        .for_each_element(SCOPE, set, |it| {
            drop(elements.insert(it.key.to_vec(), Element::of(&it)))
        })
        .unwrap();
    elements
}

/// Asks for these elements by their keys, and finds those that are expected.
#[track_caller]
fn find_each(
    connection: &mut Connection,
    set: &Set,
    elements: &[Element],
    expected: &BTreeMap<Vec<u8>, Element>,
) {
    if set.flags.contains(SetFlags::INTERVAL) {
        return;
    }
    let keys: Vec<&[u8]> = elements.iter().map(|it| it.key.as_slice()).collect();
    let mut found = BTreeMap::new();
    let visit = |it: ElementRef<'_>| drop(found.insert(it.key.to_vec(), Element::of(&it)));
    connection
        .find_elements(SCOPE, &set.name, &keys, visit)
        .unwrap();
    assert_eq!(found, *expected);
}

/// Writes the elements into this set, compares, deletes the first one, compares.
#[track_caller]
fn check(set: Set, elements: Vec<Element>) {
    netns::run(move || {
        let mut connection = table::commit(|batch| {
            batch.add_chain(
                1,
                SCOPE,
                &Chain {
                    name: "leaf".into(),
                    ..Chain::default()
                },
                Create::New,
            );
            batch.add_set(2, SCOPE, &set, Create::New);
            for element in &elements {
                batch.add_element(3, SCOPE, &set.name, &element.as_ref(), Create::New);
            }
        });
        let mut expected: BTreeMap<_, _> = elements
            .iter()
            .map(|it| (it.key.clone(), it.clone()))
            .collect();
        assert_eq!(observe(&mut connection, &set.name), expected);
        find_each(&mut connection, &set, &elements, &expected);

        let mut batch = Batch::new();
        batch.delete_element(0, SCOPE, &set.name, &elements[0].as_ref());
        connection.commit(&batch).unwrap();
        expected.remove(&elements[0].key);
        assert_eq!(observe(&mut connection, &set.name), expected);
        find_each(&mut connection, &set, &elements, &expected);

        let mut batch = Batch::new();
        batch.flush_set(0, SCOPE, &set.name);
        connection.commit(&batch).unwrap();
        assert_eq!(observe(&mut connection, &set.name).len(), 0);
    });
}

fn element(key: &[u8], data: Option<DataRef<'_>>, comment: Option<&str>) -> Element {
    Element::of(&ElementRef {
        key,
        data,
        comment,
        ..ElementRef::default()
    })
}

#[test]
fn verdicts_read_back() {
    let set = Set {
        name: "frontends".into(),
        key_type: (7 << 12) | (12 << 6) | 13,
        key_length: 12,
        data: Some(SetData::Verdict),
        ..Set::default()
    };
    let verdicts = [
        Verdict::Goto("leaf"),
        Verdict::Jump("leaf"),
        Verdict::Accept,
        Verdict::Drop,
        Verdict::Return,
    ];
    let long = "ns/name:port ".repeat(9);
    let elements = verdicts.iter().zip(1..).map(|(verdict, index)| {
        let key = [10, 0, 0, index, 6, 0, 0, 0, 0, 80, 0, 0];
        element(
            &key,
            Some(DataRef::Verdict(*verdict)),
            (index % 2 == 0).then_some(&long),
        )
    });
    check(set, elements.collect());
}

#[test]
fn values_read_back() {
    let set = Set {
        name: "endpoints".into(),
        key_type: 7,
        key_length: 4,
        data: Some(SetData::Value {
            type_id: (7 << 6) | 13,
            length: 8,
        }),
        ..Set::default()
    };
    let elements = (0..200_u8).map(|index| {
        let comment = format!("endpoint {index}");
        element(
            &[10, 0, 0, index],
            Some(DataRef::Value(&[10, 1, 0, index, 0x1f, 0x90, 0, 0])),
            Some(&comment),
        )
    });
    check(set, elements.collect());
}

#[test]
fn counters_are_read_where_there_are_any() {
    let set = |name: &str, counter| Set {
        name: name.into(),
        key_type: 7,
        key_length: 4,
        counter,
        ..Set::default()
    };
    netns::run(move || {
        let mut connection = table::commit(|batch| {
            for (name, counter) in [("counted", true), ("plain", false)] {
                batch.add_set(1, SCOPE, &set(name, counter), Create::New);
                let element = element(&[10, 0, 0, 1], None, None);
                batch.add_element(2, SCOPE, name, &element.as_ref(), Create::New);
            }
        });
        let later = "add element ip t counted { 10.0.0.2 counter packets 7 bytes 420 }";
        netns::program("nft", &["-f", "-"], later);
        let mut packets = |name| {
            let mut all = BTreeMap::new();
            let visit = |it: ElementRef<'_>| {
                all.insert(it.key.to_vec(), it.packets);
            };
            connection.for_each_element(SCOPE, name, visit).unwrap();
            all.into_values().collect::<Vec<_>>()
        };
        assert_eq!(packets("counted"), [Some(0), Some(7)]);
        assert_eq!(packets("plain"), [None]);
    });
}

#[test]
fn timeouts_read_back() {
    let set = Set {
        name: "recent".into(),
        flags: SetFlags::TIMEOUT,
        key_type: 7,
        key_length: 4,
        ..Set::default()
    };
    let elements = [None, Some(3_600_000)]
        .into_iter()
        .zip(0..)
        .map(|(timeout_ms, index)| Element {
            key: vec![10, 0, 0, index],
            timeout_ms,
            ..Element::default()
        });
    check(set, elements.collect());
}

#[test]
fn ranges_of_concatenations_read_back() {
    let set = Set {
        name: "sources".into(),
        flags: SetFlags::INTERVAL | SetFlags::CONCAT,
        key_type: (7 << 6) | 7,
        key_length: 8,
        field_lengths: vec![4, 4],
        ..Set::default()
    };
    let elements = (0..10_u8).map(|index| Element {
        key: vec![10, 0, 0, index, 192, 168, index, 0],
        key_end: Some(vec![10, 0, 0, index, 192, 168, index, 255]),
        comment: Some(format!("range {index}")),
        ..Element::default()
    });
    check(set, elements.collect());
}

#[test]
fn ranges_read_back() {
    netns::run(|| {
        let set = Set {
            name: "s".into(),
            flags: SetFlags::INTERVAL,
            key_type: 7,
            key_length: 4,
            ..Set::default()
        };
        let first = Element {
            key: vec![10, 0, 0, 0],
            comment: Some("ten".into()),
            ..Element::default()
        };
        let after = Element {
            key: vec![11, 0, 0, 0],
            interval_end: true,
            ..Element::default()
        };
        let mut connection = table::commit(|batch| {
            batch.add_set(1, SCOPE, &set, Create::New);
            batch.add_element(2, SCOPE, "s", &first.as_ref(), Create::New);
            batch.add_element(3, SCOPE, "s", &after.as_ref(), Create::New);
        });
        let elements = observe(&mut connection, "s");
        assert_eq!(elements.get(&first.key), Some(&first));
        assert_eq!(elements.get(&after.key), Some(&after));
        assert!(
            table::nft_list().contains("10.0.0.0/8 comment \"ten\""),
            "{}",
            table::nft_list()
        );
    });
}

#[test]
fn two_hundred_thousand_elements_are_one_transaction() {
    netns::run(|| {
        const COUNT: u32 = 200_000;
        const LISTINGS: usize = 3;
        let set = Set {
            name: "endpoints".into(),
            key_type: 7,
            key_length: 4,
            data: Some(SetData::Value {
                type_id: 7,
                length: 4,
            }),
            ..Set::default()
        };
        let mut connection = table::commit(|batch| {
            batch.add_set(1, SCOPE, &set, Create::New);
            for index in 0..COUNT {
                let (key, value) = (index.to_be_bytes(), (!index).to_be_bytes());
                let element = ElementRef {
                    key: &key,
                    data: Some(DataRef::Value(&value)),
                    ..ElementRef::default()
                };
                batch.add_element(index, SCOPE, "endpoints", &element, Create::New);
            }
        });
        let mut seen = vec![false; COUNT as usize];
        let mut visit = |element: ElementRef<'_>| {
            let index = u32::from_be_bytes(*element.key.first_chunk().unwrap());
            assert_eq!(element.data, Some(DataRef::Value(&(!index).to_be_bytes())));
            seen[index as usize] = true;
        };
        // The kernel grows the hash table behind the commit, and a walk meanwhile may miss some.
        for _ in 0..LISTINGS {
            connection
                .for_each_element(SCOPE, "endpoints", &mut visit)
                .unwrap();
        }
        assert!(seen.iter().all(|it| *it));

        // Every key is found, and no key of as many that have no element.
        let keys: Vec<[u8; 4]> = (0..2 * COUNT).map(u32::to_be_bytes).collect();
        let mut found = 0;
        let visit = |element: ElementRef<'_>| {
            let index = u32::from_be_bytes(*element.key.first_chunk().unwrap());
            assert_eq!(index, found);
            assert_eq!(element.data, Some(DataRef::Value(&(!index).to_be_bytes())));
            found += 1;
        };
        connection
            .find_elements(SCOPE, "endpoints", &keys, visit)
            .unwrap();
        assert_eq!(found, COUNT);

        let mut batch = Batch::new();
        for index in 0..COUNT {
            let key = index.to_be_bytes();
            batch.delete_element(
                index,
                SCOPE,
                "endpoints",
                &ElementRef {
                    key: &key,
                    ..ElementRef::default()
                },
            );
        }
        connection.commit(&batch).unwrap();
        assert_eq!(observe(&mut connection, "endpoints").len(), 0);
    });
}

#[test]
fn a_set_that_is_not_there_has_no_elements_to_find() {
    netns::run(|| {
        let mut connection = table::commit(|_| {});
        let visit = |it: ElementRef<'_>| panic!("{it:?}");
        connection
            .find_elements(SCOPE, "nothing", &[[10, 0, 0, 1]], visit)
            .unwrap();
    });
}

/// Since Linux 6.16; before, the kernel does not say.
#[test]
fn sets_say_how_many_elements_they_have() {
    netns::run(|| {
        let set = Set {
            name: "s".into(),
            key_type: 7,
            key_length: 4,
            ..Set::default()
        };
        let mut connection = table::commit(|batch| {
            batch.add_set(1, SCOPE, &set, Create::New);
            for index in 0..3 {
                let element = element(&[10, 0, 0, index], None, None);
                batch.add_element(2, SCOPE, "s", &element.as_ref(), Create::New);
            }
        });
        let mut count = || connection.sets(SCOPE).unwrap()[0].1;
        assert!(matches!(count(), Some(3) | None), "{:?}", count());
        netns::program("nft", &["delete element ip t s { 10.0.0.1 }"], "");
        assert!(matches!(count(), Some(2) | None), "{:?}", count());
        netns::program("nft", &["add element ip t s { * }"], "");
        assert!(matches!(count(), Some(2) | None), "{:?}", count());
    });
}

#[test]
fn the_catch_all_element_has_an_empty_key() {
    let set = Set {
        name: "s".into(),
        key_type: 7,
        key_length: 4,
        ..Set::default()
    };
    let elements = vec![
        element(&[], None, Some("all others")),
        element(&[10, 0, 0, 1], None, None),
    ];
    check(set, elements);
}
