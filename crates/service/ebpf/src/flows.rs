//! Connections from the agent's side: which end, which are listed and deleted, which are netfilter's.

mod expiry;
mod import;
mod pace;
mod sweep;
mod table;
#[cfg(test)]
mod testing;

use sluice_bpf_abi::{Flow, Tuple};

pub use expiry::Timeouts;
pub(crate) use import::{forget_netfilters, import};
pub(crate) use sweep::{Sweeper, sweep};
pub(crate) use table::ProgramFlows;

/// The addresses of an entry's packets after translation.
fn rewritten(key: &Tuple, flow: &Flow) -> Tuple {
    let mut tuple = *key;
    flow.rewrite(&mut tuple);
    tuple.protocol &= Tuple::PROTOCOL;
    tuple
}

/// The keys of all entries of a connection, from its request's. `forwarded` finds what is forwarded.
fn keys(
    key: &Tuple,
    request: &Flow,
    forwarded: impl FnOnce(&Tuple) -> Option<Flow>,
) -> impl Iterator<Item = Tuple> {
    let forward = rewritten(key, request);
    let reply = forward.reversed();
    let back = forwarded(&forward).map(|it| rewritten(&forward, &it).reversed());
    let back = back.filter(|it| *it != reply);
    [*key, forward, reply].into_iter().chain(back)
}
