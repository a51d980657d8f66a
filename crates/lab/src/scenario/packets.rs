//! Runs a scenario with real packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use sluice_core::backend::Backend;
use sluice_core::lookup::HostAddresses;
use sluice_core::model::{Object, Protocol};
use sluice_core::plan::Changes;
use sluice_core::reconcile::Reconciler;
use sluice_core::settings::Settings;

use super::oracle::{assert_forgotten, verify};
use super::proxy::{Proxy, parse};
use super::world::{self, Flow};
use super::{Check, Expect, Scenario, Seen, Step, Then};
use crate::{
    Cluster, Errno, Netns, Outcome, Probe, Protocol as Transport, Server, Session, eventually,
};

/// For an answer. Far longer than it takes: a busy machine is no failure.
const PATIENCE: Duration = Duration::from_secs(5);
/// For a refusal, which must come before the client asks a second time.
const AT_ONCE: Duration = Duration::from_millis(900);
/// For silence: whoever has not answered by then does not.
const SILENCE: Duration = Duration::from_millis(300);
/// For affinity to be forgotten.
const FORGETTING: Duration = Duration::from_secs(60);

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
            cluster: &cluster,
            host: world::home_addresses(scenario),
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
    let manifests = scenario.steps.iter().filter_map(|step| match step {
        Step::Apply(text) => Some(text),
        _ => None,
    });
    let mut wanted = BTreeSet::new();
    for object in manifests.flat_map(|text| parse(text)) {
        let Object::EndpointSlice(slice) = object else {
            continue;
        };
        for (endpoint, port) in slice
            .endpoints
            .iter()
            .flat_map(|it| slice.ports.iter().map(move |port| (it, port)))
        {
            let Some(transport) = transport(port.protocol) else {
                continue;
            };
            let machine = world::machine_at(endpoint.address);
            wanted.extend(machine.map(|machine| (machine, port.port.get(), transport)));
        }
    }
    let start = |(machine, port, transport)| {
        let name = world::server_name(machine, port);
        Server::start(netns(cluster, machine), &name, port, transport)
    };
    let servers: Result<_, _> = wanted.into_iter().map(start).collect();
    servers.expect("nobody else uses the ports of a fresh cluster")
}

/// `None` for SCTP, which this lab has no sockets for.
fn transport(protocol: Protocol) -> Option<Transport> {
    match protocol {
        Protocol::Tcp => Some(Transport::Tcp),
        Protocol::Udp => Some(Transport::Udp),
        Protocol::Sctp => None,
    }
}

struct Run<'a, B: Backend> {
    scenario: &'a Scenario,
    cluster: &'a Cluster,
    host: HostAddresses,
    proxy: Proxy,
    reconciler: Reconciler<B>,
    sessions: Vec<Session>,
    /// The step that is being done, for people.
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
                    for flow in world::flows(self.scenario, from, to) {
                        let session = Session::connect(self.netns(flow.from), flow.target());
                        let session = session.unwrap_or_else(|why| self.fail(&why.to_string()));
                        self.sessions.push(session);
                    }
                }
            }
            self.ping();
        }
        self.resync();
        self.delete_everything(&asked);
    }

    fn sync(&mut self, changes: &Changes) {
        let changed = changes.ports.keys().cloned().collect();
        let report = self.reconciler.sync(self.proxy.plan(), &changed);
        match report {
            Ok(report) if report.refused.is_empty() => {}
            Ok(report) => self.fail(&format!("the kernel refused {:?}", report.refused)),
            Err(error) => self.fail(&error.to_string()),
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

    /// Law: reading the kernel after the changes of a scenario finds nothing to repair.
    fn resync(&mut self) {
        self.at = "after the last step: resync".to_owned();
        self.reconciler.forget();
        match self.reconciler.sync(self.proxy.plan(), &BTreeSet::new()) {
            Ok(report) if report.is_empty() => {}
            Ok(report) => self.fail(&format!("the kernel holds something else: {report}")),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn delete_everything(&mut self, asked: &[Flow]) {
        self.at = "after the last step: delete everything".to_owned();
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
        for (flow, outcome) in flows.iter().zip(self.ask_once(&flows, SILENCE)) {
            if outcome.name().is_some() {
                self.fail(&format!("{flow:?} is {outcome}, but the Service is gone"));
            }
        }
    }

    /// Returns what it asked.
    fn check(&self, check: &Check) -> Vec<Flow> {
        let flows = world::flows(self.scenario, check.from, check.to);
        for flow in &flows {
            if let Err(why) = verify(self.proxy.plan(), &self.host, flow, &check.expect) {
                self.fail(&format!("{flow:?}: {why}"));
            }
        }
        let asked: Vec<Flow> = flows
            .iter()
            .filter(|it| transport(it.packet.protocol).is_some())
            .cloned()
            .collect();
        match &check.expect {
            Expect::Answers { by, seen } => {
                asked
                    .iter()
                    .for_each(|it| self.expect_answers(it, by, *seen));
            }
            Expect::Untouched(Then::Answered(name)) => {
                let by = BTreeSet::from([*name]);
                asked
                    .iter()
                    .for_each(|it| self.expect_answers(it, &by, Seen::Client));
            }
            Expect::Stays { with, among } => {
                asked
                    .iter()
                    .for_each(|it| self.expect_stays(it, *with, among));
            }
            Expect::Moves {
                away_from, idle, ..
            } => {
                asked
                    .iter()
                    .for_each(|it| self.expect_moves(it, away_from, *idle));
            }
            Expect::Refused | Expect::Untouched(Then::Refused) => {
                self.expect_each(&asked, AT_ONCE, is_refusal);
            }
            Expect::Dropped | Expect::Untouched(Then::Lost) => {
                self.expect_each(&asked, SILENCE, is_silence);
            }
        }
        flows
    }

    /// Asks until everyone of `by` has answered, and often enough to meet anyone else.
    fn expect_answers(&self, flow: &Flow, by: &BTreeSet<&str>, seen: Seen) {
        let (least, most) = (6 + 6 * by.len(), 60 * by.len());
        let probe = probe(flow, PATIENCE);
        let outcomes = self.netns(flow.from).run(|| {
            let (mut outcomes, mut missing) = (Vec::new(), by.clone());
            while outcomes.len() < least || (!missing.is_empty() && outcomes.len() < most) {
                let outcome = probe.ask();
                let known = outcome.name().is_some_and(|name| by.contains(name));
                missing.retain(|it| outcome.name() != Some(it));
                outcomes.push(outcome);
                if !known {
                    break;
                }
            }
            outcomes
        });
        let answered: BTreeSet<&str> = outcomes.iter().filter_map(Outcome::name).collect();
        let right = outcomes
            .iter()
            .all(|it| self.is_right_source(flow, it, seen));
        if answered != *by || !right {
            self.fail_flow(flow, &outcomes);
        }
    }

    fn is_right_source(&self, flow: &Flow, outcome: &Outcome, seen: Seen) -> bool {
        let Outcome::Answered { name, source, .. } = outcome else {
            return false;
        };
        let own = *source == flow.packet.source;
        let node = self.host.contains(source);
        match seen {
            Seen::Client => own,
            Seen::Node => node,
            Seen::ClientUnlessItself if name.split(':').next() == Some(flow.from) => node,
            Seen::ClientUnlessItself => own,
            Seen::Anyone => own || node,
        }
    }

    fn expect_stays(&self, flow: &Flow, with: Option<&str>, among: &BTreeSet<&str>) {
        const QUESTIONS: usize = 12;
        let probe = probe(flow, PATIENCE);
        let outcomes: Vec<Outcome> = self
            .netns(flow.from)
            .run(|| (0..QUESTIONS).map(|_| probe.ask()).collect());
        let first = outcomes[0].name().filter(|name| among.contains(name));
        let same = outcomes.iter().all(|it| it.name() == first);
        if first.is_none() || !same || with.is_some_and(|it| first != Some(it)) {
            self.fail_flow(flow, &outcomes);
        }
    }

    /// Each question binds the client anew, so between two of them it has to be quiet. Nothing
    /// can be observed meanwhile without disturbing it.
    fn expect_moves(&self, flow: &Flow, away_from: &str, idle: Duration) {
        let probe = probe(flow, PATIENCE);
        let mut outcomes = Vec::new();
        let deadline = Instant::now() + FORGETTING;
        while Instant::now() < deadline {
            eventually(idle, || None::<()>);
            let outcome = probe.from(self.netns(flow.from));
            let moved = outcome.name().is_some_and(|it| it != away_from);
            outcomes.push(outcome);
            if moved {
                return;
            }
        }
        self.fail_flow(flow, &outcomes);
    }

    fn expect_each(
        &self,
        flows: &[Flow],
        timeout: Duration,
        is_right: fn(&Flow, &Outcome) -> bool,
    ) {
        for (flow, outcome) in flows.iter().zip(self.ask_once(flows, timeout)) {
            if !is_right(flow, &outcome) {
                self.fail_flow(flow, &[outcome]);
            }
        }
    }

    /// Asks each question once, all at the same time: silence takes its time.
    fn ask_once(&self, flows: &[Flow], timeout: Duration) -> Vec<Outcome> {
        let cluster = self.cluster;
        thread::scope(|scope| {
            let ask = |flow: &Flow| {
                let (probe, from) = (probe(flow, timeout), flow.from);
                scope.spawn(move || probe.from(netns(cluster, from)))
            };
            let threads: Vec<_> = flows.iter().map(ask).collect();
            let joined = threads.into_iter().map(|it| it.join());
            let outcomes = joined.map(|it| it.unwrap_or_else(|why| std::panic::resume_unwind(why)));
            outcomes.collect()
        })
    }

    fn netns(&self, name: &str) -> &Netns {
        netns(self.cluster, name)
    }

    fn fail_flow(&self, flow: &Flow, outcomes: &[Outcome]) -> ! {
        let packet = &flow.packet;
        let fate = self.proxy.plan().lookup(packet, &self.host);
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
        let rules = self
            .netns(world::HOME)
            .command("nft", &["list", "ruleset"])
            .output();
        let rules = rules.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let rules = rules.unwrap_or_else(|error| format!("cannot be listed: {error}"));
        panic!(
            "{name}: {about}\n{}\n{what}\nrules of node-a:\n{rules}",
            self.at
        );
    }
}

fn netns<'a>(cluster: &'a Cluster, name: &str) -> &'a Netns {
    if let Some(node) = cluster.nodes().iter().find(|it| it.name() == name) {
        return node.netns();
    }
    match cluster.clients().iter().find(|it| it.name() == name) {
        Some(client) => client.netns(),
        None => cluster.pod(name).netns(),
    }
}

fn probe(flow: &Flow, timeout: Duration) -> Probe {
    let transport = transport(flow.packet.protocol).expect("flows of other protocols are skipped");
    Probe::new(flow.target(), transport).timeout(timeout)
}

fn is_refusal(flow: &Flow, outcome: &Outcome) -> bool {
    *outcome == Outcome::Refused || is_own_refusal(flow, outcome)
}

fn is_silence(flow: &Flow, outcome: &Outcome) -> bool {
    *outcome == Outcome::TimedOut || is_own_refusal(flow, outcome)
}

/// Whoever sends a datagram that the rules of its own machine stop is told so by the system
/// call, with the same error number for rejected and dropped ones.
fn is_own_refusal(flow: &Flow, outcome: &Outcome) -> bool {
    let own = flow.packet.interface.is_none() && flow.packet.protocol == Protocol::Udp;
    own && *outcome == Outcome::Unreachable(Errno::EPERM)
}
