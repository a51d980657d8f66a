//! Replaces a set that takes few members, as kube-proxy creates them, by a larger one.

use sluice_netlink::ipset::{Change, Set, Sets};
use sluice_reconcile::BackendError;
use tracing::warn;

use crate::kernel;

/// The name of the larger set before the two are swapped, and of the smaller one afterwards.
pub(crate) const SPARE: &str = "SLUICE-SPARE";

/// Swaps a set with one like `wanted`. Rules that mention the set find every member at any moment. A set
/// that cannot be replaced stays.
pub(crate) fn grow(sets: &mut Sets, name: &str, wanted: &Set) {
    if let Err(error) = replace(sets, name, wanted) {
        let reason = error.to_string();
        warn!(
            ipset = name,
            reason, "this set takes few members and cannot be replaced by a larger one"
        );
    }
}

fn replace(sets: &mut Sets, name: &str, wanted: &Set) -> Result<(), BackendError> {
    sets.create(SPARE, wanted).map_err(kernel::asked)?;
    let filled = fill(sets, name);
    let replaced = filled.and_then(|()| sets.swap(name, SPARE).map_err(kernel::asked));
    destroy_spare(sets);
    replaced
}

/// Destroys the smaller set, or one of a process that was killed.
pub(crate) fn destroy_spare(sets: &mut Sets) {
    if let Err(error) = sets.destroy(SPARE) {
        let reason = error.to_string();
        warn!(
            ipset = SPARE,
            reason, "this set is not used and cannot be destroyed"
        );
    }
}

/// Gives the spare set all members of another.
fn fill(sets: &mut Sets, name: &str) -> Result<(), BackendError> {
    let members = kernel::again(|| sets.members(name))?;
    let members: Vec<Change> = members.into_iter().map(Change::Add).collect();
    let refused = sets.apply(SPARE, &members).map_err(kernel::asked)?;
    kernel::all_taken(refused)
}
