//! Runs a scenario with real packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sluice_core::backend::Backend;
use sluice_core::lookup::Packet;
use sluice_core::model::{Object, Protocol};
use sluice_core::plan::Changes;
use sluice_core::reconcile::Reconciler;
use sluice_core::settings::Settings;

use super::asker::{Asker, netns, transport};
use super::check::left_to;
use super::oracle::{assert_forgotten, verify};
use super::proxy::{Proxy, parse};
use super::world::{self, Flow};
use super::{Check, Scenario, Step};
use crate::{Cluster, Outcome, Protocol as Transport, Server, Session};

/// Runs a scenario with real packets on a cluster of its own: builds it, starts every endpoint
/// that a slice names, programs node-a with the backend that `make` opens inside node-a's
/// namespace (anew for each [`Step::Restart`]), and goes through the steps. Each check must agree with the packets and with
/// `Plan::lookup`. At the end the kernel must hold what the reconciler believes, and when all
/// objects are deleted, nobody may answer any more.
///
/// # Panics
/// At the first thing that is not as it must be, with what was seen, the plan and the rules.
pub fn run<B: Backend>(scenario: &Scenario, make: impl Fn(&Settings) -> B + Send) {
    let cluster = world::build(scenario).expect("this machine can build a lab");
    let servers = start_servers(scenario, &cluster);
    let lab = &cluster;
    lab.node(world::HOME).netns().run(move || {
        let mut run = Run {
            scenario,
            asker: Asker::new(lab, world::home_addresses(scenario)),
            proxy: Proxy::new(scenario.settings.clone(), world::home_addresses(scenario)),
            reconciler: Reconciler::new(make(&scenario.settings)),
            make: &make,
            sessions: Vec::new(),
            at: String::new(),
        };
        run.go();
    });
    drop(servers);
}

/// Servers: for every endpoint that any slice names, for the router, and for node-a itself on
/// every port that is asked for at one of its addresses.
fn start_servers(scenario: &Scenario, cluster: &Cluster) -> Vec<Server> {
    let mut wanted: BTreeSet<(&str, String, u16, Transport)> = BTreeSet::new();
    for step in &scenario.steps {
        let (objects, flows) = match step {
            Step::Apply(manifests) => (parse(manifests), Vec::new()),
            Step::Check(it) => (Vec::new(), world::flows(scenario, it.from, it.to)),
            Step::Hold { .. } | Step::Restart => continue,
        };
        for (endpoint, protocol) in objects.iter().flat_map(endpoints) {
            let machine = world::machine_at(endpoint.ip()).zip(transport(protocol));
            let server = machine.map(|(machine, transport)| {
                let name = world::server_name(machine, endpoint.port());
                (machine, name, endpoint.port(), transport)
            });
            wanted.extend(server);
        }
        let host = world::home_addresses(scenario);
        for flow in flows {
            let Packet {
                destination,
                port,
                protocol,
                ..
            } = flow.packet;
            if host.contains(&destination)
                && let Some(transport) = transport(protocol)
            {
                wanted.insert((world::HOME, world::HOME.to_owned(), port, transport));
            }
        }
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        let name = world::ROUTER.to_owned();
        wanted.insert((world::ROUTER, name, world::ROUTER_PORT, transport));
    }
    let start = |(machine, name, port, transport): (&str, String, u16, Transport)| {
        Server::start(netns(cluster, machine), &name, port, transport)
    };
    let servers: Result<_, _> = wanted.into_iter().map(start).collect();
    servers.expect("nobody else uses the ports of a fresh cluster")
}

/// Every endpoint that an object names, with every port.
fn endpoints(object: &Object) -> Vec<(SocketAddr, Protocol)> {
    let Object::EndpointSlice(slice) = object else {
        return Vec::new();
    };
    let pairs = slice.endpoints.iter().flat_map(|endpoint| {
        let address = |port: u16| SocketAddr::new(endpoint.address, port);
        slice
            .ports
            .iter()
            .map(move |it| (address(it.port.get()), it.protocol))
    });
    pairs.collect()
}

struct Run<'a, B: Backend> {
    scenario: &'a Scenario,
    asker: Asker<'a>,
    proxy: Proxy,
    reconciler: Reconciler<B>,
    make: &'a dyn Fn(&Settings) -> B,
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
                    self.reconciler = Reconciler::new((self.make)(&self.scenario.settings));
                    self.find_nothing_to_repair();
                }
            }
            self.ping();
        }
        self.at = "after the last step: resync".to_owned();
        self.reconciler.forget();
        self.find_nothing_to_repair();
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

    /// Law: whoever reads what the kernel holds finds what was written.
    fn find_nothing_to_repair(&mut self) {
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

    /// What is for virtual IPs must go where it would go without a proxy.
    fn delete_everything(&mut self, asked: &[Flow]) {
        let changes = self.proxy.set("");
        self.sync(&changes);
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
