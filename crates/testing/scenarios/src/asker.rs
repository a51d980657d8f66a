//! Sends the questions of checks and judges the answers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluice_model::Protocol;
use sluice_plan::lookup::HostAddresses;

use super::world::Flow;
use super::{Expect, Seen, Then};
use sluice_lab::{
    Cluster, Errno, LabError, Netns, Outcome, Probe, Protocol as Transport, Session, eventually,
    in_vm, sctp_available,
};

/// For an answer. Far longer than it takes: a busy machine is no failure.
const PATIENCE: Duration = Duration::from_secs(5);
/// For a refusal, which must come before the client asks a second time.
const AT_ONCE: Duration = Duration::from_millis(900);
/// For silence: whoever has not answered by then does not.
const SILENCE: Duration = Duration::from_millis(300);
/// For affinity to be forgotten.
const FORGETTING: Duration = Duration::from_secs(60);

/// Source ports of datagrams: nobody serves on one of them.
const FIRST_PORT: u32 = 35_000;
const PORTS: u32 = 30_000;

/// How often something is asked that nobody decides by chance.
const CERTAIN: usize = 3;

/// Asks from the machines of a cluster.
pub(super) struct Asker<'a> {
    pub(super) cluster: &'a Cluster,
    /// Every address of node-a: whom an endpoint sees when packets are masqueraded.
    pub(super) host: HostAddresses,
}

/// The first question that did not get what it should, and everything that it got.
pub(super) type Refuted<'f> = (&'f Flow, Vec<Outcome>);

impl<'a> Asker<'a> {
    pub(super) fn new(cluster: &'a Cluster, host: HostAddresses) -> Self {
        Self { cluster, host }
    }

    /// Whether packets agree with what is expected of each flow.
    pub(super) fn check<'f>(&self, flows: &'f [Flow], expect: &Expect) -> Result<(), Refuted<'f>> {
        let one_by_one = |judge: &dyn Fn(&Flow) -> Result<(), Vec<Outcome>>| {
            let mut flows = flows.iter();
            flows.try_for_each(|it| judge(it).map_err(|outcomes| (it, outcomes)))
        };
        match expect {
            Expect::Answers { by, seen } => {
                let least = questions(by.len());
                one_by_one(&|it| self.answers(it, by, *seen, least))
            }
            Expect::Untouched(Then::Answered(name)) => {
                let by = BTreeSet::from([*name]);
                one_by_one(&|it| self.answers(it, &by, Seen::Client, CERTAIN))
            }
            Expect::Stays { with, among } => one_by_one(&|it| self.stays(it, *with, among)),
            Expect::Moves {
                away_from, idle, ..
            } => one_by_one(&|it| self.moves(it, away_from, *idle)),
            Expect::Refreshes { among, timeout } => {
                one_by_one(&|it| self.refreshes(it, among, *timeout))
            }
            Expect::Refused | Expect::Untouched(Then::Refused) => self.refused(flows),
            Expect::Dropped => self.each(flows, SILENCE, is_silence),
        }
    }

    /// Asks each question once, all at the same time: silence takes its time.
    fn ask_once(&self, flows: &[Flow], timeout: Duration) -> Vec<Outcome> {
        let cluster = self.cluster;
        thread::scope(|scope| {
            let ask = |flow: &Flow| {
                let (probe, from) = (self.probe(flow, timeout), flow.from);
                scope.spawn(move || probe.from(netns(cluster, from)))
            };
            let threads: Vec<_> = flows.iter().map(ask).collect();
            let joined = threads.into_iter().map(|it| it.join());
            let outcomes = joined.map(|it| it.unwrap_or_else(|why| std::panic::resume_unwind(why)));
            outcomes.collect()
        })
    }

    /// The next question of a flow.
    ///
    /// Datagrams leave from a port that was never used before: the kernel tracks a flow for
    /// minutes and sends whoever uses its port again where the flow went. Deleting such entries
    /// is the agent's part, not the data plane's. A new TCP connection is new by its SYN.
    fn probe(&self, flow: &Flow, timeout: Duration) -> Probe {
        let transport = transport(flow.packet.protocol);
        let transport = transport.expect("flows of other protocols are left out");
        let probe = Probe::new(flow.target(), transport).timeout(timeout);
        match transport {
            Transport::Tcp => probe,
            Transport::Udp => probe.source_port(fresh_port()),
            // Or it would tell of all its addresses, which no rule translates.
            Transport::Sctp => probe.source(flow.packet.source),
        }
    }

    /// A connection that stays.
    pub(super) fn connect(&self, flow: &Flow) -> Result<Session, LabError> {
        Session::open(self.netns(flow), self.probe(flow, PATIENCE))
    }

    fn netns(&self, flow: &Flow) -> &Netns {
        netns(self.cluster, flow.from)
    }

    /// Asks until everyone of `by` has answered, and often enough to meet anyone else.
    fn answers(
        &self,
        flow: &Flow,
        by: &BTreeSet<&str>,
        seen: Seen,
        least: usize,
    ) -> Result<(), Vec<Outcome>> {
        let most = 60 * by.len();
        let ask = || self.probe(flow, PATIENCE).ask();
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
        let wanted_outcomes = questions(1);
        let ask = || self.probe(flow, PATIENCE).ask();
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

    /// Each question binds the client anew, so between two of them it has to be quiet. Nothing
    /// can be observed meanwhile without disturbing it.
    fn moves(&self, flow: &Flow, away_from: &str, idle: Duration) -> Result<(), Vec<Outcome>> {
        let ask = || self.probe(flow, PATIENCE).ask();
        let mut outcomes = Vec::new();
        let deadline = Instant::now() + FORGETTING;
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

    /// Asks a few times per timeout for three timeouts. When this machine was too busy to ask in
    /// time, the client may have been forgotten by right, and everything begins again.
    fn refreshes(
        &self,
        flow: &Flow,
        among: &BTreeSet<&str>,
        timeout: Duration,
    ) -> Result<(), Vec<Outcome>> {
        let ask = || self.probe(flow, PATIENCE).ask();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let (mut since, mut asked) = (Instant::now(), Instant::now());
        let deadline = since + FORGETTING;
        while since.elapsed() < 3 * timeout && Instant::now() < deadline {
            let before = Instant::now();
            let outcome = self.netns(flow).run(ask);
            let same = outcomes.last().is_none_or(|it| it.name() == outcome.name());
            let in_time = asked.elapsed() < timeout;
            outcomes.push(outcome);
            if in_time && !same {
                return Err(outcomes);
            }
            if !in_time {
                since = Instant::now();
            }
            asked = before;
            eventually(timeout / 4, || None::<()>);
        }
        let known = |it: &Outcome| it.name().is_some_and(|name| among.contains(name));
        agree(outcomes.iter().all(known), outcomes)
    }

    /// Silence is asked once more: a refusal that arrives while its socket is still busy with the
    /// SYN is not heard (`sock_owned_by_user` in the kernel's `tcp_v4_err`).
    fn refused<'f>(&self, flows: &'f [Flow]) -> Result<(), Refuted<'f>> {
        match self.each(flows, AT_ONCE, is_refusal) {
            Err((flow, outcomes)) if outcomes.iter().all(|it| is_silence(flow, it)) => {
                self.each(flows, AT_ONCE, is_refusal)
            }
            done => done,
        }
    }

    fn each<'f>(
        &self,
        flows: &'f [Flow],
        timeout: Duration,
        is_right: fn(&Flow, &Outcome) -> bool,
    ) -> Result<(), Refuted<'f>> {
        let mut outcomes = flows.iter().zip(self.ask_once(flows, timeout));
        match outcomes.find(|(flow, outcome)| !is_right(flow, outcome)) {
            Some((flow, outcome)) => Err((flow, vec![outcome])),
            None => Ok(()),
        }
    }
}

/// How many questions meet somebody who must not be in a pool of this size: of a hundred pools
/// that are one too large, less than one goes unnoticed. Where the processor is emulated they
/// are a third, and one client in eight does not notice; other clients and families ask as well.
fn questions(pool: usize) -> usize {
    match in_vm() {
        true => 2 + 2 * pool,
        false => 6 + 6 * pool,
    }
}

/// A port that comes again only after all others, for whichever flow.
fn fresh_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let port = FIRST_PORT + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
    u16::try_from(port).expect("all of them are ports")
}

fn agree(right: bool, outcomes: Vec<Outcome>) -> Result<(), Vec<Outcome>> {
    match right {
        true => Ok(()),
        false => Err(outcomes),
    }
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
