use std::sync::Arc;

use sluice_nft::testing::Fake;
use sluice_node::{Health, NodeObject, Probe};
use sluice_policy_plan::testing::{NODE, events, parse};

use super::*;

fn policies() -> (Policies<Fake>, Arc<Health>) {
    let health = Arc::new(Health::new(
        NodeObject::Optional,
        jiff::Timestamp::UNIX_EPOCH,
    ));
    let clock = health.clock(Duration::from_secs(60), Instant::now());
    let planner = Planner::new(NODE.into());
    (
        Policies::new(planner, PolicyTables::on(Fake::new()), clock),
        health,
    )
}

fn objects(text: &str) -> Vec<PolicyEvent> {
    events(&parse(text))
        .into_iter()
        .map(PolicyEvent::Object)
        .collect()
}

/// A rule that allows may come with a later object: half of the objects would cut what is allowed.
#[test]
fn nothing_is_written_before_everything_is_known() {
    let (mut policies, health) = policies();
    let now = Instant::now();
    policies.absorb(objects("pod a/web n1 10.0.0.1 app=web\n np a/deny ingress"));
    policies.step(now);
    assert!(policies.due(now).is_none());
    assert!(
        !health
            .report(Probe::Readyz, now, jiff::Timestamp::UNIX_EPOCH)
            .healthy
    );
    policies.absorb(vec![PolicyEvent::Synced]);
    policies.step(Instant::now());
    assert!(
        health
            .report(Probe::Readyz, now, jiff::Timestamp::UNIX_EPOCH)
            .healthy
    );
    let status = format!("{:?}", policies.status());
    assert!(status.contains(r#"\"isolated\":1"#), "{status}");
}

/// Somebody else's table of our name stops the policies, which say so and try again.
#[test]
fn what_cannot_be_written_is_tried_again() {
    let mut kernel = Fake::new();
    let scope = sluice_nft::Scope {
        family: sluice_nft::Family::Ipv6,
        table: sluice_policy_nftables::TABLE,
    };
    let mut batch = sluice_nft::Batch::new();
    batch.add_table(0, scope, Some("theirs"), sluice_nft::Create::New);
    kernel.commit(&batch).expect("a table is added");
    let (ours, health) = policies();
    let mut policies = Policies::new(ours.planner, PolicyTables::on(kernel), ours.clock);
    policies.absorb(vec![PolicyEvent::Synced]);
    let now = Instant::now();
    policies.step(now);
    assert!(
        policies.error.contains("table ip6 sluice-policy"),
        "{}",
        policies.error
    );
    assert_eq!(policies.due(now), Some(now + Backoff::FIRST));
    assert!(
        !health
            .report(Probe::Readyz, now, jiff::Timestamp::UNIX_EPOCH)
            .healthy
    );
    // News do not hasten it.
    policies.absorb(objects("pod a/web n1 10.0.0.1 app=web"));
    assert_eq!(policies.due(now), Some(now + Backoff::FIRST));
}

/// Other tables change at any time, those of Services too: to look after each write would read everything each time.
#[test]
fn foreign_changes_are_looked_for_now_and_then() {
    let (mut policies, _) = policies();
    policies.absorb(vec![PolicyEvent::Synced]);
    let start = Instant::now();
    policies.step(start);
    assert_eq!(policies.due(start), Some(start + LOOK));
    policies.absorb(objects("pod a/web n1 10.0.0.1 app=web"));
    let now = Instant::now();
    policies.step(now);
    // The write did not put it off.
    assert_eq!(policies.due(now), Some(start + LOOK));
    policies.step(start + LOOK);
    assert_eq!(policies.due(now), Some(start + LOOK + LOOK));
}
