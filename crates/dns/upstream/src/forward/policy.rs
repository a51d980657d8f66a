//! In which order upstreams are tried.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::seq::SliceRandom as _;

/// CoreDNS's policies.
#[derive(Debug)]
pub(super) enum Policy {
    Random,
    /// The counter of queries.
    RoundRobin(AtomicUsize),
    Sequential,
}

impl Policy {
    /// The order for one query: indices below `count`.
    pub(super) fn order(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        match self {
            Self::Random => order.shuffle(&mut rand::rng()),
            // As CoreDNS: the next one first, the others in the order of the Corefile.
            Self::RoundRobin(queries) if count > 0 => {
                let first = queries.fetch_add(1, Ordering::Relaxed) % count;
                order[..=first].rotate_right(1);
            }
            Self::RoundRobin(_) | Self::Sequential => {}
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_is_the_corefiles_order() {
        assert_eq!(Policy::Sequential.order(3), [0, 1, 2]);
    }

    #[test]
    fn round_robin_begins_with_each_in_turn() {
        let policy = Policy::RoundRobin(AtomicUsize::new(0));
        let orders: Vec<_> = (0..4).map(|_| policy.order(3)).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 1, 2]]);
    }

    #[test]
    fn random_begins_with_each() {
        let mut seen = [false; 4];
        for _ in 0..1000 {
            let mut order = Policy::Random.order(4);
            seen[order[0]] = true;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
        assert_eq!(seen, [true; 4]);
    }
}
