use sluice_model::IpFamily;
use sluice_nft::testing::Fake;
use sluice_nft::{Batch, Create, Family, Scope};
use sluice_node::Probe;
use sluice_policy_nftables::Key;
use sluice_policy_plan::testing::{events, parse};

use sluice_reconcile::Backend as _;

use super::testing::policies;
use super::*;

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

/// A ruleset with somebody else's tables of our name.
fn occupied(families: &[Family]) -> Fake {
    let mut kernel = Fake::new();
    let mut batch = Batch::new();
    for &family in families {
        let table = sluice_policy_nftables::TABLE;
        batch.add_table(0, Scope { family, table }, Some("theirs"), Create::New);
    }
    kernel.commit(&batch).expect("tables are added");
    kernel
}

/// Somebody else's tables of our name stop the policies, which say so and try again.
#[test]
fn what_cannot_be_written_is_tried_again() {
    let kernel = occupied(&[Family::Ipv4, Family::Ipv6]);
    let (ours, health) = policies();
    let mut policies = Policies::new(ours.planner, PolicyTables::on(kernel), ours.clock);
    policies.absorb(vec![PolicyEvent::Synced]);
    let now = Instant::now();
    policies.step(now);
    assert!(
        policies.error.contains("table ip sluice-policy"),
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

#[test]
fn a_family_that_cannot_be_written_does_not_stop_the_other() {
    let (ours, _) = policies();
    let kernel = occupied(&[Family::Ipv6]);
    let mut policies = Policies::new(ours.planner, PolicyTables::on(kernel), ours.clock);
    policies.absorb(objects("pod a/web n1 10.0.0.1 app=web\n np a/deny ingress"));
    policies.absorb(vec![PolicyEvent::Synced]);
    policies.step(Instant::now());
    assert!(
        policies.error.contains("use table ip6 sluice-policy"),
        "{}",
        policies.error
    );
    let mut held = policies.tables.backend_mut().observe().expect("it is read");
    held.retain(|key, _| matches!(key, Key::Element(..)));
    let held: Vec<String> = held.keys().map(ToString::to_string).collect();
    assert_eq!(
        held,
        [
            "element ip sluice-policy ingress { 10.0.0.1 }",
            "element ip sluice-policy itself { 10.0.0.1 . 10.0.0.1 }"
        ]
    );
}

/// The first repair is at once; a program that changes the tables again and again waits for the next.
#[test]
fn a_foreign_change_is_repaired_at_once() {
    let (policies, _) = policies();
    let (send, began) = std::sync::mpsc::channel();
    let mut policies = policies.watched(move |generation| send.send(generation).expect("room"));
    policies.absorb(vec![PolicyEvent::Synced]);
    policies.step(Instant::now());
    assert_eq!(began.try_recv(), Ok(1), "the watch begins after a write");
    for is_first in [true, false] {
        let removed = policies.tables.backend_mut().remove();
        assert_eq!(removed.expect("they are there").len(), 2);
        let now = Instant::now();
        policies.kernel_changed("nft".to_owned(), now);
        let due = policies.due(now).expect("there is something to do");
        assert_eq!(due <= now, is_first);
        policies.step(due);
        let held = policies.tables.backend_mut().observe().expect("it is read");
        assert!(held.contains_key(&Key::Table(IpFamily::V4)));
    }
}

/// Other consumers of the thread come between two parts of a large change, and what is heard meanwhile is written after it.
#[test]
fn a_large_change_comes_in_parts() {
    let (mut policies, _) = policies();
    policies.absorb(objects(
        "pod a/web n1 10.0.0.1 app=web\npod b/web n1 10.0.0.2 app=web",
    ));
    policies.absorb(vec![PolicyEvent::Synced]);
    policies.step(Instant::now());
    policies.portion = Portion::new(100, 100, 100, PART_TAKES);
    let large = (0..120).map(|it| format!("np a/p{it} ingress from=/app=p{it}\n"));
    policies.absorb(objects(&large.collect::<String>()));
    let mut steps = 0;
    while policies.unwritten().is_some() {
        let now = Instant::now();
        assert!(policies.due(now).is_some_and(|it| it <= now));
        policies.step(now);
        steps += 1;
        if steps == 2 {
            policies.absorb(objects("np b/deny ingress"));
        }
    }
    assert!(steps > 30, "{steps} steps");
    assert!(policies.state(&NamespacedName::new("b", "deny")).in_force);
    policies.tables.forget();
    let report = policies.write(Instant::now()).expect("it is written");
    assert!(report.full && report.is_empty(), "{report:?}");
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

/// In force is what the kernel has, not what the agent has heard.
#[test]
fn a_policy_is_in_force_when_it_is_written() {
    let (mut policies, _) = policies();
    let [deny, other] = ["deny", "other"].map(|it| NamespacedName::new("a", it));
    policies.absorb(objects(
        "pod a/web n1 10.0.0.1 app=web\n pod a/db n1 10.0.0.2 app=db\n np a/deny ingress pods=app=web",
    ));
    let why = |policies: &Policies<Fake>| policies.state(&deny).why;
    assert_eq!(why(&policies), "the agent does not know all objects yet");
    policies.absorb(vec![PolicyEvent::Synced]);
    assert_eq!(why(&policies), "the rules are being written");
    policies.step(Instant::now());
    let state = policies.state(&deny);
    assert!(state.in_force && state.addresses == 1, "{state:?}");
    let state = policies.state(&other);
    assert!(!state.in_force && state.addresses == 0, "{state:?}");
    // A later change is not there before it is written.
    policies.absorb(objects("np a/other ingress"));
    assert_eq!(policies.state(&other).why, "the rules are being written");
    policies.step(Instant::now());
    let state = policies.state(&other);
    assert!(state.in_force && state.addresses == 2, "{state:?}");
    policies.error = "the kernel refuses".to_owned();
    assert_eq!(why(&policies), "the kernel refuses");
}

#[test]
fn a_cluster_policy_has_a_state_too() {
    let (mut policies, _) = policies();
    policies.absorb(objects(
        "pod a/web n1 10.0.0.1 app=web\n cnp top admin 1 a ingress deny from=10.0.0.0/8",
    ));
    policies.absorb(vec![PolicyEvent::Synced]);
    policies.step(Instant::now());
    let state = policies.state(&NamespacedName::new("", "top"));
    assert!(state.in_force && state.addresses == 1, "{state:?}");
    assert!(!policies.state(&NamespacedName::new("a", "top")).in_force);
}
