//! Slots: the numbers by which a data plane's maps name the endpoints of a pool.

use std::net::SocketAddr;

use sluice_plan::Pool;

/// The index in the pool of the endpoint in each slot, so that few slots change: an endpoint that stays keeps its
/// slot, new endpoints take the slots of those that left, and endpoints beyond the new end move into the gaps.
/// `old` are the present addresses by slot.
///
/// # Panics
///
/// The pool has 2^32 endpoints; slices are bounded.
pub fn assign(pool: Option<&Pool>, old: &[SocketAddr]) -> Box<[u32]> {
    let Some(pool) = pool else {
        return Box::default();
    };
    let endpoints = pool.endpoints();
    let index_of = |addr: &SocketAddr| endpoints.binary_search_by(|it| it.addr.cmp(addr)).ok();
    let mut slots: Vec<Option<usize>> = vec![None; endpoints.len()];
    let mut placed = vec![false; endpoints.len()];
    for (slot, addr) in slots.iter_mut().zip(old) {
        if let Some(index) = index_of(addr)
            && !placed[index]
        {
            placed[index] = true;
            *slot = Some(index);
        }
    }
    // Endpoints without a slot: those beyond the new end, and new endpoints.
    let mut waiting = (0..endpoints.len()).filter(|&index| !placed[index]);
    let filled = slots
        .into_iter()
        .filter_map(|it| it.or_else(|| waiting.next()));
    let filled = filled.map(|it| u32::try_from(it).expect("slices are bounded"));
    filled.collect()
}
