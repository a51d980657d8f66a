//! Follows a packet through chains of rules, whoever made them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sluice_reconcile::BackendError;

/// Most nested chains: `NFT_JUMP_STACK_SIZE` of `nf_tables.h` is 16. The kernel refuses loops.
const DEEPEST: usize = 32;

/// What a rule does with the packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The packet goes to the next rule.
    Next,
    /// The chain ends, and the packet returns to the rule after the jump.
    Return,
    /// The packet continues in a chain, and returns to the next rule.
    Jump(String),
    /// The packet continues in a chain, which returns to the caller of this one.
    Goto(String),
    /// The packet has an end.
    End(End),
}

/// How a packet leaves the chains of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It is sent to an endpoint.
    Translated(SocketAddr),
    /// It is dropped.
    Drop,
    /// It is refused.
    Reject,
    /// A rule accepts it as it is.
    Accept,
    /// No rule decides.
    Past,
}

/// Rules that can be read chain by chain.
pub trait Chains {
    /// How many rules a chain has; 0 for one that does not exist.
    ///
    /// # Errors
    ///
    /// The kernel cannot be asked.
    fn rules(&mut self, chain: &str) -> Result<usize, BackendError>;

    /// Every step that a rule may take with the packet: several after a random choice.
    ///
    /// # Errors
    ///
    /// The kernel cannot be asked.
    fn steps(&mut self, chain: &str, rule: usize) -> Result<BTreeSet<Step>, BackendError>;
}

/// A packet on its way through chains. No rule that decides looks at the packet's mark, so a chain does
/// the same each time and is read once.
pub struct Walk<C> {
    /// The rules.
    pub chains: C,
    known: BTreeMap<String, BTreeSet<End>>,
}

impl<C: Chains> Walk<C> {
    /// Begins a walk.
    pub fn new(chains: C) -> Self {
        Self {
            chains,
            known: BTreeMap::new(),
        }
    }

    /// How the packet may leave a chain.
    ///
    /// # Errors
    ///
    /// The kernel cannot be asked.
    pub fn chain(&mut self, chain: &str) -> Result<BTreeSet<End>, BackendError> {
        self.nested(chain, 0)
    }

    fn nested(&mut self, chain: &str, depth: usize) -> Result<BTreeSet<End>, BackendError> {
        if let Some(ends) = self.known.get(chain) {
            return Ok(ends.clone());
        }
        if depth > DEEPEST {
            return Ok([End::Past].into());
        }
        let (mut ends, mut goes_on) = (BTreeSet::new(), true);
        for rule in 0..self.chains.rules(chain)? {
            if !goes_on {
                break;
            }
            goes_on = false;
            for step in self.chains.steps(chain, rule)? {
                match step {
                    Step::Next => goes_on = true,
                    Step::Return => drop(ends.insert(End::Past)),
                    Step::End(end) => drop(ends.insert(end)),
                    Step::Goto(to) => ends.append(&mut self.nested(&to, depth + 1)?),
                    Step::Jump(to) => {
                        let mut inner = self.nested(&to, depth + 1)?;
                        goes_on |= inner.remove(&End::Past);
                        ends.append(&mut inner);
                    }
                }
            }
        }
        if goes_on {
            ends.insert(End::Past);
        }
        self.known.insert(chain.to_owned(), ends.clone());
        Ok(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains by name; each rule is its steps.
    struct Text(BTreeMap<&'static str, Vec<Vec<Step>>>);

    impl Chains for Text {
        fn rules(&mut self, chain: &str) -> Result<usize, BackendError> {
            Ok(self.0.get(chain).map_or(0, Vec::len))
        }

        fn steps(&mut self, chain: &str, rule: usize) -> Result<BTreeSet<Step>, BackendError> {
            Ok(self.0[chain][rule].iter().cloned().collect())
        }
    }

    fn ends(chains: &[(&'static str, Vec<Vec<Step>>)]) -> Vec<End> {
        let mut walk = Walk::new(Text(chains.iter().cloned().collect()));
        walk.chain("base").unwrap().into_iter().collect()
    }

    #[test]
    fn jumps_return_and_gotos_do_not() {
        let jump = |to: &str| vec![Step::Jump(to.into())];
        let goto = |to: &str| vec![Step::Goto(to.into())];
        let (drop, reject) = (vec![Step::End(End::Drop)], vec![Step::End(End::Reject)]);
        let empty = ("empty", Vec::new());
        let returns = ("returns", vec![vec![Step::Return], drop.clone()]);
        assert_eq!(ends(&[("base", Vec::new())]), [End::Past]);
        assert_eq!(
            ends(&[("base", vec![jump("empty"), drop.clone()]), empty.clone()]),
            [End::Drop]
        );
        assert_eq!(
            ends(&[("base", vec![goto("empty"), drop.clone()]), empty]),
            [End::Past]
        );
        assert_eq!(
            ends(&[("base", vec![jump("returns"), reject]), returns]),
            [End::Reject]
        );
        // A chain that is not there, and a loop, which no kernel has.
        assert_eq!(ends(&[("base", vec![jump("none"), drop])]), [End::Drop]);
        assert_eq!(ends(&[("base", vec![jump("base")])]), [End::Past]);
    }

    #[test]
    fn a_random_choice_has_every_end() {
        let to = |port: u16| End::Translated(([10, 0, 0, 1], port).into());
        let maybe = |end| vec![Step::Next, Step::End(end)];
        let rules = vec![maybe(to(1)), maybe(to(2)), vec![Step::End(to(3))]];
        assert_eq!(ends(&[("base", rules)]), [to(1), to(2), to(3)]);
        assert_eq!(
            ends(&[("base", vec![maybe(to(1))])]),
            [to(1), End::Past],
            "an endpoint is missing"
        );
    }
}
