//! Bytes that nobody should send as SPDY.

#[path = "../../../../fuzz/oracles/spdy.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz target")]
mod oracle;
#[path = "../../../../fuzz/oracles/seeds.rs"]
#[expect(unreachable_pub, reason = "shared with other crates")]
mod seeds;

use proptest::prelude::*;
use proptest::sample::Index;
use seeds::seeds;
use sluice_streams::spdy::frames_of;

#[test]
fn the_corpus() {
    let mut counts: Vec<usize> = seeds("spdy").iter().map(|it| frames_of(it)).collect();
    counts.sort_unstable();
    // Every frame of every seed is read.
    assert_eq!(counts, [3, 5, 6]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn connections_with_changed_bytes(
        seed in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let seeds = seeds("spdy");
        let mut bytes = seed.get(&seeds).clone();
        for (place, byte) in changes {
            *place.get_mut(&mut bytes) = byte;
        }
        oracle::check(&bytes);
    }
}
