//! The content of a small table that is made as a whole.

use crate::batch::{Batch, Create};
use crate::element::{Datum, KeyBytes};
use crate::object::{Chain, ElementRef, KernelRule, Set};
use crate::rule::Rule;
use crate::scope::Scope;

/// The sets and chains of a table.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Sets with the keys of their members.
    pub sets: Vec<(Set, Vec<Vec<Datum>>)>,
    /// Chains with their rules.
    pub chains: Vec<(Chain, Vec<Rule>)>,
}

impl Batch {
    /// Adds these sets and chains to a table that has none of their names yet.
    pub fn add_contents(&mut self, tag: u32, scope: Scope<'_>, contents: &Contents) {
        let mut key = KeyBytes::default();
        for (set, members) in &contents.sets {
            self.add_set(tag, scope, set, Create::New);
            for member in members {
                key.set(member);
                key.write(ElementRef::default(), |it| {
                    self.add_element(tag, scope, &set.name, it, Create::New);
                });
            }
        }
        // Rules may lead to any chain.
        for (chain, _) in &contents.chains {
            self.add_chain(tag, scope, chain, Create::New);
        }
        for (chain, rules) in &contents.chains {
            for rule in rules {
                let rule = KernelRule {
                    chain: chain.name.clone(),
                    exprs: rule.exprs(scope.family),
                    comment: None,
                };
                self.add_rule(tag, scope, &rule);
            }
        }
    }
}
