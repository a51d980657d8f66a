//! Bytes that nobody should send.

#[path = "../../../../fuzz/oracles/dns.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz target")]
mod oracle;
#[path = "../../../../fuzz/oracles/seeds.rs"]
#[expect(unreachable_pub, reason = "shared with other crates")]
mod seeds;

use proptest::prelude::*;
use proptest::sample::Index;
use seeds::seeds;

#[test]
fn the_corpus() {
    let seeds = seeds("dns");
    assert!(seeds.len() > 10);
    seeds.iter().for_each(|it| oracle::check(it));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Law: an answer can be read by another library, and has the query's id, question and case.
    #[test]
    fn queries_with_changed_bytes(
        seed in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<Index>()),
    ) {
        let seeds = seeds("dns");
        let mut query = seed.get(&seeds).clone();
        for (place, byte) in changes {
            let place = place.index(query.len());
            query[place] = byte;
        }
        if let Some(cut) = cut {
            query.truncate(cut.index(query.len()));
        }
        oracle::check(&query);
    }

    /// Law: names of any labels are answered so too.
    #[test]
    fn any_names(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..6),
        zone in prop::sample::select(vec!["", "cluster.local", "svc.cluster.local", "in-addr.arpa", "alias", "example"]),
        record_type in any::<u16>(),
    ) {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let zone = zone.split('.').filter(|it| !it.is_empty()).map(|it| it.as_bytes().to_vec());
        for label in labels.into_iter().chain(zone) {
            query.push(label.len() as u8);
            query.extend(label);
        }
        query.push(0);
        query.extend(record_type.to_be_bytes());
        query.extend([0, 1]);
        oracle::check(&query);
    }
}
