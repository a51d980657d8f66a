//! The iptables data plane, in both variants, and the same rules as kube-proxy writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use sluice_iptables::{Conntrack, Iptables, text};
use sluice_lab::Netns;
use sluice_model::IpFamily;
use sluice_plan::PortKey;
use sluice_plane::{Scale, Scene, ServiceBackend as _};
use sluice_reconcile::Backend as _;
use sluice_xtables::programs::{Lock, Programs, Variant};

use super::changes::{Change, Limit, Node, Series};
use super::measure::{Cost, count, measure_children, seconds};
use super::sync::feed;
use super::synthetic::{self, ENDPOINTS};

/// Most Services for which one `iptables-nft-restore` of all rules takes less than a minute.
const LARGEST_OF_NFT: u32 = 1_000;

/// For each kind of change.
const LIMIT: Limit = Limit {
    rounds: 50,
    time: Duration::from_secs(5),
};

/// Chains that kube-proxy writes in every sync.
const ALWAYS: [&str; 4] = [
    "KUBE-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-MARK-MASQ",
];

/// Prints the tables of a variant.
pub(super) fn run(sizes: &[u32], variant: Variant) -> anyhow::Result<()> {
    println!(
        "iptables, {variant} variant. Full sync of both families; the peer is `iptables-restore \
         --noflush` with the same rules in one input per family, as kube-proxy writes them:\n"
    );
    println!(
        "| services | full sync, wall s | CPU s | resync, CPU s | one input, wall s | CPU s |\n\
         | --- | --- | --- | --- | --- | --- |"
    );
    let mut changes = String::new();
    for &services in sizes {
        let scratch = tempfile::tempdir().context("create a folder")?;
        let netns = Netns::new("bench")?;
        let bench = Bench {
            services,
            variant,
            lock: scratch.path().join("xtables.lock"),
        };
        changes += &netns.run(|| bench.one_size())?;
    }
    println!(
        "\nEvent to kernel acknowledged, p50 / p99 of at most {} rounds or {} s. The peer is the \
         program alone with the input of kube-proxy's partial sync: all of filter, KUBE-SERVICES \
         and KUBE-NODEPORTS, and the chains of the Service. One rule is the least that the \
         program can be asked for in that table; the kernel then walks through it all:\n",
        LIMIT.rounds,
        LIMIT.time.as_secs()
    );
    println!(
        "| services | change | rounds | ms | CPU ms | peer, ms | CPU ms |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n{changes}"
    );
    Ok(())
}

struct Bench {
    services: u32,
    variant: Variant,
    lock: PathBuf,
}

impl Bench {
    /// Prints the full sync, returns the lines of changes.
    fn one_size(&self) -> anyhow::Result<String> {
        let services = self.services;
        let mut node = Node::new(open(self.variant, &self.lock)?);
        let first = node.first_sync(synthetic::cluster(services))?;
        let resync = node.resync()?;
        let peer = self.in_one_input(&node)?;
        let [wall, cpu] = peer.map_or(["too slow".to_owned(), String::new()], |it| {
            [it.wall, it.cpu].map(seconds)
        });
        println!(
            "| {} | {} | {} | {} | {wall} | {cpu} |",
            count(services),
            seconds(first.wall),
            seconds(first.cpu),
            seconds(resync.cpu),
        );
        let mut lines = String::new();
        let mut line = |name: &str, mut ours: Option<Series>, mut peer: Series| {
            let rounds = ours.as_ref().map_or(peer.rounds(), Series::rounds);
            let [wall, cpu] = ours
                .as_mut()
                .map_or(Default::default(), |it| [it.wall(), it.cpu()]);
            let (services, peer_wall, peer_cpu) = (count(services), peer.wall(), peer.cpu());
            lines += &format!(
                "| {services} | {name} | {rounds} | {wall} | {cpu} | {peer_wall} | {peer_cpu} |\n"
            );
        };
        let ours = Change::ALL.map(|it| node.repeat(it, services, LIMIT));
        for (change, ours) in Change::ALL.into_iter().zip(ours) {
            line(
                change.name(),
                Some(ours?),
                self.as_kube_proxy(&mut node, change)?,
            );
        }
        line("one rule", None, self.least()?);
        Ok(lines)
    }

    /// The whole ruleset into an empty namespace; `None` where that takes minutes.
    fn in_one_input(&self, node: &Node<Iptables>) -> anyhow::Result<Option<Cost>> {
        if self.variant == Variant::Nft && self.services > LARGEST_OF_NFT {
            return Ok(None);
        }
        let netns = Netns::new("bench-peer")?;
        let rules = self.rules(node);
        let (loaded, cost) = netns.run(|| {
            // Makes the objects in which rules count packets.
            open(self.variant, &self.lock)?.observe()?;
            let mut rules = rules.iter();
            let load = || rules.try_for_each(|(family, rules)| self.restore(*family, rules));
            anyhow::Ok(measure_children(load))
        })?;
        loaded.map(|()| Some(cost))
    }

    /// The same changes as inputs in kube-proxy's style. After this `node` does not know the kernel's
    /// rules.
    fn as_kube_proxy(&self, node: &mut Node<Iptables>, change: Change) -> anyhow::Result<Series> {
        let mut series = Series::default();
        for round in LIMIT.rounds() {
            // Other Services, and other turns, than in our own rounds.
            let round = round + LIMIT.rounds;
            let changed = node.absorb(change.events(self.services, round));
            let chains = chains(node, &self.scene(node), &changed);
            let rules = self.rules(node);
            let (_, rules) = rules
                .iter()
                .find(|(family, _)| *family == IpFamily::V4)
                .context("no rules for IPv4")?;
            let input = partial(rules, &chains);
            let restore = || self.restore(IpFamily::V4, &input);
            let (written, cost) = measure_children(restore);
            written?;
            series.push(cost);
        }
        Ok(series)
    }

    /// The fastest possible input, one rule: legacy tables are replaced as a whole, and for any new
    /// jump or translation nf_tables validates the whole table (`nft_table_validate`).
    fn least(&self) -> anyhow::Result<Series> {
        let mut series = Series::default();
        for _ in LIMIT.rounds() {
            let input = "*nat\n:BENCH - [0:0]\n-A BENCH -j KUBE-MARK-MASQ\nCOMMIT\n";
            let restore = || self.restore(IpFamily::V4, input);
            let (written, cost) = measure_children(restore);
            written?;
            series.push(cost);
        }
        Ok(series)
    }

    /// In the namespace of the calling thread.
    fn restore(&self, family: IpFamily, input: &str) -> anyhow::Result<()> {
        let program = match family {
            IpFamily::V4 => "iptables",
            IpFamily::V6 => "ip6tables",
        };
        let program = format!("{program}-{}-restore", self.variant);
        let mut command = Command::new(program);
        let command = command.arg("--noflush");
        feed(command.env("XTABLES_LOCKFILE", &self.lock), input)
    }

    fn scene(&self, node: &Node<Iptables>) -> Scene {
        let is_large = (self.services * ENDPOINTS) as usize >= Iptables::LARGE;
        Scene {
            node: node.0.plan().node.clone(),
            scale: if is_large { Scale::Large } else { Scale::Small },
        }
    }

    /// The ruleset of the whole plan, in kube-proxy's order.
    fn rules(&self, node: &Node<Iptables>) -> Vec<(IpFamily, String)> {
        let (backend, scene) = (node.0.reconciler().backend(), self.scene(node));
        let ports = node.0.plan().ports.values();
        let ports = ports.flat_map(|it| backend.render(&scene, it, &()));
        let mut seen = BTreeSet::new();
        let all = backend.standing(&scene).into_iter().chain(ports);
        let once = all.filter(|(key, _)| !Iptables::is_shared(key) || seen.insert(key.clone()));
        text::script(&once.collect::<Vec<_>>())
    }
}

/// The backend of a variant in this thread's namespace.
pub(super) fn open(variant: Variant, lock: &Path) -> anyhow::Result<Iptables> {
    let lock = Lock {
        file: lock.to_owned(),
        seconds: 5,
    };
    let programs = Programs::find(variant)?.with_lock(lock);
    Ok(Iptables::with(programs, Conntrack::Strict)?)
}

/// The chains in nat of these service ports.
fn chains(node: &Node<Iptables>, scene: &Scene, ports: &BTreeSet<PortKey>) -> BTreeSet<String> {
    let plans = ports.iter().filter_map(|it| node.0.plan().ports.get(it));
    let backend = node.0.reconciler().backend();
    let objects = plans.flat_map(|it| backend.render(scene, it, &()));
    let names = objects.map(|(key, _)| key.place().chain.to_string());
    names.collect()
}

/// The part of a ruleset that kube-proxy writes in a partial sync: neither built-in chains nor
/// chains of Sluice.
fn partial(rules: &str, chains: &BTreeSet<String>) -> String {
    let mut text = String::new();
    let mut is_nat = false;
    for line in rules.lines() {
        let chain = line.strip_prefix(':').or(line.strip_prefix("-A "));
        let is_written = match chain.and_then(|it| it.split(' ').next()) {
            Some(chain) if is_nat => ALWAYS.contains(&chain) || chains.contains(chain),
            Some(chain) => chain.starts_with("KUBE-"),
            None => line.starts_with('*') || line == "COMMIT",
        };
        is_nat = if line.starts_with('*') {
            line == "*nat"
        } else {
            is_nat
        };
        if is_written {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_input_has_filter_and_the_chains_of_the_service() {
        let rules = "*filter\n:KUBE-SERVICES - [0:0]\n:SLUICE-CLUSTER-IPS - [0:0]\n\
                     -A KUBE-FORWARD -j ACCEPT\n-I FORWARD -j KUBE-FORWARD\nCOMMIT\n\
                     *nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n:KUBE-SVC-B - [0:0]\n\
                     -A KUBE-SVC-A -j RETURN\n-A KUBE-SVC-B -j RETURN\n\
                     -A KUBE-SERVICES -j KUBE-SVC-A\n-A KUBE-SERVICES -j KUBE-SVC-B\nCOMMIT\n";
        let expected = "*filter\n:KUBE-SERVICES - [0:0]\n-A KUBE-FORWARD -j ACCEPT\nCOMMIT\n\
                        *nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-B - [0:0]\n\
                        -A KUBE-SVC-B -j RETURN\n\
                        -A KUBE-SERVICES -j KUBE-SVC-A\n-A KUBE-SERVICES -j KUBE-SVC-B\nCOMMIT\n";
        assert_eq!(
            partial(rules, &BTreeSet::from(["KUBE-SVC-B".to_owned()])),
            expected
        );
    }
}
