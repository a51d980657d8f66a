//! Sends the requests of checks and compares the outcomes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluice_model::Protocol;
use sluice_plan::state::HostAddresses;

use super::world::Flow;
use super::{Expect, Seen, Then};
use sluice_lab::{
    Cluster, Errno, LabError, Netns, Outcome, Probe, Protocol as Transport, Session, eventually,
    in_vm, sctp_available,
};

/// Timeout of an answer; long enough for a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a refusal, which must come before the second SYN, after 1 s.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(900);
/// A request without an answer for this long is dropped; answers take a few milliseconds.
const DROP_TIMEOUT: Duration = Duration::from_millis(300);
/// Deadline of the checks of affinity timeouts.
const AFFINITY_DEADLINE: Duration = Duration::from_secs(60);

/// Source ports of datagrams: no server listens on one of them.
const FIRST_PORT: u32 = 35_000;
const PORTS: u32 = 30_000;

/// Number of requests where the result does not depend on chance.
const REPEATS: usize = 3;

/// Sends requests from the machines of a cluster.
pub(super) struct Prober<'a> {
    pub(super) cluster: &'a Cluster,
    /// Every address of node-a: one of them is the client of masqueraded packets.
    pub(super) host: HostAddresses,
}

/// The first flow with another result than expected, and its outcomes.
pub(super) type Mismatch<'f> = (&'f Flow, Vec<Outcome>);

impl<'a> Prober<'a> {
    pub(super) fn new(cluster: &'a Cluster, host: HostAddresses) -> Self {
        Self { cluster, host }
    }

    /// Sends the requests of each flow and compares the outcomes with the expected result.
    pub(super) fn check<'f>(&self, flows: &'f [Flow], expect: &Expect) -> Result<(), Mismatch<'f>> {
        let one_by_one = |judge: &dyn Fn(&Flow) -> Result<(), Vec<Outcome>>| {
            let mut flows = flows.iter();
            flows.try_for_each(|it| judge(it).map_err(|outcomes| (it, outcomes)))
        };
        match expect {
            Expect::Answers { by, seen } => {
                let least = requests(by.len());
                one_by_one(&|it| self.answers(it, by, *seen, least))
            }
            Expect::Untouched(Then::Answered(name)) => {
                let by = BTreeSet::from([*name]);
                one_by_one(&|it| self.answers(it, &by, Seen::Client, REPEATS))
            }
            Expect::Stays { with, among } => one_by_one(&|it| self.stays(it, *with, among)),
            Expect::Moves {
                away_from, idle, ..
            } => {
                let moved = at_once(flows, |it| self.moves(it, away_from, *idle));
                let mut moved = flows.iter().zip(moved);
                moved.try_for_each(|(flow, it)| it.map_err(|outcomes| (flow, outcomes)))
            }
            Expect::Refreshes { among, timeout } => {
                one_by_one(&|it| self.refreshes(it, among, *timeout))
            }
            Expect::Refused | Expect::Untouched(Then::Refused) => self.refused(flows),
            Expect::Dropped => self.each(flows, DROP_TIMEOUT, is_drop),
        }
    }

    /// The next request of a flow.
    ///
    /// Each datagram has a fresh source port: the kernel tracks a UDP flow for minutes and sends
    /// datagrams from the same port to the same endpoint. Deleting such conntrack entries is the
    /// agent's task, not the data plane's. For TCP the SYN begins a new connection.
    fn probe(&self, flow: &Flow, timeout: Duration) -> Probe {
        let transport = transport(flow.packet.protocol);
        let transport = transport.expect("flows of other protocols are left out");
        let probe = Probe::new(flow.target(), transport).timeout(timeout);
        match transport {
            Transport::Tcp => probe,
            Transport::Udp => probe.source_port(fresh_port()),
            // Otherwise the INIT lists all addresses of the client, which no rule translates.
            Transport::Sctp => probe.source(flow.packet.source),
        }
    }

    /// Opens a connection that stays open.
    pub(super) fn connect(&self, flow: &Flow) -> Result<Session, LabError> {
        Session::open(self.netns(flow), self.probe(flow, ANSWER_TIMEOUT))
    }

    fn netns(&self, flow: &Flow) -> &Netns {
        netns(self.cluster, flow.from)
    }

    /// Sends requests until each server of `by` has answered, and at least `least` requests, to find
    /// servers that must not answer.
    fn answers(
        &self,
        flow: &Flow,
        by: &BTreeSet<&str>,
        seen: Seen,
        least: usize,
    ) -> Result<(), Vec<Outcome>> {
        let most = 60 * by.len();
        let ask = || self.probe(flow, ANSWER_TIMEOUT).ask();
        let outcomes = self.netns(flow).run(|| {
            let (mut outcomes, mut missing) = (Vec::new(), by.clone());
            while outcomes.len() < least || (!missing.is_empty() && outcomes.len() < most) {
                let outcome = ask();
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
        agree(answered == *by && right, outcomes)
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
        }
    }

    fn stays(
        &self,
        flow: &Flow,
        with: Option<&str>,
        among: &BTreeSet<&str>,
    ) -> Result<(), Vec<Outcome>> {
        let wanted_outcomes = requests(1);
        let ask = || self.probe(flow, ANSWER_TIMEOUT).ask();
        let outcomes = self.netns(flow).run(|| {
            let mut outcomes = vec![ask()];
            while outcomes.len() < wanted_outcomes {
                let outcome = ask();
                let same = outcome.name().is_some() && outcome.name() == outcomes[0].name();
                outcomes.push(outcome);
                if !same {
                    break;
                }
            }
            outcomes
        });
        let first = outcomes[0].name().filter(|name| among.contains(name));
        let same = outcomes.iter().all(|it| it.name() == first);
        let wanted = with.is_none_or(|it| first == Some(it));
        agree(first.is_some() && same && wanted, outcomes)
    }

    /// Each request renews the affinity, so the client sends nothing for `idle` between two requests;
    /// there is nothing to poll meanwhile.
    fn moves(&self, flow: &Flow, away_from: &str, idle: Duration) -> Result<(), Vec<Outcome>> {
        let ask = || self.probe(flow, ANSWER_TIMEOUT).ask();
        let mut outcomes = Vec::new();
        let deadline = Instant::now() + AFFINITY_DEADLINE;
        while Instant::now() < deadline {
            eventually(idle, || None::<()>);
            let outcome = self.netns(flow).run(ask);
            let moved = outcome.name().is_some_and(|it| it != away_from);
            outcomes.push(outcome);
            if moved {
                return Ok(());
            }
        }
        Err(outcomes)
    }

    /// Sends a few requests per timeout for two timeouts. When a busy machine sends a request too
    /// late, the affinity may rightly have expired, and the check begins again.
    fn refreshes(
        &self,
        flow: &Flow,
        among: &BTreeSet<&str>,
        timeout: Duration,
    ) -> Result<(), Vec<Outcome>> {
        let ask = || self.probe(flow, ANSWER_TIMEOUT).ask();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let (mut since, mut sent) = (Instant::now(), Instant::now());
        let deadline = since + AFFINITY_DEADLINE;
        while since.elapsed() < 2 * timeout && Instant::now() < deadline {
            let before = Instant::now();
            let outcome = self.netns(flow).run(ask);
            let same = outcomes.last().is_none_or(|it| it.name() == outcome.name());
            let in_time = sent.elapsed() < timeout;
            outcomes.push(outcome);
            if in_time && !same {
                return Err(outcomes);
            }
            if !in_time {
                since = Instant::now();
            }
            sent = before;
            eventually(timeout / 4, || None::<()>);
        }
        let known = |it: &Outcome| it.name().is_some_and(|name| among.contains(name));
        agree(outcomes.iter().all(known), outcomes)
    }

    /// Tries once more after a timeout: the kernel ignores a refusal that arrives while its socket is
    /// still sending the SYN (`sock_owned_by_user` in `tcp_v4_err`).
    fn refused<'f>(&self, flows: &'f [Flow]) -> Result<(), Mismatch<'f>> {
        match self.each(flows, REFUSAL_TIMEOUT, is_refusal) {
            Err((flow, outcomes)) if outcomes.iter().all(|it| is_drop(flow, it)) => {
                self.each(flows, REFUSAL_TIMEOUT, is_refusal)
            }
            done => done,
        }
    }

    fn each<'f>(
        &self,
        flows: &'f [Flow],
        timeout: Duration,
        is_right: fn(&Flow, &Outcome) -> bool,
    ) -> Result<(), Mismatch<'f>> {
        let outcomes = at_once(flows, |it| self.probe(it, timeout).from(self.netns(it)));
        let mut outcomes = flows.iter().zip(outcomes);
        match outcomes.find(|(flow, outcome)| !is_right(flow, outcome)) {
            Some((flow, outcome)) => Err((flow, vec![outcome])),
            None => Ok(()),
        }
    }
}

/// Runs `task` for all flows at the same time, because it waits for a timeout.
fn at_once<T: Send>(flows: &[Flow], task: impl Fn(&Flow) -> T + Sync) -> Vec<T> {
    let task = &task;
    thread::scope(|scope| {
        let start = |flow| scope.spawn(move || task(flow));
        let threads: Vec<_> = flows.iter().map(start).collect();
        let joined = threads.into_iter().map(|it| it.join());
        let results = joined.map(|it| it.unwrap_or_else(|why| std::panic::resume_unwind(why)));
        results.collect()
    })
}

/// Number of requests that find a server which must not be in a pool of this size. The check misses
/// less than 1 % of pools with one wrong server. In a virtual machine there are a third of the
/// requests and each client misses 1 of 8; other clients and families test the same pool.
fn requests(pool: usize) -> usize {
    if in_vm() { 2 + 2 * pool } else { 6 + 6 * pool }
}

/// A port that is reused only after all other ports.
fn fresh_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let port = FIRST_PORT + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
    u16::try_from(port).expect("all of them are ports")
}

fn agree(right: bool, outcomes: Vec<Outcome>) -> Result<(), Vec<Outcome>> {
    if right { Ok(()) } else { Err(outcomes) }
}

/// The namespace of a machine of any kind.
pub(super) fn netns<'a>(cluster: &'a Cluster, name: &str) -> &'a Netns {
    if let Some(node) = cluster.nodes().iter().find(|it| it.name() == name) {
        return node.netns();
    }
    match cluster.clients().iter().find(|it| it.name() == name) {
        Some(client) => client.netns(),
        None => cluster.pod(name).netns(),
    }
}

/// `None` for SCTP where the kernel has no sockets for it.
pub(super) fn transport(protocol: Protocol) -> Option<Transport> {
    match protocol {
        Protocol::Tcp => Some(Transport::Tcp),
        Protocol::Udp => Some(Transport::Udp),
        Protocol::Sctp => sctp_available().then_some(Transport::Sctp),
    }
}

fn is_refusal(flow: &Flow, outcome: &Outcome) -> bool {
    *outcome == Outcome::Refused || is_local_refusal(flow, outcome)
}

fn is_drop(flow: &Flow, outcome: &Outcome) -> bool {
    *outcome == Outcome::TimedOut || is_local_refusal(flow, outcome)
}

/// When rules of the sending machine itself stop a datagram, the system call fails, with the same
/// error number for rejected and dropped ones.
fn is_local_refusal(flow: &Flow, outcome: &Outcome) -> bool {
    let own = flow.packet.interface.is_none() && flow.packet.protocol == Protocol::Udp;
    own && *outcome == Outcome::Unreachable(Errno::EPERM)
}
