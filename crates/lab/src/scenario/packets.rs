//! Runs a scenario with real packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sluice_core::backend::Backend;
use sluice_core::model::{Object, Protocol};
use sluice_core::plan::Changes;
use sluice_core::reconcile::Reconciler;
use sluice_core::settings::Settings;

use super::asker::{Asker, SILENCE, netns, transport};
use super::oracle::{assert_forgotten, verify};
use super::proxy::{Proxy, parse};
use super::world::{self, Flow};
use super::{Check, Scenario, Step};
use crate::{Cluster, Outcome, Server, Session};

/// Runs a scenario with real packets on a cluster of its own: builds it, starts every endpoint
/// that a slice names, programs node-a with the backend that `make` opens inside node-a's
/// namespace, and goes through the steps. Each check must agree with the packets and with
/// `Plan::lookup`. At the end the kernel must hold what the reconciler believes, and when all
/// objects are deleted, nobody may answer any more.
///
/// # Panics
/// At the first thing that is not as it must be, with what was seen, the plan and the rules.
pub fn run<B: Backend>(scenario: &Scenario, make: impl FnOnce(&Settings) -> B + Send) {
    let cluster = world::build(scenario).expect("this machine can build a lab");
    let servers = start_endpoints(scenario, &cluster);
    cluster.node(world::HOME).netns().run(|| {
        let mut run = Run {
            scenario,
            asker: Asker::new(&cluster, world::home_addresses(scenario)),
            proxy: Proxy::new(scenario.settings.clone()),
            reconciler: Reconciler::new(make(&scenario.settings)),
            sessions: Vec::new(),
            at: String::new(),
        };
        run.go();
    });
    drop(servers);
}

/// A server for every endpoint that any slice of the scenario names and that a machine here has.
fn start_endpoints(scenario: &Scenario, cluster: &Cluster) -> Vec<Server> {
    let mut wanted = BTreeSet::new();
    let objects = scenario.steps.iter().flat_map(|step| match step {
        Step::Apply(manifests) => parse(manifests),
        _ => Vec::new(),
    });
    for object in objects {
        let Object::EndpointSlice(slice) = object else {
            continue;
        };
        let machines = slice.endpoints.iter();
        let machines = machines.filter_map(|it| world::machine_at(it.address));
        for machine in machines {
            let ports = slice.ports.iter();
            let ports = ports.filter_map(|it| Some((it.port.get(), transport(it.protocol)?)));
            wanted.extend(ports.map(|(port, transport)| (machine, port, transport)));
        }
    }
    let start = |(machine, port, transport)| {
        let name = world::server_name(machine, port);
        Server::start(netns(cluster, machine), &name, port, transport)
    };
    let servers: Result<_, _> = wanted.into_iter().map(start).collect();
    servers.expect("nobody else uses the ports of a fresh cluster")
}

struct Run<'a, B: Backend> {
    scenario: &'a Scenario,
    asker: Asker<'a>,
    proxy: Proxy,
    reconciler: Reconciler<B>,
    sessions: Vec<Session>,
    /// What is being done, for people.
    at: String,
}

impl<B: Backend> Run<'_, B> {
    fn go(&mut self) {
        let mut asked = Vec::new();
        for (number, step) in (1..).zip(&self.scenario.steps) {
            match step {
                Step::Apply(manifests) => {
                    self.at = format!("step {number}: apply\n{manifests}");
                    let changes = self.proxy.set(manifests);
                    self.sync(&changes);
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
                    self.resync();
                }
            }
            self.ping();
        }
        self.at = "after the last step: resync".to_owned();
        self.resync();
        self.at = "after the last step: delete everything".to_owned();
        self.delete_everything(&asked);
    }

    fn sync(&mut self, changes: &Changes) {
        let changed = changes.ports.keys().cloned().collect();
        match self.reconciler.sync(self.proxy.plan(), &changed) {
            Ok(report) if report.refused.is_empty() => {}
            Ok(report) => self.fail(&format!("the kernel refused {:?}", report.refused)),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Law: whoever reads what the kernel holds finds nothing to repair.
    fn resync(&mut self) {
        self.reconciler.forget();
        match self.reconciler.sync(self.proxy.plan(), &BTreeSet::new()) {
            Ok(report) if report.is_empty() => {}
            Ok(report) => self.fail(&format!("the kernel holds something else: {report}")),
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
            let session = Session::connect(netns(self.asker.cluster, flow.from), flow.target());
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

    fn delete_everything(&mut self, asked: &[Flow]) {
        let changes = self.proxy.set("");
        self.sync(&changes);
        assert_forgotten(self.scenario, self.proxy.plan(), asked);
        // Endpoints themselves answer as ever; behind all other addresses there is nobody.
        let mut dead: BTreeMap<(SocketAddr, Protocol), &Flow> = BTreeMap::new();
        for flow in asked {
            let target = flow.target();
            let virtual_ip = world::endpoint_name(target) == target.to_string();
            if virtual_ip && transport(flow.packet.protocol).is_some() {
                dead.insert((target, flow.packet.protocol), flow);
            }
        }
        let flows: Vec<Flow> = dead.into_values().cloned().collect();
        for (flow, outcome) in flows.iter().zip(self.asker.ask_once(&flows, SILENCE)) {
            if outcome.name().is_some() {
                self.fail_flow(flow, &[outcome]);
            }
        }
    }

    fn fail_flow(&self, flow: &Flow, outcomes: &[Outcome]) -> ! {
        let packet = &flow.packet;
        let fate = self.proxy.plan().lookup(packet, &self.asker.host);
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
            "{from} ({}) -> {target}/{protocol}\nseen: {seen:#?}\nthe plan says: {fate:#?}",
            packet.source
        ));
    }

    fn fail(&self, what: &str) -> ! {
        let Scenario { name, about, .. } = self.scenario;
        let home = netns(self.asker.cluster, world::HOME);
        let rules = home.command("nft", &["list", "ruleset"]).output();
        let rules = rules.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let rules = rules.unwrap_or_else(|error| format!("cannot be listed: {error}"));
        let at = &self.at;
        panic!("{name}: {about}\n{at}\n{what}\nrules of node-a:\n{rules}");
    }
}
