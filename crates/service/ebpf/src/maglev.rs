//! Tables of Maglev: which endpoint a connection gets by a hash of its addresses, the same on every node.
//!
//! Each endpoint has an order of its own over all entries of the table, and the endpoints take free entries in
//! turn (Eisenbud et al., "Maglev", NSDI 2016, 3.4). An endpoint that leaves gives its entries to the others, and
//! few of the others' change hands. An endpoint of half the weight has every second turn.
//!
//! The paper's order is a step of constant length. Where the steps of two endpoints are multiples of each other,
//! an endpoint that leaves moves up to 26 % more than its share (of 2,000 sets of three, 4,093 entries; 3.8 % with
//! 16,381). Ours goes by the inverses modulo the size (inversive congruential), and moves at most 1 % and 0.4 %.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sha2::{Digest, Sha256};
use sluice_plan::Pool;
use sluice_plane::MAGLEV_SIZES;

/// Entries for each endpoint, at least: with fewer, more connections of others move.
const ENTRIES: usize = 400;

/// The size of a table for this many endpoints. 0 where the largest has not one entry for each.
pub(crate) fn size(endpoints: usize, at_least: u32) -> u32 {
    let [.., largest] = MAGLEV_SIZES;
    if endpoints > largest as usize {
        return 0;
    }
    let enough = |it: &u32| *it >= at_least && *it as usize >= ENTRIES * endpoints;
    MAGLEV_SIZES.into_iter().find(enough).unwrap_or(largest)
}

/// An endpoint's order over the entries: the steps `offset`, `offset + step`, and so on, each made an entry by its
/// inverse.
struct Order {
    offset: u64,
    step: u64,
    factor: u64,
    shift: u64,
    /// How many entries of the order it has tried.
    tried: u64,
    weight: u64,
    credit: u64,
    slot: u16,
}

/// The inverse of each number modulo a prime; that of 0 is 0.
fn inverses(prime: u64) -> Vec<u64> {
    let mut inverses = vec![0, 1];
    for number in 2..prime {
        let rest = usize::try_from(prime % number).expect("smaller than the table");
        inverses.push((prime - prime / number) * inverses[rest] % prime);
    }
    inverses
}

/// The slots by entry. `slots`: the addresses of the pool by slot.
///
/// An endpoint of weight 0 has no entry, unless all have that weight.
pub(crate) fn table(pool: &Pool, slots: &[SocketAddr], size: u32) -> Vec<u16> {
    let mut orders = orders(pool, slots, size);
    let most = orders.iter().map(|it| it.weight).max().unwrap_or(1);
    let mut table: Vec<Option<u16>> = vec![None; size as usize];
    let mut free = table.len();
    let size = u64::from(size);
    let inverses = inverses(size);
    let index = |entry: u64| usize::try_from(entry).expect("smaller than the table");
    while free > 0 {
        for order in &mut orders {
            order.credit += order.weight;
            if order.credit < most || free == 0 {
                continue;
            }
            order.credit -= most;
            let entry = loop {
                let at = (order.offset + order.tried * order.step) % size;
                order.tried += 1;
                let entry = index((order.factor * inverses[index(at)] + order.shift) % size);
                if table[entry].is_none() {
                    break entry;
                }
            };
            table[entry] = Some(order.slot);
            free -= 1;
        }
    }
    table.into_iter().flatten().collect()
}

fn orders(pool: &Pool, slots: &[SocketAddr], size: u32) -> Vec<Order> {
    let all_zero = pool.endpoints().iter().all(|it| it.weight == 0);
    let slots: BTreeMap<&SocketAddr, u16> = slots.iter().zip(0..).collect();
    // By address, as the pool is: slots differ from node to node.
    let endpoints = pool.endpoints().iter();
    let orders = endpoints
        .filter(|it| it.weight > 0 || all_zero)
        .filter_map(|it| {
            let slot = *slots.get(&it.addr)?;
            let digest = Sha256::digest(it.addr.to_string());
            let word = |at: usize| {
                let bytes = digest[at..at + 8]
                    .try_into()
                    .expect("a digest has 32 bytes");
                u64::from_be_bytes(bytes)
            };
            Some(Order {
                offset: word(0) % u64::from(size),
                step: word(8) % (u64::from(size) - 1) + 1,
                factor: word(16) % (u64::from(size) - 1) + 1,
                shift: word(24) % u64::from(size),
                tried: 0,
                weight: it.weight.max(1).into(),
                credit: 0,
                slot,
            })
        });
    orders.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u32 = MAGLEV_SIZES[1];
    use proptest::prelude::*;
    use sluice_plan::PoolEndpoint;

    fn pool(endpoints: &[(u8, u16)]) -> Pool {
        let endpoints = endpoints.iter().map(|&(host, weight)| PoolEndpoint {
            addr: SocketAddr::new([10, 244, 0, host].into(), 8080),
            may_be_here: false,
            weight,
            direct: None,
            target: None,
        });
        Pool::new(endpoints.collect()).expect("some endpoints")
    }

    fn addresses(pool: &Pool) -> Vec<SocketAddr> {
        pool.endpoints().iter().map(|it| it.addr).collect()
    }

    /// The endpoint of each entry.
    fn chosen(pool: &Pool, slots: &[SocketAddr]) -> Vec<SocketAddr> {
        let table = table(pool, slots, USUAL);
        table
            .into_iter()
            .map(|slot| slots[usize::from(slot)])
            .collect()
    }

    #[test]
    fn large_pools_have_large_tables() {
        let sizes = [1, 40, 41, 65_521].map(|it| size(it, USUAL));
        assert_eq!(sizes, [16_381, 16_381, 65_521, 65_521]);
        assert_eq!([10, 11].map(|it| size(it, 0)), [4093, 16_381]);
        assert_eq!(size(70_000, 0), 0);
    }

    proptest! {
        /// An endpoint that leaves moves the entries of few others.
        #[test]
        fn little_moves(hosts in prop::collection::btree_set(1_u8..250, 2..=10), gone: prop::sample::Index) {
            let hosts: Vec<(u8, u16)> = hosts.into_iter().map(|it| (it, 1)).collect();
            let before = pool(&hosts);
            let mut left = hosts.clone();
            left.remove(gone.index(left.len()));
            let after = pool(&left);
            let was = chosen(&before, &addresses(&before));
            let is = chosen(&after, &addresses(&after));
            let moved = was.iter().zip(&is).filter(|(was, is)| was != is).count();
            let share = moved as f64 / was.len() as f64;
            prop_assert!(share <= 1.0 / hosts.len() as f64 + 0.02, "{share} of {}", hosts.len());
        }

        /// Slots differ from node to node, and the choice does not.
        #[test]
        fn slots_do_not_matter(hosts in prop::collection::btree_set(1_u8..250, 1..=10), turn in 0_usize..10) {
            let hosts: Vec<(u8, u16)> = hosts.into_iter().map(|it| (it, 1)).collect();
            let pool = pool(&hosts);
            let here = addresses(&pool);
            let mut there = here.clone();
            there.rotate_left(turn % here.len());
            prop_assert_eq!(chosen(&pool, &here), chosen(&pool, &there));
        }

        /// Every endpoint has its share, within two percent of all.
        #[test]
        fn weights_are_honoured(weights in prop::collection::vec(0_u16..5, 1..=8)) {
            let hosts: Vec<(u8, u16)> = (1..).zip(weights).collect();
            let pool = pool(&hosts);
            let chosen = chosen(&pool, &addresses(&pool));
            let all: u16 = hosts.iter().map(|(_, weight)| *weight).sum();
            for endpoint in pool.endpoints() {
                let got = chosen.iter().filter(|it| **it == endpoint.addr).count();
                let got = got as f64 / chosen.len() as f64;
                let wanted = match all {
                    0 => 1.0 / hosts.len() as f64,
                    _ => f64::from(endpoint.weight) / f64::from(all),
                };
                prop_assert!((got - wanted).abs() < 0.02, "{}: {got}, not {wanted}", endpoint.addr);
            }
        }
    }
}
