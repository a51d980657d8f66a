//! One tenant's huge objects, written while the endpoint of another's Service changes.
//!
//! The same loop as in the agent: events are taken in between two parts of what has to be written.

mod attacks;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sluice_lab::Netns;
use sluice_nftables::Nftables;
use sluice_plan::Event;
use sluice_plane::ServiceBackend;
use sluice_xtables::programs::Variant;

use super::changes::Node;
use super::iptables;
use super::measure::{Samples, measure_all, millis, seconds};
use super::synthetic::{self, ENDPOINTS};
use attacks::Attack;

/// Services beside that of the attack; the first is the victim.
const OTHERS: u32 = 10;
/// Replaced endpoints of the attacker.
const REPLACED: u32 = 5;

/// Prints one line for each attack.
pub(super) fn run() -> anyhow::Result<()> {
    println!(
        "The attack beside {OTHERS} Services of others. The victim's endpoint changes at the \
         beginning of each part that is written of the attack, which is the worst moment:\n"
    );
    println!(
        "| mode | attack | written in s | parts | the victim's change, ms (p50 / max) | a replaced \
         endpoint of the attacker, ms (p50 / max) | first sync with the attack, s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for attack in Attack::all() {
        measure("nftables", &attack, || Ok(Nftables::connect()?))?;
    }
    let scratch = tempfile::tempdir().context("create a folder")?;
    let lock = scratch.path().join("xtables.lock");
    for attack in Attack::for_iptables() {
        measure("iptables", &attack, || iptables::open(Variant::Nft, &lock))?;
    }
    println!();
    Ok(())
}

fn measure<P: ServiceBackend>(
    mode: &str,
    attack: &Attack,
    open: impl Fn() -> anyhow::Result<P> + Send + Sync,
) -> anyhow::Result<()> {
    let name = attack.name;
    let mut beside = Netns::new("bench")?.run(|| beside_others(attack, open()?))?;
    let first = Netns::new("bench")?.run(|| {
        let mut events = synthetic::cluster(OTHERS);
        events.extend(attack.events());
        let mut node = Node::new(open()?);
        let (synced, cost) = measure_all(|| node.first_sync(events));
        synced.map(|_| cost)
    });
    let (victim, replaced) = (worst(&mut beside.victim), worst(&mut beside.replaced));
    println!(
        "| {mode} | {name} | {} | {} | {victim} | {replaced} | {} |",
        seconds(beside.written),
        beside.parts,
        seconds(first.with_context(|| format!("{mode}, {name}"))?.wall),
    );
    Ok(())
}

/// p50 and maximum, in ms.
fn worst(samples: &mut Samples) -> String {
    let [p50, max] = [50, 100].map(|it| millis(samples.percentile(it)));
    format!("{p50} / {max}")
}

struct Beside {
    /// From the attack's events until all of it is written.
    written: Duration,
    parts: u32,
    victim: Samples,
    replaced: Samples,
}

fn beside_others<P: ServiceBackend>(attack: &Attack, plane: P) -> anyhow::Result<Beside> {
    let mut node = Node::new(plane);
    node.first_sync(synthetic::cluster(OTHERS))?;
    let victim_name = synthetic::service_object(0).name;
    let mut victim = Samples::default();
    let mut parts = 0;
    let started = Instant::now();
    attack.events().for_each(|it| node.0.absorb(it));
    // Each change comes when a part has begun, and is taken in after that part.
    let mut since = step(&mut node)?;
    loop {
        parts += 1;
        let goes_on = is_busy(&node);
        node.0.absorb(victim_event(parts));
        let next = step(&mut node)?;
        while node.0.planner().unplanned().any(|it| *it == victim_name)
            || node.0.waiting().any(|it| it.name.service == victim_name)
        {
            parts += 1;
            step(&mut node)?;
        }
        victim.push(since.elapsed());
        since = next;
        if !goes_on {
            break;
        }
    }
    // The last part is the victim's alone.
    let written = started.elapsed();
    let mut replaced = Samples::default();
    for round in 0..REPLACED {
        let events = attack.replaced(round);
        let (result, cost) = measure_all(|| {
            events.into_iter().for_each(|it| node.0.absorb(it));
            while is_busy(&node) {
                step(&mut node)?;
            }
            anyhow::Ok(())
        });
        result?;
        replaced.push(cost.wall);
    }
    Ok(Beside {
        written,
        parts,
        victim,
        replaced,
    })
}

/// The victim's slice with another first endpoint each time.
fn victim_event(round: u32) -> Event {
    let mut addresses = synthetic::addresses(0, ENDPOINTS);
    addresses[0] = synthetic::endpoint(0, ENDPOINTS + round % 4);
    synthetic::slice(0, &addresses)
}

/// Plans and writes one part; when it began.
fn step<P: ServiceBackend>(node: &mut Node<P>) -> anyhow::Result<Instant> {
    let began = Instant::now();
    node.0.replan();
    node.0.sync()?;
    let refusals = node.0.reconciler().refusals();
    ensure!(refusals.is_empty(), "refused: {refusals:?}");
    Ok(began)
}

fn is_busy<P: ServiceBackend>(node: &Node<P>) -> bool {
    node.0.is_any_left()
}
