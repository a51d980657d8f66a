//! Real packets while a first sync writes a large ruleset into an empty kernel.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#[expect(dead_code, unused_macros, reason = "shared with the other tests")]
mod common;

use std::time::Duration;

use sluice_lab::{Cluster, Hammer, Outcome, Probe, Protocol, Server, eventually, require_netns};
use sluice_plan::testing::{endpoints, service};
use sluice_scenarios::Drive as _;
use sluice_xtables::programs::Variant;

/// Each has a chain of its own and one for its endpoint, and a step of the nft variant has 500.
const SERVICES: u32 = 1_000;

/// A Service with endpoints may not answer before its rules are there, and refuses nobody.
fn nobody_is_refused(variant: Variant) {
    let cluster = Cluster::builder().node("node-a");
    let cluster = cluster.pod("client", "node-a").pod("web", "node-a");
    let cluster = cluster.build().unwrap();
    let web = cluster.pod("web");
    let _server = Server::start(web.netns(), "web", 8080, Protocol::Tcp).unwrap();
    let node = cluster.node("node-a").netns();
    let probe = Probe::tcp("10.96.0.1:80".parse().unwrap()).timeout(Duration::from_millis(100));
    let clients = [cluster.pod("client").netns(), node];
    let hammers = clients.map(|it| Hammer::start(it, probe).unwrap());
    let more = |hammer: &Hammer| {
        let until = hammer.attempts() + 3;
        let reached = || (hammer.attempts() >= until).then_some(());
        eventually(Duration::from_secs(60), reached).unwrap();
    };
    hammers.iter().for_each(more);
    node.run(|| {
        let mut proxy = common::node(variant);
        for number in 1..=SERVICES {
            let (high, low) = (number / 250, number % 250);
            let name = format!("default/s{number}");
            proxy.tell(vec![service(&format!("{name} 10.96.{high}.{low} :80"))]);
            proxy.tell(endpoints(&name, &format!("{}:8080@", web.ipv4())));
        }
        assert!(proxy.synced().added > 2 * SERVICES as usize);
    });
    hammers.iter().for_each(more);
    for hammer in hammers {
        let report = hammer.stop();
        let is_silence = |outcome: &Outcome| *outcome == Outcome::TimedOut;
        assert!(
            !report.failures.is_empty(),
            "it began before the sync: {report}"
        );
        assert!(
            report.failures.iter().all(|(_, it)| is_silence(it)),
            "{report}"
        );
        assert!(
            report.attempts > report.failures.len() as u64,
            "it answers at last: {report}"
        );
    }
}

#[test]
fn nobody_is_refused_nft() {
    require_netns!();
    nobody_is_refused(Variant::Nft);
}

#[test]
fn nobody_is_refused_legacy() {
    require_netns!();
    nobody_is_refused(Variant::Legacy);
}
