//! Ends all old pods before the first new one starts (`pkg/controller/deployment/recreate.go`).

use super::super::plan::Plan;
use super::sets::Sets;
use super::status::Progress;
use super::{Rollout, rolling};

/// Plans one step.
pub(super) fn roll(rollout: &Rollout<'_>, sets: &mut Sets<'_>, plan: &mut Plan) -> Progress {
    let mut is_scaled = false;
    for set in &mut sets.old {
        if set.wanted() > 0 {
            is_scaled |= set.resize(rollout, 0, plan);
        }
    }
    // A terminating pod may still serve, and this strategy must prevent that two versions do.
    if is_scaled || sets.old.iter().any(|it| it.running > 0) {
        return Progress::Judged;
    }
    match sets.newest {
        None => rolling::create(rollout, sets, plan),
        Some(_) => {
            rolling::resize_newest(rollout, sets, plan);
        }
    }
    Progress::Judged
}
