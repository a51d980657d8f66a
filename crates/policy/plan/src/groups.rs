//! Many NetworkPolicies of one pod, in groups: one more of them changes a group and not all that name the others.

use sluice_model::NamespacedName;

use crate::id::GroupId;
use crate::policy::Direction;

/// Most policies that a profile names one by one. More are in groups.
const DIRECT: usize = 64;
/// A group ends after about so many policies: after each whose name says so, whatever stands before and behind it.
const USUAL: u32 = 32;
/// The most policies of a group: whoever chooses the names could choose such that no group ends.
const MOST: usize = 128;

/// The groups of a profile's policies, in their order; none for a few policies.
#[must_use]
pub fn groups(
    direction: Direction,
    policies: &[NamespacedName],
) -> Vec<(GroupId, &[NamespacedName])> {
    if policies.len() <= DIRECT {
        return Vec::new();
    }
    let usual = policies.chunk_by(|it, _| !is_last(it));
    let groups = usual.flat_map(|it| it.chunks(MOST));
    groups
        .map(|it| {
            let names: Vec<String> = it.iter().map(ToString::to_string).collect();
            (GroupId::of(direction, &names.join(",")), it)
        })
        .collect()
}

fn is_last(policy: &NamespacedName) -> bool {
    // FNV-1a.
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = policy.name.as_bytes().iter().fold(0x811c_9dc5, step);
    hash.is_multiple_of(USUAL)
}
