//! Runs a scenario with real packets.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::Event;
use sluice_plan::settings::Settings;
use sluice_plane::{Proxy, ServiceBackend};

use super::asker::{Asker, netns, transport};
use super::check::left_to;
use super::oracle::{assert_forgotten, verify};
use super::proxy::Objects;
use super::stage::Stage;
use super::world::{self, Flow};
use super::{Check, Scenario, Step};
use sluice_lab::{Netns, Outcome, Session};

/// Runs a scenario with real packets on a cluster of its own: builds it, starts every endpoint
/// that a slice names, programs node-a with the backend that `make` opens inside node-a's
/// namespace (anew for each [`Step::Restart`]), and goes through the steps. Each check must agree
/// with the packets and with `Plan::lookup`. At the end the kernel must hold what the reconciler
/// believes, and when all objects are deleted, nobody may answer any more.
///
/// # Panics
/// At the first thing that is not as it must be, with what was seen, the plan and the rules.
pub fn run<P: ServiceBackend>(scenario: &Scenario, make: impl Fn(&Settings) -> P + Sync) {
    let mut stage = Stage::build(scenario).expect("this machine can build a lab");
    play(scenario, &mut stage, make);
}

/// Runs a scenario on a stage that suits it.
pub(super) fn play<P: ServiceBackend>(
    scenario: &Scenario,
    stage: &mut Stage,
    make: impl Fn(&Settings) -> P + Sync,
) {
    let prepared = stage.prepare(scenario);
    prepared.expect("nobody else uses the ports of a cluster");
    let lab = &stage.cluster;
    let make = &make;
    lab.node(world::HOME).netns().run(move || {
        let mut run = Run {
            scenario,
            asker: Asker::new(lab, world::home_addresses(scenario)),
            objects: Objects::new(world::home_addresses(scenario)),
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
    asker: Asker<'a>,
    objects: Objects,
    proxy: Proxy<P>,
    make: &'a dyn Fn(&Settings) -> P,
    sessions: Vec<Session>,
    /// What is being done, for people.
    at: String,
}

impl<P: ServiceBackend> Run<'_, P> {
    fn go(&mut self) {
        let mut asked = Vec::new();
        for (number, step) in (1..).zip(&self.scenario.steps) {
            match step {
                Step::Apply(manifests) => {
                    self.at = format!("step {number}: apply\n{manifests}");
                    self.apply(manifests);
                }
                Step::Check(check) => {
                    self.at = format!("step {number}: {check}");
                    asked.extend(self.check(check));
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
        self.delete_everything(&asked);
    }

    fn tell(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|it| self.proxy.absorb(it));
        self.proxy.replan();
    }

    /// The cluster's objects are these from now on, and the kernel knows.
    fn apply(&mut self, manifests: &str) {
        let events = self.objects.change(manifests);
        self.tell(events);
        if let Err(error) = self.proxy.sync() {
            self.fail(&error.to_string());
        }
        let refusals = self.proxy.reconciler().refusals();
        if !refusals.is_empty() {
            self.fail(&format!("refused: {refusals:?}"));
        }
    }

    /// Law: whoever reads what the kernel holds finds what was written.
    fn find_nothing_to_repair(&mut self) {
        match self.proxy.sync() {
            Ok(synced) if synced.report.is_empty() => {}
            Ok(synced) => self.fail(&format!(
                "the kernel holds something else: {}",
                synced.report
            )),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Returns what it asked.
    fn check(&self, check: &Check) -> Vec<Flow> {
        let flows = world::flows(self.scenario, check.from, check.to);
        for flow in &flows {
            let verdict = verify(self.proxy.plan(), &self.asker.host, flow, &check.expect);
            verdict.unwrap_or_else(|why| self.fail(&format!("{flow:?}: {why}")));
        }
        let asked: Vec<Flow> = flows
            .iter()
            .filter(|it| transport(it.packet.protocol).is_some())
            .cloned()
            .collect();
        let checked = self.asker.check(&asked, &check.expect);
        checked.unwrap_or_else(|(flow, outcomes)| self.fail_flow(flow, &outcomes));
        flows
    }

    fn hold(&mut self, from: &'static str, to: &str) {
        for flow in world::flows(self.scenario, from, to) {
            if transport(flow.packet.protocol).is_none() {
                continue;
            }
            let session = self.asker.connect(&flow);
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

    /// What is for virtual IPs must go where it would go without a proxy.
    fn delete_everything(&mut self, asked: &[Flow]) {
        self.apply("");
        assert_forgotten(self.scenario, self.proxy.plan(), asked);
        let mut once = BTreeSet::new();
        let flows = asked.iter().filter(|it| {
            let target = (it.from, it.target(), it.packet.protocol);
            let elsewhere = world::is_elsewhere(it.target().ip());
            !elsewhere && transport(it.packet.protocol).is_some() && once.insert(target)
        });
        for flow in flows.cloned().collect::<Vec<_>>() {
            let home = self.asker.host.contains(&flow.packet.destination);
            let name = if home { world::HOME } else { world::ROUTER };
            let checked = self
                .asker
                .check(std::slice::from_ref(&flow), &left_to(name));
            checked.unwrap_or_else(|(flow, outcomes)| self.fail_flow(flow, &outcomes));
        }
    }

    fn fail_flow(&self, flow: &Flow, outcomes: &[Outcome]) -> ! {
        let packet = &flow.packet;
        let lookup = self.proxy.plan().lookup(packet, &self.asker.host);
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
        let home = netns(self.asker.cluster, world::HOME);
        let (at, rules) = (&self.at, rules_of(home));
        panic!("{name}: {about}\n{at}\n{what}\nrules of node-a:\n{rules}");
    }
}

/// Whatever rules a namespace has, for people; nothing of what is not installed or empty.
fn rules_of(netns: &Netns) -> String {
    /// iptables last: what nft prints of its rules is hard to read.
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
