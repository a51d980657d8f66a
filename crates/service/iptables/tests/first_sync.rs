//! Real packets while a first sync writes a large ruleset into an empty kernel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sluice_lab::{Cluster, Outcome, Probe, Protocol, Server, eventually, require_netns};
use sluice_plan::testing::{endpoints, service};
use sluice_scenarios::Drive as _;
use sluice_xtables::programs::Variant;

/// Each has a chain of its own and one for its endpoint, and a step of the nft variant has 500.
const SERVICES: u32 = 1_000;

const WITHIN: Duration = Duration::from_secs(60);

/// Attempts that a client makes before the sync, and answers with which it ends: many more would use
/// the ports of unanswered attempts again, whose flows are not translated (conntrack keeps them for
/// `nf_conntrack_tcp_timeout_syn_sent`, 120 s).
const ATTEMPTS: usize = 3;

/// A Service with endpoints may not answer before its rules are there, and refuses nobody.
fn nobody_is_refused(variant: Variant) {
    let cluster = Cluster::builder().node("node-a");
    let cluster = cluster.pod("client", "node-a").pod("web", "node-a");
    let cluster = cluster.build().unwrap();
    let web = cluster.pod("web");
    let _server = Server::start(web.netns(), "web", 8080, Protocol::Tcp).unwrap();
    let node = cluster.node("node-a").netns();
    let clients = [cluster.pod("client").netns(), node];
    let begun = AtomicUsize::new(0);
    let outcomes = thread::scope(|scope| {
        let clients = clients.map(|it| scope.spawn(|| it.run(|| ask_until_answered(&begun))));
        let all_ask = || (begun.load(Ordering::Relaxed) == clients.len()).then_some(());
        eventually(WITHIN, all_ask).unwrap();
        node.run(|| sync(variant, &web.ipv4().to_string()));
        clients.map(|it| it.join().unwrap())
    });
    for outcomes in outcomes {
        let refused = |it: &&Outcome| it.name().is_none() && **it != Outcome::TimedOut;
        assert_eq!(outcomes.iter().find(refused), None, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter_map(Outcome::name).count(), ATTEMPTS);
    }
}

/// The outcomes of one client's attempts, one after the other. `begun` counts clients that have made
/// some.
fn ask_until_answered(begun: &AtomicUsize) -> Vec<Outcome> {
    let probe = Probe::tcp("10.96.0.1:80".parse().unwrap()).timeout(Duration::from_millis(100));
    let mut outcomes = Vec::new();
    let done = eventually(WITHIN, || {
        outcomes.push(probe.ask());
        if outcomes.len() == ATTEMPTS {
            begun.fetch_add(1, Ordering::Relaxed);
        }
        (outcomes.iter().filter_map(Outcome::name).count() == ATTEMPTS).then_some(())
    });
    assert!(done.is_some(), "no answer: {:?}", outcomes.last());
    outcomes
}

/// A first sync with many Services.
fn sync(variant: Variant, web: &str) {
    let mut proxy = crate::common::node(variant);
    for number in 1..=SERVICES {
        let (high, low) = (number / 250, number % 250);
        let name = format!("default/s{number}");
        proxy.tell(vec![service(&format!("{name} 10.96.{high}.{low} :80"))]);
        proxy.tell(endpoints(&name, &format!("{web}:8080@")));
    }
    assert!(proxy.synced().added > 2 * SERVICES as usize);
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
