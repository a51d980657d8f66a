//! The possible outcomes of a packet, which tracers and the plan must agree on, and the enumeration
//! of random choices.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sluice_plan::lookup::Packet;
use sluice_plan::state::HostAddresses;
use sluice_plan::{Plan, Pool, Verdict};

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Sent to this endpoint.
    Translated {
        /// The endpoint.
        to: SocketAddr,
        /// It sees an address of the node as its client.
        masqueraded: bool,
    },
    /// Not changed by any rule.
    Untouched,
    /// Dropped without an answer.
    Dropped,
    /// Rejected, with an answer to the client.
    Rejected,
}

/// Every outcome that the plan allows for a packet, with no client remembered and whatever the
/// weights of endpoints.
#[must_use]
pub fn planned(plan: &Plan, packet: &Packet, host: &HostAddresses) -> BTreeSet<Outcome> {
    let lookup = plan.lookup(packet, host);
    match lookup.verdict {
        Some(Verdict::Balance(_)) => {
            let endpoints = lookup.pool.into_iter().flat_map(Pool::endpoints);
            let outcomes = endpoints.map(|it| Outcome::Translated {
                to: it.addr,
                masqueraded: lookup.masquerades(packet, it.addr.ip(), host),
            });
            outcomes.collect()
        }
        Some(Verdict::Drop) => [Outcome::Dropped].into(),
        Some(Verdict::Reject) => [Outcome::Rejected].into(),
        None => [Outcome::Untouched].into(),
    }
}

/// Enumerates every combination of random choices.
#[derive(Default)]
pub struct Chance {
    /// Each choice, and the number of its options.
    choices: Vec<(u32, u32)>,
    position: usize,
}

/// The results of `run` for every combination of the choices that it takes from its argument. With
/// equal choices `run` must return equal results.
pub fn every<T: Ord>(mut run: impl FnMut(&mut Chance) -> T) -> BTreeSet<T> {
    let mut all = BTreeSet::new();
    let mut chance = Chance::default();
    loop {
        chance.position = 0;
        all.insert(run(&mut chance));
        if !chance.advance() {
            return all;
        }
    }
}

impl Chance {
    /// One of the numbers below `out_of`, which is at least 1.
    pub fn choose(&mut self, out_of: u32) -> u32 {
        if self.position == self.choices.len() {
            self.choices.push((0, out_of));
        }
        self.position += 1;
        self.choices[self.position - 1].0
    }

    /// Moves to the next combination; false when all have been seen.
    fn advance(&mut self) -> bool {
        while let Some((choice, out_of)) = self.choices.pop() {
            if choice + 1 < out_of {
                self.choices.push((choice + 1, out_of));
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_runs_once() {
        let mut runs = 0;
        let all = every(|chance| {
            runs += 1;
            match chance.choose(2) {
                0 => (0, chance.choose(3)),
                other => (other, 9),
            }
        });
        assert_eq!(all, [(0, 0), (0, 1), (0, 2), (1, 9)].into());
        assert_eq!(runs, 4);
    }
}
