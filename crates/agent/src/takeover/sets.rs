//! The ipsets that rules of kube-proxy's ipvs mode mention, and of ours.

use std::collections::BTreeSet;
use std::path::Path;

use sluice_netlink::RequestError;
use sluice_netlink::ipset::Sets;

use super::{Removal, TakeoverError, names};

/// There when the kernel has ipset; to ask the kernel itself would load it.
const MODULE: &str = "/sys/module/ip_set";

/// kube-proxy's ipsets; `None` when the kernel has no ipset.
pub(super) fn open() -> Result<Option<(Sets, BTreeSet<String>)>, TakeoverError> {
    if !Path::new(MODULE).exists() {
        return Ok(None);
    }
    let mut sets = Sets::open().map_err(TakeoverError::Connect)?;
    let mut all = sets.names().map_err(TakeoverError::Request)?;
    all.retain(|it| names::is_set(it));
    Ok(Some((sets, all)))
}

/// Removes the ipsets. One that a rule of somebody else mentions stays.
pub(super) fn remove(removal: &mut Removal) {
    let result = open();
    let Some((mut sets, names)) = removal.keep(result) else {
        return;
    };
    let mut count = 0;
    for name in &names {
        match sets.destroy(name) {
            Ok(()) => count += 1,
            Err(RequestError::Refused { .. }) => {
                let note = format!("ipset {name} of kube-proxy stays: a rule mentions it");
                removal.notes.push(note);
            }
            Err(error) => removal.errors.push(TakeoverError::Request(error)),
        }
    }
    if count > 0 {
        removal.removed.push(format!("{count} ipsets"));
    }
}
