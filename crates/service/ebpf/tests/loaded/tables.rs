//! Maps as tables.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_bpf::Prefix;
use sluice_bpf_abi::{Addr, Endpoint, EndpointKey, MemberKey, SOURCE_PREFIX, SourceKey};

use crate::loaded::world::{open, run};

fn member(port: u16) -> MemberKey {
    MemberKey {
        addr: Addr::from(IpAddr::from([10, 0, 0, 1])),
        service: 7,
        port,
        pool: 0,
    }
}

#[test]
fn entries_are_added_replaced_and_removed() {
    run("table", |_, root| {
        let mut programs = open(root);
        let table = &mut programs.maps_mut().members;
        let key = member(80);
        assert_eq!(table.get(&key).unwrap(), None);
        assert!(table.insert_new(&key, &1).unwrap());
        assert!(!table.insert_new(&key, &2).unwrap());
        assert_eq!(table.get(&key).unwrap(), Some(1));
        table.insert(&key, &3).unwrap();
        assert_eq!(table.entries().unwrap(), [(key, 3)]);
        assert!(table.remove(&key).unwrap());
        assert!(!table.remove(&key).unwrap());
        assert!(table.entries().unwrap().is_empty());
    });
}

#[test]
fn every_entry_is_listed_once() {
    run("listed", |_, root| {
        let mut programs = open(root);
        let table = &mut programs.maps_mut().endpoints;
        for slot in 0..20_000 {
            let key = EndpointKey { service: 1, slot };
            table.insert(&key, &Endpoint::default()).unwrap();
        }
        let listed = table.entries().unwrap();
        let slots: BTreeSet<u32> = listed.iter().map(|(key, _)| key.slot).collect();
        assert_eq!((listed.len(), slots.len()), (20_000, 20_000));
    });
}

#[test]
fn a_full_table_refuses() {
    run("full", |_, root| {
        let mut programs = open(root);
        let table = &mut programs.maps_mut().members;
        let last = (0..=u16::MAX).find_map(|port| table.insert(&member(port), &1).err());
        let error = last.expect("65,536 entries are more than the table holds");
        assert!(error.to_string().contains("MEMBERS"), "{error}");
    });
}

#[test]
fn ranges_of_sources_contain_addresses() {
    run("sources", |_, root| {
        let mut programs = open(root);
        let sources = &mut programs.maps_mut().sources;
        let key = |length, ip: [u8; 4]| {
            let addr = Addr::from(IpAddr::from(ip));
            let list = [5, 6];
            Prefix::new(SOURCE_PREFIX + 96 + length, SourceKey { list, addr })
        };
        sources.insert(&key(8, [10, 0, 0, 0]), &1).unwrap();
        assert!(sources.get(&key(32, [10, 1, 2, 3])).unwrap().is_some());
        assert!(sources.get(&key(32, [11, 1, 2, 3])).unwrap().is_none());
        let entries = sources.entries().unwrap();
        let [(range, _)] = entries[..] else {
            panic!("one range");
        };
        assert_eq!(range.prefix_len(), SOURCE_PREFIX + 96 + 8);
        assert!(sources.remove(&range).unwrap());
        assert!(!sources.remove(&range).unwrap());
    });
}
