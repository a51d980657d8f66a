//! Agents that are killed and start again, under load.

use std::net::SocketAddr;

use sluice_bpf_abi::Counter;
use sluice_ebpf::Sizes;
use sluice_lab::{Cluster, Hammer, Probe, Protocol, Server, Session, eventually, require_netns};

use crate::direct::udp::Flow;
use crate::direct::world::{
    Agent, NODES, PATIENT, POD_PORT, agent_with, cluster, forbid_replies, serve, services,
    settings, targets,
};

/// The endpoint.
const THERE: [(&str, &str); 1] = [("there", "node-b")];

/// An agent whose table has room for all that one client opens while the test runs, on a busy machine, too: of a table that is
/// half full no client has more than its share, and new connections of one that has are dropped.
fn roomy<'a>(cluster: &'a Cluster, name: &'static str) -> Agent<'a> {
    let sizes = Sizes {
        flows: 1 << 21,
        ..Sizes::default()
    };
    agent_with(cluster, name, settings(), sizes)
}

/// Clients that never stop: each request opens another connection, or sends the first datagram of another flow.
fn hammers(cluster: &Cluster) -> Vec<Hammer> {
    let client = cluster.client("cli").netns();
    let kinds: [fn(SocketAddr) -> Probe; 2] = [Probe::tcp, Probe::udp];
    let probes = targets()
        .into_iter()
        .flat_map(|target| kinds.map(|kind| kind(target).timeout(PATIENT)));
    let hammers: Vec<_> = probes
        .map(|probe| Hammer::start(client, probe).unwrap())
        .collect();
    more(&hammers);
    hammers
}

/// Waits for further requests of each.
#[track_caller]
fn more(hammers: &[Hammer]) {
    for hammer in hammers {
        let until = hammer.attempts() + 20;
        let reached = || (hammer.attempts() >= until).then_some(());
        eventually(3 * PATIENT, reached).expect("requests go on");
    }
}

/// Connections and flows that are open.
struct Open {
    sessions: Vec<Session>,
    flows: Vec<Flow>,
}

impl Open {
    fn new(cluster: &Cluster) -> Self {
        let client = cluster.client("cli").netns();
        Self {
            sessions: targets()
                .map(|it| Session::connect(client, it).unwrap())
                .into(),
            flows: targets().map(|it| Flow::open(client, it)).into(),
        }
    }

    #[track_caller]
    fn go_on(&mut self) {
        self.sessions.iter_mut().for_each(|it| it.ping().unwrap());
        self.flows.iter_mut().for_each(|it| it.ask().unwrap());
    }
}

/// Ends an agent as a crash would: its programs, maps and tunnel stay. Then another one starts.
fn start_again<'a>(cluster: &'a Cluster, agents: &mut Vec<Agent<'a>>, meanwhile: impl FnOnce()) {
    let killed = agents.remove(0);
    let name = killed.name();
    drop(killed);
    meanwhile();
    let mut again = roomy(cluster, name);
    again.change(services(cluster, "", &THERE));
    agents.push(again);
}

/// Whichever node's agent is killed, open connections go on, new ones are answered, and the programs of the next
/// agent know the connections of the one before.
#[test]
fn connections_survive_their_agents() {
    require_netns!();
    let cluster = cluster();
    let there = cluster.pod("there").netns();
    let _servers = [Protocol::Tcp, Protocol::Udp]
        .map(|it| Server::start(there, "there", POD_PORT, it).unwrap());
    let mut agents = Vec::from(NODES.map(|it| roomy(&cluster, it)));
    serve(&cluster, &mut agents, "", &THERE);
    forbid_replies(&cluster);
    let mut open = vec![Open::new(&cluster)];
    let hammers = hammers(&cluster);
    for _ in 0..2 * NODES.len() {
        start_again(&cluster, &mut agents, || {
            more(&hammers);
            open.push(Open::new(&cluster));
            open.iter_mut().for_each(Open::go_on);
        });
        more(&hammers);
        open.iter_mut().for_each(Open::go_on);
    }
    let reports: Vec<_> = hammers.into_iter().map(Hammer::stop).collect();
    for agent in &mut agents {
        for counter in [Counter::ClientLimit, Counter::FlowsFull] {
            assert_eq!(agent.counted(counter), [0; 2], "{counter:?}");
        }
    }
    for report in reports {
        assert!(report.failures.is_empty(), "{report}");
    }
    // Node-a's agent is the first again.
    let tunnelled = agents[0].counted(Counter::Tunnelled);
    assert!(tunnelled.iter().all(|it| *it > 2), "{tunnelled:?}");
}
