//! Connections from the agent's side: which end, which are listed and deleted, which are netfilter's.

mod drops;
mod expiry;
mod import;
mod pace;
mod share;
mod sweep;
mod table;
#[cfg(test)]
mod testing;

use sluice_bpf_abi::{Flow, FlowKind, Tuple};

pub use expiry::Timeouts;
pub(crate) use import::{RulesOpen, enter_all, forget_netfilters, import, list, open};
pub(crate) use sweep::{ENTRIES, Sweeper, sweep};
pub(crate) use table::ProgramFlows;

/// The addresses of an entry's packets after translation.
fn rewritten(key: &Tuple, flow: &Flow) -> Tuple {
    let mut tuple = *key;
    flow.rewrite(&mut tuple);
    tuple.protocol &= Tuple::PROTOCOL;
    tuple
}

/// Whether an entry is the one by which a connection is known: of its client's packets as they come.
fn is_first(flow: &Flow) -> bool {
    flow.kind == FlowKind::Request as u8 || flow.kind == FlowKind::Direct as u8
}

/// Whether packets with this key get other addresses or ports by its entry, which is a connection's first.
pub(crate) fn is_translated(key: &Tuple, flow: &Flow) -> bool {
    let plain = Tuple {
        protocol: key.protocol & Tuple::PROTOCOL,
        ..*key
    };
    is_first(flow) && rewritten(key, flow) != plain
}

/// The keys of all entries of a connection, from its first. `forwarded` finds what is forwarded.
fn keys(
    key: &Tuple,
    first: &Flow,
    forwarded: impl FnOnce(&Tuple) -> Option<Flow>,
) -> impl Iterator<Item = Tuple> {
    let forward = rewritten(key, first);
    let reply = forward.reversed();
    let others = if first.kind == FlowKind::Direct as u8 {
        [None, is_translated(key, first).then_some(reply), None]
    } else {
        let back = forwarded(&forward).map(|it| rewritten(&forward, &it).reversed());
        [Some(forward), Some(reply), back.filter(|it| *it != reply)]
    };
    [*key].into_iter().chain(others.into_iter().flatten())
}
