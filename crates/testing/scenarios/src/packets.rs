//! Runs a scenario with real packets.

use std::collections::{BTreeMap, BTreeSet};

use crate::drive::Drive as _;
use sluice_plan::Event;
use sluice_plan::settings::Settings;
use sluice_plane::{Proxy, ServiceBackend};

use super::check::untouched;
use super::objects::Objects;
use super::plan::{assert_no_service, verify};
use super::prober::{Prober, netns, transport};
use super::testbed::Testbed;
use super::world::{self, Flow};
use super::{Check, Scenario, Step};
use sluice_lab::{Netns, Outcome, Session};

/// Runs a scenario with real packets on a testbed that suits it. Starts a server for every endpoint
/// of a slice, and calls `make` inside node-a's namespace at the start and for each
/// [`Step::Restart`]. Packets and `Plan::lookup` must both agree with each check. After the last
/// step the kernel must have exactly the rules that were written; after the deletion of all objects
/// no virtual IP may answer.
///
/// # Panics
/// At the first difference, with the outcomes, the plan and the rules.
pub(super) fn run_on<P: ServiceBackend>(
    testbed: &mut Testbed,
    scenario: &Scenario,
    make: impl Fn(&Settings) -> P + Sync,
) {
    let prepared = testbed.prepare(scenario);
    prepared.expect("no other program uses the ports of a cluster");
    let lab = &testbed.cluster;
    let make = &make;
    lab.node(world::NODE_A).netns().run(move || {
        let mut run = Run {
            scenario,
            prober: Prober::new(lab, world::host_addresses(scenario)),
            objects: Objects::new(world::host_addresses(scenario)),
            proxy: Proxy::new(scenario.settings.clone(), make(&scenario.settings)),
            make,
            sessions: Vec::new(),
            at: String::new(),
        };
        run.tell(run.objects.all());
        run.go();
    });
}

struct Run<'a, P: ServiceBackend> {
    scenario: &'a Scenario,
    prober: Prober<'a>,
    objects: Objects,
    proxy: Proxy<P>,
    make: &'a dyn Fn(&Settings) -> P,
    sessions: Vec<Session>,
    /// The current step, for the error message.
    at: String,
}

impl<P: ServiceBackend> Run<'_, P> {
    fn go(&mut self) {
        let mut flows = Vec::new();
        for (number, step) in (1..).zip(&self.scenario.steps) {
            match step {
                Step::Apply(manifests) => {
                    self.at = format!("step {number}: apply\n{manifests}");
                    self.apply(manifests);
                }
                Step::Check(check) => {
                    self.at = format!("step {number}: {check}");
                    flows.extend(self.check(check));
                }
                Step::Hold { from, to } => {
                    self.at = format!("step {number}: hold {from} -> {to}");
                    self.hold(from, to);
                }
                Step::Restart => {
                    self.at = format!("step {number}: restart");
                    let settings = &self.scenario.settings;
                    self.proxy = Proxy::new(settings.clone(), (self.make)(settings));
                    self.tell(self.objects.all());
                    self.find_nothing_to_repair();
                }
            }
            self.ping();
        }
        self.at = "after the last step: resync".to_owned();
        self.proxy.reconciler_mut().forget();
        self.find_nothing_to_repair();
        self.at = "after the last step: delete everything".to_owned();
        self.delete_everything(&flows);
    }

    fn tell(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|it| self.proxy.absorb(it));
        self.proxy.replan();
    }

    /// Replaces the cluster's objects and writes the new rules.
    fn apply(&mut self, manifests: &str) {
        let events = self.objects.change(manifests);
        self.tell(events);
        if let Err(error) = self.proxy.try_sync() {
            self.fail(&error.to_string());
        }
        let refusals = self.proxy.reconciler().refusals();
        if !refusals.is_empty() {
            self.fail(&format!("refused: {refusals:?}"));
        }
    }

    /// Law: a proxy that reads the kernel finds exactly the rules that were written.
    fn find_nothing_to_repair(&mut self) {
        match self.proxy.sync() {
            Ok(synced) if synced.report.is_empty() => {}
            Ok(synced) => self.fail(&format!("the kernel has other rules: {}", synced.report)),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Returns the flows of the check.
    fn check(&self, check: &Check) -> Vec<Flow> {
        let flows = world::flows(self.scenario, check.from, check.to);
        for flow in &flows {
            let verdict = verify(self.proxy.planner(), &self.prober.host, flow, &check.expect);
            verdict.unwrap_or_else(|why| self.fail(&format!("{flow:?}: {why}")));
        }
        let testable: Vec<Flow> = flows
            .iter()
            .filter(|it| transport(it.packet.protocol).is_some())
            .cloned()
            .collect();
        let checked = self.prober.check(&testable, &check.expect);
        checked.unwrap_or_else(|(flow, outcomes)| self.fail_flow(flow, &outcomes));
        flows
    }

    fn hold(&mut self, from: &'static str, to: &str) {
        for flow in world::flows(self.scenario, from, to) {
            if transport(flow.packet.protocol).is_none() {
                continue;
            }
            let session = self.prober.connect(&flow);
            let session = session.unwrap_or_else(|why| self.fail(&why.to_string()));
            self.sessions.push(session);
        }
    }

    fn ping(&mut self) {
        let mut sessions = std::mem::take(&mut self.sessions);
        for session in &mut sessions {
            if let Err(lost) = session.ping() {
                self.fail(&format!("a connection that was open is lost: {lost}"));
            }
        }
        self.sessions = sessions;
    }

    /// Packets to virtual IPs must go where they would go without a proxy.
    fn delete_everything(&mut self, asked: &[Flow]) {
        self.apply("");
        assert_no_service(self.scenario, self.proxy.plan(), asked);
        let mut once = BTreeSet::new();
        let flows = asked.iter().filter(|it| {
            let target = (it.from, it.target(), it.packet.protocol);
            let elsewhere = world::is_elsewhere(it.target().ip());
            !elsewhere && transport(it.packet.protocol).is_some() && once.insert(target)
        });
        for flow in flows.cloned().collect::<Vec<_>>() {
            let home = self.prober.host.contains(&flow.packet.destination);
            let name = if home { world::NODE_A } else { world::ROUTER };
            let checked = self
                .prober
                .check(std::slice::from_ref(&flow), &untouched(name));
            checked.unwrap_or_else(|(flow, outcomes)| self.fail_flow(flow, &outcomes));
        }
    }

    fn fail_flow(&self, flow: &Flow, outcomes: &[Outcome]) -> ! {
        let packet = &flow.packet;
        let lookup = self.proxy.plan().lookup(packet, &self.prober.host);
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in outcomes {
            let key = match outcome {
                Outcome::Answered { name, source, .. } => format!("{name} saw {source}"),
                other => other.to_string(),
            };
            *seen.entry(key).or_default() += 1;
        }
        let target = flow.target();
        let (from, protocol) = (flow.from, packet.protocol);
        self.fail(&format!(
            "{from} ({}) -> {target}/{protocol}\nseen: {seen:#?}\nthe plan says: {lookup:#?}",
            packet.source
        ));
    }

    fn fail(&self, what: &str) -> ! {
        let Scenario { name, about, .. } = self.scenario;
        let home = netns(self.prober.cluster, world::NODE_A);
        let (at, rules) = (&self.at, rules_of(home));
        panic!("{name}: {about}\n{at}\n{what}\nrules of node-a:\n{rules}");
    }
}

/// All rules of a namespace, for the error message; skips programs that are missing or print nothing.
fn rules_of(netns: &Netns) -> String {
    /// With iptables-save, because iptables' rules are hard to read in the output of nft.
    const LISTINGS: [&[&str]; 8] = [
        &["nft", "list", "ruleset"],
        &["ipvsadm", "-Ln"],
        &["ipset", "list"],
        &["ip", "-brief", "address"],
        &["iptables-nft-save"],
        &["ip6tables-nft-save"],
        &["iptables-legacy-save"],
        &["ip6tables-legacy-save"],
    ];
    let list = |words: &&[&str]| {
        let output = netns.command(words[0], &words[1..]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let command = words.join(" ");
        (!text.is_empty()).then(|| format!("# {command}\n{text}"))
    };
    LISTINGS.iter().filter_map(list).collect()
}
