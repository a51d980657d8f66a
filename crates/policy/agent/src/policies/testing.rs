//! Policies without a kernel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_nft::testing::Fake;
use sluice_node::{Consumer as _, Health, NodeObject};
use sluice_policy_nftables::PolicyTables;
use sluice_policy_plan::Planner;
use sluice_policy_plan::testing::{NODE, World, events};

use super::Policies;
use crate::event::PolicyEvent;

/// Those of an agent that knows nothing yet, and its health.
pub(crate) fn policies() -> (Policies<Fake>, Arc<Health>) {
    let health = Arc::new(Health::new(
        NodeObject::Optional,
        jiff::Timestamp::UNIX_EPOCH,
    ));
    let clock = health.clock(Duration::from_secs(60), Instant::now());
    let planner = Planner::new(NODE.into());
    let tables = PolicyTables::on(Fake::new());
    (Policies::new(planner, tables, clock), health)
}

/// Those that know these objects and have written nothing.
pub(crate) fn policies_of(world: &World) -> Policies<Fake> {
    let (mut policies, _) = policies();
    let objects = events(world).into_iter().map(PolicyEvent::Object);
    policies.absorb(objects.chain([PolicyEvent::Synced]).collect());
    policies
}
