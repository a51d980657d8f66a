//! A set that takes few members gives way to a larger one.

use sluice_netlink::ipset::{Change, Set, Sets};
use sluice_reconcile::BackendError;
use tracing::warn;

use crate::kernel;

/// What the larger set is called until both change names, and the smaller one after that.
pub(crate) const SPARE: &str = "SLUICE-SPARE";

/// Puts a set like `wanted` in the place of a smaller one. Whoever looks a member up, as the rules
/// that mention the set, finds it at any moment. One that cannot be replaced goes on as it is.
pub(crate) fn grow(sets: &mut Sets, name: &str, wanted: &Set) {
    if let Err(error) = replace(sets, name, wanted) {
        let reason = error.to_string();
        warn!(
            ipset = name,
            reason, "this set takes few members and no larger one can be put in its place"
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

/// Also the one that a process left which ended half-way.
pub(crate) fn destroy_spare(sets: &mut Sets) {
    if let Err(error) = sets.destroy(SPARE) {
        let reason = error.to_string();
        warn!(ipset = SPARE, reason, "this set is of no use and stays");
    }
}

/// Gives the spare set all members of another.
fn fill(sets: &mut Sets, name: &str) -> Result<(), BackendError> {
    let members = kernel::again(|| sets.members(name))?;
    let members: Vec<Change> = members.into_iter().map(Change::Add).collect();
    let refused = sets.apply(SPARE, &members).map_err(kernel::asked)?;
    match refused.into_iter().next() {
        None => Ok(()),
        Some(failure) => Err(kernel::asked(failure.error)),
    }
}
