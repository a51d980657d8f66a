//! Connections that exist, as policies see them, and the end of those that policies forbid.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use sluice_netlink::Family;
use sluice_netlink::RequestError;
use sluice_netlink::conntrack::{Conntrack, Flow};
use sluice_nft::Kernel;
use sluice_node::{Handle, chain};
use sluice_policy_plan::lookup::{Packet, lookup};
use sluice_policy_plan::{Connections, Plan};
use sluice_reconcile::BackendError;
use tracing::{info, warn};

use crate::Policies;

/// Shortest time between two walks through the table of connections, which may have millions. A connection that began just
/// before the rules were written is in the table by then, so that each change has two walks.
const PACE: Duration = Duration::from_secs(1);
/// Connections that the agent's thread judges at a time, in about two milliseconds.
const JUDGED: usize = 1_000;

/// The tracked connections of the calling thread's network namespace that one plan allows to begin and another one does
/// not, each as its first packet.
///
/// # Errors
///
/// Connection tracking cannot be read: the caller needs `CAP_NET_ADMIN`.
pub fn forbidden(before: &Plan, after: &Plan) -> Result<Vec<Packet>, BackendError> {
    let mut table = open()?;
    let mut found = Vec::new();
    for family in [Family::Ipv4, Family::Ipv6] {
        let listed = table.for_each_flow(family, |flow| {
            let it = first_packet(&flow);
            if lookup(before, &it).is_allowed() && !lookup(after, &it).is_allowed() {
                found.push(it);
            }
        });
        listed.map_err(unlisted)?;
    }
    Ok(found)
}

fn open() -> Result<Conntrack, BackendError> {
    Conntrack::open().map_err(|error| BackendError::new("open connection tracking", error))
}

fn unlisted(error: RequestError) -> BackendError {
    BackendError::new("list connections", error)
}

/// What cuts connections after a change of rules.
pub(crate) struct Cutting {
    /// For policies that do not say.
    pub(crate) usual: Connections,
    begin: Sender<()>,
}

impl Cutting {
    /// Cuts what the rules now forbid.
    pub(crate) fn begin(&self) {
        // The thread ends with the agent.
        let _ = self.begin.send(());
    }
}

/// Starts the thread that ends connections, in the network namespace of the caller. `usual` counts for policies that do not
/// say what becomes of them.
///
/// # Errors
///
/// No thread could be started.
pub fn cutting(
    usual: Connections,
    policies: Handle<Policies>,
) -> io::Result<impl FnOnce(Policies) -> Policies> {
    let (begin, begun) = mpsc::channel();
    let run = move || run(&begun, &policies);
    thread::Builder::new().name("cut".into()).spawn(run)?;
    Ok(move |it: Policies| it.with_cutting(Cutting { usual, begin }))
}

fn run(begun: &Receiver<()>, policies: &Handle<Policies>) {
    while begun.recv().is_ok() {
        for _ in 0..2 {
            // What changed until now is seen by this walk.
            begun.try_iter().for_each(drop);
            if let Err(error) = walk(policies) {
                let why = chain(&error);
                warn!(
                    why,
                    "open connections that network policies forbid may go on"
                );
            }
            #[expect(clippy::disallowed_methods, reason = "a pace")]
            thread::sleep(PACE);
        }
    }
}

fn walk(policies: &Handle<Policies>) -> Result<(), BackendError> {
    let mut table = open()?;
    let mut judging = Judging {
        policies,
        waiting: Vec::new(),
        cut: Ok(Some(Vec::new())),
    };
    for family in [Family::Ipv4, Family::Ipv6] {
        let listed = table.for_each_flow(family, |it| judging.add(it));
        listed.map_err(unlisted)?;
    }
    judging.ask();
    let Some(cut) = judging.cut? else {
        // The agent is stopping.
        return Ok(());
    };
    for flow in &cut {
        let deleted = table.delete(flow);
        deleted.map_err(|error| BackendError::new("delete a connection", error))?;
    }
    if !cut.is_empty() {
        let count = cut.len();
        info!(count, "cut open connections that network policies forbid");
    }
    Ok(())
}

/// Asks the agent's thread about connections while the kernel lists them: only those that are cut are kept.
struct Judging<'a> {
    policies: &'a Handle<Policies>,
    waiting: Vec<Flow>,
    /// Those that are held cut; `None` when the agent is stopping.
    cut: Result<Option<Vec<Flow>>, BackendError>,
}

impl Judging<'_> {
    fn add(&mut self, flow: Flow) {
        self.waiting.push(flow);
        if self.waiting.len() == JUDGED {
            self.ask();
        }
    }

    fn ask(&mut self) {
        let flows = std::mem::take(&mut self.waiting);
        let Ok(Some(all)) = &mut self.cut else {
            return;
        };
        match self.policies.ask(move |it| it.cut(flows)).blocking_recv() {
            Ok(Ok(cut)) => all.extend(cut),
            Ok(Err(error)) => self.cut = Err(error),
            Err(_) => self.cut = Ok(None),
        }
    }
}

impl<K: Kernel> Policies<K> {
    /// Holds those of these connections cut that the policies forbid and do not keep, and returns them.
    fn cut(&mut self, mut flows: Vec<Flow>) -> Result<Vec<Flow>, BackendError> {
        let Some(usual) = self.usual_for_open() else {
            return Ok(Vec::new());
        };
        let planner = self.planner();
        flows.retain(|it| {
            let decision = lookup(planner.plan(), &first_packet(it));
            let reasons = [decision.egress, decision.ingress];
            reasons.iter().any(|it| planner.is_cut(it, usual))
        });
        if !flows.is_empty() {
            self.tables_mut().cut(&flows)?;
        }
        Ok(flows)
    }
}

/// The source is not masqueraded yet where rules see the packet, and the destination is translated.
fn first_packet(flow: &Flow) -> Packet {
    let mut protocols = sluice_model::Protocol::ALL.into_iter();
    let protocol = protocols.find(|it| it.number() == flow.original.protocol);
    Packet {
        source: flow.original.src,
        destination: flow.reply.src,
        port: protocol.map(|it| (it, flow.reply.src_port)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Instant;

    use sluice_model::Protocol;
    use sluice_netlink::conntrack::Tuple;
    use sluice_node::Consumer as _;
    use sluice_policy_plan::testing::parse;

    use super::*;
    use crate::policies::testing::policies_of;

    fn flow(source: u8, destination: u8) -> Flow {
        let tuple = |src: u8, dst: u8, src_port, dst_port| Tuple {
            src: [10, 0, 0, src].into(),
            dst: [10, 0, 0, dst].into(),
            protocol: 6,
            src_port,
            dst_port,
        };
        Flow {
            original: tuple(source, destination, 40_000, 80),
            reply: tuple(destination, source, 80, 40_000),
            id: None,
            zone: 0,
        }
    }

    /// Who may go on is a question of the policy that forbids, and then of the node.
    #[test]
    fn only_what_is_forbidden_is_cut() {
        for (usual, of_policy, expected) in [
            (Connections::Keep, None, &[][..]),
            (Connections::Cut, None, &[3]),
            (Connections::Keep, Some(Connections::Cut), &[3]),
            (Connections::Cut, Some(Connections::Keep), &[]),
        ] {
            let mut world = parse(
                "ns a team=red
                pod a/web n1 10.0.0.1 app=web
                pod a/friend n1 10.0.0.2 app=friend
                pod a/stranger n2 10.0.0.3 app=stranger
                np a/web ingress pods=app=web from=/app=friend",
            );
            world.policies[0].connections = of_policy;
            let (begin, begun) = mpsc::channel();
            let mut policies = policies_of(&world).with_cutting(Cutting { usual, begin });
            policies.step(Instant::now());
            assert_eq!(
                begun.try_recv().is_ok(),
                expected == [3] || usual == Connections::Cut
            );
            let flows = vec![flow(2, 1), flow(3, 1), flow(1, 3)];
            let cut = policies.cut(flows).expect("the kernel takes it");
            let cut: Vec<IpAddr> = cut.iter().map(|it| it.original.src).collect();
            let expected: Vec<IpAddr> = expected.iter().map(|it| [10, 0, 0, *it].into()).collect();
            assert_eq!(cut, expected, "{usual:?} {of_policy:?}");
        }
    }

    /// A client pod asks a Service, and its address is masqueraded.
    #[test]
    fn a_connection_is_seen_as_rules_see_it() {
        let tuple = |src: [u8; 4], dst: [u8; 4], src_port, dst_port| Tuple {
            src: src.into(),
            dst: dst.into(),
            protocol: 6,
            src_port,
            dst_port,
        };
        let flow = Flow {
            original: tuple([10, 0, 0, 1], [10, 96, 0, 1], 40_000, 80),
            reply: tuple([10, 0, 0, 2], [192, 0, 2, 1], 8080, 50_000),
            id: None,
            zone: 0,
        };
        let expected = Packet {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            port: Some((Protocol::Tcp, 8080)),
        };
        assert_eq!(first_packet(&flow), expected);
    }
}
