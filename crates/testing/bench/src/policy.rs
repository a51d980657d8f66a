//! Network policies: the first rules, a pod's label, one more policy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_lab::Netns;
use sluice_model::{
    Change, ContainerPorts, Labels, Namespace, NamespacedName, Pod, PodDns, Selector,
};
use sluice_policy_nftables::PolicyTables;
use sluice_policy_plan::{
    Action, Event, Mode, NetworkPolicy, Peer, Planner, PodSelection, Port, PortNumber, Rule,
};
use sluice_reconcile::Reconciler;

use super::measure::{Samples, count, millis};

const NAMESPACES: u32 = 100;
const PODS: u32 = 10_000;
/// Pods of one namespace with the same labels.
const ALIKE: u32 = 10;
const ROUNDS: u32 = 500;

/// A node with one pod of each namespace, in a cluster of [`PODS`].
struct Node {
    planner: Planner,
    tables: Reconciler<PolicyTables>,
}

impl Node {
    fn absorb(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|it| self.planner.absorb(&it));
    }

    fn write(&mut self) -> anyhow::Result<usize> {
        let changed = self.planner.take_changed();
        let report = self
            .tables
            .sync(&(), self.planner.plan(), &changed, usize::MAX)?;
        Ok(report.added + report.replaced + report.deleted)
    }

    /// How long each of these changes takes from event to acknowledgement.
    fn each(&mut self, change: impl Fn(u32) -> Event) -> anyhow::Result<Samples> {
        let mut samples = Samples::default();
        for round in 0..ROUNDS {
            let event = change(round);
            let started = Instant::now();
            self.absorb([event]);
            self.write()?;
            samples.push(started.elapsed());
        }
        Ok(samples)
    }
}

/// Prints a table: one row for each number of policies.
pub(super) fn run() -> anyhow::Result<()> {
    println!(
        "Network policies: {} pods in {NAMESPACES} namespaces, one of each on this node.\n",
        count(PODS)
    );
    println!("| policies | first rules | objects | a label p50, p99 | a policy p50, p99 |");
    println!("| --- | --- | --- | --- | --- |");
    for policies in [100, 1_000, 10_000] {
        let netns = Netns::new("bench").context("make a namespace")?;
        let row = netns.run(|| measure(policies))?;
        println!("{row}");
    }
    println!("\nAll in ms: from the event to the kernel's acknowledgement.\n");
    Ok(())
}

fn measure(policies: u32) -> anyhow::Result<String> {
    let mut node = Node {
        planner: Planner::new("node-0".into()),
        tables: Reconciler::new(PolicyTables::connect()?),
    };
    node.absorb((0..NAMESPACES).map(namespace));
    node.absorb((0..PODS).map(|it| pod(it, it / NAMESPACES % ALIKE)));
    node.absorb((0..policies).map(policy));
    let started = Instant::now();
    let objects = node.write()?;
    let first = started.elapsed();
    let mut labels = node.each(|round| {
        let index = round.wrapping_mul(7919) % PODS;
        pod(index, (round + index) % ALIKE)
    })?;
    let mut added = node.each(|round| policy(policies + round))?;
    let two = |it: &mut Samples| {
        let both: [Duration; 2] = [50, 99].map(|percent| it.percentile(percent));
        both.map(millis).join(", ")
    };
    Ok(format!(
        "| {} | {} | {} | {} | {} |",
        count(policies),
        millis(first),
        count(u32::try_from(objects)?),
        two(&mut labels),
        two(&mut added)
    ))
}

fn namespace(index: u32) -> Event {
    let name: Arc<str> = format!("ns-{index}").into();
    let team = (Arc::from("team"), Arc::from(format!("{}", index % 10)));
    let labels = Labels::from_iter([team]);
    Event::Namespace(Change::Set(Arc::new(Namespace { name, labels })))
}

/// The first pods, one of each namespace, are on this node.
fn pod(index: u32, app: u32) -> Event {
    let [_, a, b, c] = index.to_be_bytes();
    let labels = Labels::from_iter([(Arc::from("app"), Arc::from(format!("app-{app}")))]);
    let node = format!("node-{}", index / NAMESPACES);
    Event::Pod(Change::Set(Arc::new(Pod {
        name: NamespacedName::new(format!("ns-{}", index % NAMESPACES), format!("pod-{index}")),
        labels,
        ports: ContainerPorts::default(),
        node: Some(node.into()),
        addresses: vec![[10, a, b, c].into()],
        is_terminating: false,
        host_network: false,
        dns: PodDns::default(),
    })))
}

/// Pods of one app may be reached by those of another in the same namespace, and by the namespaces of a team.
fn policy(index: u32) -> Event {
    let selector = |text: String| Selector::parse(&text).expect("a selector");
    let namespace: Arc<str> = format!("ns-{}", index % NAMESPACES).into();
    let app = index / NAMESPACES;
    let near = selector(format!("app=app-{}", (app + 1) % ALIKE));
    let team = selector(format!("team={}", index % 10));
    let far = PodSelection {
        namespaces: sluice_policy_plan::Namespaces::Selected(team),
        pods: Selector::default(),
    };
    let rule = Rule {
        action: Action::Accept,
        peers: Some(vec![
            Peer::Pods(PodSelection::in_namespace(&namespace, near)),
            Peer::Pods(far),
        ]),
        ports: Some(vec![Port {
            protocol: sluice_model::Protocol::Tcp,
            number: PortNumber::Range(8080, 8080),
        }]),
    };
    Event::NetworkPolicy(Change::Set(Arc::new(NetworkPolicy {
        name: NamespacedName::new(namespace, format!("policy-{index}")),
        pods: selector(format!("app=app-{}", app % ALIKE)),
        ingress: Some(vec![rule]),
        egress: None,
        mode: Mode::Enforce,
        connections: None,
        version: None,
    })))
}
