//! The labels of endpoints of a service port with session affinity, and the blocks that they are in.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_model::IpFamily;
use sluice_nft::{Expr, Reader};
use sluice_plan::PortPlan;

use crate::name::{AffinityChain, netlink};
use crate::object::{Key, Object, Rules};

/// Endpoints of a block, about.
const BLOCK: usize = 32;

/// The labels by which a service port's set of clients names its endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    of: BTreeMap<SocketAddr, u32>,
    /// The next endpoint gets this one.
    next: u32,
}

impl Labels {
    /// Labels for the endpoints of a port: an endpoint that stays keeps its label, and a new endpoint joins the block
    /// of an endpoint that left, so that only one block changes.
    pub(crate) fn assign(port: &PortPlan, previous: &Self) -> Self {
        let endpoints = port.reachable();
        let is_here = |addr: &SocketAddr| {
            let found = endpoints.binary_search_by_key(addr, |it| it.addr);
            found.is_ok()
        };
        let blocks = u32::try_from(block_count(endpoints.len())).expect("slices are bounded");
        let left = previous.of.iter().filter(|(addr, _)| !is_here(addr));
        let mut left = left.map(|(_, label)| label % blocks);
        let mut next = previous.next;
        let mut label = |addr: &SocketAddr| {
            previous.of.get(addr).copied().unwrap_or_else(|| {
                let block = left.next().unwrap_or(next % blocks);
                let fresh = next.wrapping_add((block + blocks - next % blocks) % blocks);
                next = fresh.wrapping_add(1);
                fresh
            })
        };
        let all = endpoints.iter();
        let of = all.map(|it| (it.addr, label(&it.addr))).collect();
        Self { of, next }
    }

    /// Reads the labels of a port back from the rules of its chains.
    pub(crate) fn recover(port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Self {
        let (name, family) = (&port.key.name, port.key.family);
        // The pool may have been larger.
        let blocks = 0..4 * block_count(port.reachable().len());
        let chains = [AffinityChain::Cluster, AffinityChain::Local];
        let chains = chains.into_iter().flat_map(|chain| {
            let blocks = blocks.clone().map(move |it| chain.known(name, it));
            blocks.chain([chain.of(name)])
        });
        let mut of = BTreeMap::new();
        for chain in chains {
            if let Some(Object::Chain(chain)) = observed.get(&Key::Chain(family, chain))
                && let Rules::Observed(rules) = &chain.rules
            {
                of.extend(rules.iter().filter_map(|it| labelled(family, it)));
            }
        }
        let next = of.values().max().map_or(0, |it: &u32| it.wrapping_add(1));
        Self { of, next }
    }

    /// The label of an endpoint of the plan.
    pub(crate) fn get(&self, addr: SocketAddr) -> u32 {
        let label = self.of.get(&addr).copied();
        label.expect("every endpoint of the plan was given a label when it was placed")
    }
}

/// The endpoint and label of a rule that the kernel shows.
fn labelled(family: IpFamily, rule: &[Expr]) -> Option<(SocketAddr, u32)> {
    let label = rule.iter().find_map(|it| match it {
        Expr::Numgen {
            modulus: 1, offset, ..
        } => Some(*offset),
        _ => None,
    })?;
    let mut constants = rule.iter().filter_map(|it| match it {
        Expr::ImmediateData { data, .. } => Some(data),
        _ => None,
    });
    let addr = Reader(constants.next()?).address(netlink(family))?;
    let port = constants.next()?.first_chunk().copied()?;
    Some((SocketAddr::new(addr, u16::from_be_bytes(port)), label))
}

/// How many blocks a pool of this size has: a power of two, so that few sizes change it.
pub(crate) fn block_count(endpoints: usize) -> usize {
    endpoints.div_ceil(BLOCK).next_power_of_two()
}
