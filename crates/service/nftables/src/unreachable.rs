//! Finds elements of endpoint maps that no frontend leads to.
//!
//! No packet finds them. Another program wrote them, or an agent that was killed during its first sync, which writes
//! endpoints before frontends. Only a listing finds them; it runs on a thread of its own, while changes are written.

use std::collections::BTreeSet;
use std::thread::{self, JoinHandle};

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_nft::Kernel;
use sluice_reconcile::BackendError;

use crate::bytes::decode_element;
use crate::name::scope;
use crate::object::{Key, Objects};
use crate::observe;
use crate::set::{ElementKey, KeyKind, SetName, ValueKind};
use crate::{slots, tables};

/// A running search. Its result are the elements that no frontend led to.
pub(crate) type Search = JoinHandle<Result<Vec<Key>, BackendError>>;

/// Listings after which the search ends although transactions interrupted all of them: it would never end on a busy
/// node. An interrupted listing may miss elements, which have no effect.
const LISTINGS: usize = 3;

/// Begins to search these maps.
///
/// # Errors
///
/// No thread could be started.
pub(crate) fn search(
    mut kernel: impl Kernel + Send + 'static,
    maps: Vec<(IpFamily, SetName)>,
) -> Result<Search, BackendError> {
    let run = move || {
        for _ in 0..LISTINGS {
            let mut found = Objects::new();
            let mut is_complete = true;
            for &(family, map) in &maps {
                let listed = list(&mut kernel, family, map, &mut found);
                is_complete &= listed.map_err(|error| tables::failed(family, error))?;
            }
            if is_complete || !found.is_empty() {
                return Ok(found.into_keys().collect());
            }
        }
        Ok(Vec::new())
    };
    let thread = thread::Builder::new().name("listing".into()).spawn(run);
    thread.map_err(|error| BackendError::new("start a thread", error))
}

/// Adds the elements of a map that no frontend leads to; returns whether the listing was complete.
fn list(
    kernel: &mut impl Kernel,
    family: IpFamily,
    map: SetName,
    found: &mut Objects,
) -> Result<bool, RequestError> {
    let mut keys: Vec<ElementKey> = Vec::new();
    let listed = kernel.for_each_element(scope(family), map.as_str(), |it| {
        if let (Key::Element(_, _, key), _) = decode_element(family, map, &it) {
            keys.push(key);
        }
    });
    let is_complete = observe::is_complete(listed)?;
    // Asked for by key, because an interrupted listing may miss frontends. Asked for after the listing, so that new
    // frontends of new elements are found.
    let asked: BTreeSet<ElementKey> = keys.iter().filter_map(slots::frontend_of).collect();
    let kind = match map.key() {
        KeyKind::NodePortSlot => KeyKind::NodePort,
        _ => KeyKind::Frontend,
    };
    let mut frontends = Objects::new();
    let all = SetName::ALL.into_iter();
    for set in all.filter(|it| it.value() == ValueKind::Verdict && it.key() == kind) {
        slots::find(kernel, family, set, &asked, &mut frontends)?;
    }
    let reachable = slots::reachable(&frontends).remove(&map);
    let reachable: BTreeSet<ElementKey> = reachable.into_iter().flatten().collect();
    keys.retain(|key| !reachable.contains(key));
    // Elements that were deleted meanwhile are not found any more.
    slots::find(kernel, family, map, &keys, found)?;
    Ok(is_complete)
}
