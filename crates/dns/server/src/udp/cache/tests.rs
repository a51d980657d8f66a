use std::collections::HashMap;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use sluice_upstream::Transport;

use super::*;
use crate::metrics::{Family, Metrics, Plugin};

const FIRST: Version = Version {
    objects: 1,
    engine: 1,
    files: 0,
};

fn sample() -> Sample {
    Sample {
        tally: Metrics::new(1, "test").tally("dns://:53", "."),
        transport: Transport::Udp,
        family: Family::V4,
        record_type: RecordType::A,
        dnssec_ok: false,
        query_size: 0,
        response_size: 0,
        code: ResponseCode::NoError,
        plugin: Plugin::Kubernetes,
    }
}

fn cache() -> WireCache {
    let mut cache = WireCache::new(1000);
    cache.renew(FIRST);
    cache
}

/// Looks a query up and, when there is no response, keeps one for `addresses`: the one that comes first.
fn ask(cache: &mut WireCache, query: &[u8], addresses: usize, sample: &Sample) -> usize {
    let turn = match cache.get(query) {
        Cached::Response(bytes, _) => return usize::from(bytes[0]),
        Cached::Turn(turn) => turn,
    };
    let first = turn % addresses;
    let reusable = Reusable {
        version: FIRST,
        variants: Reusable::variants(addresses),
    };
    cache.insert(query, turn, &[first as u8], &reusable, sample);
    first
}

#[test]
fn each_address_has_the_same_share() {
    let (mut cache, sample) = (cache(), sample());
    for addresses in 1..=16 {
        let mut firsts: HashMap<usize, usize> = HashMap::new();
        for _ in 0..addresses * 100 {
            *firsts
                .entry(ask(&mut cache, &[addresses as u8], addresses, &sample))
                .or_default() += 1;
        }
        let (least, most) = (
            firsts.values().min().unwrap(),
            firsts.values().max().unwrap(),
        );
        assert_eq!(firsts.len(), addresses);
        assert!(most - least <= 20, "{addresses}: {least} to {most}");
    }
}

#[test]
fn more_addresses_than_responses_come_first_in_the_end() {
    let (mut cache, sample) = (cache(), sample());
    let mut firsts = HashMap::new();
    for _ in 0..100_000 {
        *firsts
            .entry(ask(&mut cache, b"q", 40, &sample))
            .or_insert(0) += 1;
    }
    assert_eq!(firsts.len(), 40);
}

#[test]
fn another_version_forgets_everything() {
    let (mut cache, sample) = (cache(), sample());
    ask(&mut cache, b"q", 1, &sample);
    assert!(matches!(cache.get(b"q"), Cached::Response(..)));
    for version in [
        Version {
            objects: 2,
            ..FIRST
        },
        Version { engine: 2, ..FIRST },
        Version { files: 2, ..FIRST },
    ] {
        cache.renew(FIRST);
        ask(&mut cache, b"q", 1, &sample);
        cache.renew(version);
        assert!(matches!(cache.get(b"q"), Cached::Turn(_)));
        // An answer that was computed before the change comes too late.
        ask(&mut cache, b"q", 1, &sample);
        assert!(matches!(cache.get(b"q"), Cached::Turn(_)));
    }
}

#[test]
fn bytes_are_bounded() {
    let (mut cache, sample) = (cache(), sample());
    for number in 0..10_000_u32 {
        ask(&mut cache, &number.to_be_bytes(), 1, &sample);
        assert!(cache.bytes <= 1000);
        assert_eq!(cache.bytes, cache.entries.len() * 5);
    }
}
