//! A set that takes few members gives way to a larger one.

use sluice_core::backend::BackendError;
use sluice_netlink::ipset::{Change, Set, Sets};
use tracing::warn;

use crate::kernel;

/// What the larger set is called until both change names, and the smaller one after that.
const SPARE: &str = "SLUICE-SPARE";

/// Puts a set like `wanted` in the place of a smaller one. Whoever looks a member up, as the rules
/// that mention the set, finds it at any moment. One that cannot be replaced goes on as it is.
pub(crate) fn grow(sets: &mut Sets, name: &str, wanted: &Set) {
    // A process that ended half-way may have left one.
    let replaced = destroy_spare(sets).and_then(|()| replace(sets, name, wanted));
    if let Err(error) = replaced {
        let reason = error.to_string();
        warn!(
            ipset = name,
            reason, "this set takes few members and no larger one can be put in its place"
        );
    }
    if let Err(error) = destroy_spare(sets) {
        let reason = error.to_string();
        warn!(ipset = SPARE, reason, "this set is of no use and stays");
    }
}

fn replace(sets: &mut Sets, name: &str, wanted: &Set) -> Result<(), BackendError> {
    sets.create(SPARE, wanted).map_err(kernel::asked)?;
    fill(sets, name)?;
    sets.swap(name, SPARE).map_err(kernel::asked)
}

fn destroy_spare(sets: &mut Sets) -> Result<(), BackendError> {
    sets.destroy(SPARE).map_err(kernel::asked)
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
