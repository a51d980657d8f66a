//! Clients that ask without pause lose no query while the agent is killed, starts again, or stops.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use simple_dns::TYPE;
use sluice_agent::status::Status;
use sluice_lab::require_netns;
use sluice_model::DNS_ADDRESSES;

use crate::common::Agent;
use crate::dns::client::query;
use crate::dns::resolver::{From, Kind, PORTS, Question, Resolver, account, more};
use crate::dns::world::{CENTRAL, CLUSTER_DNS, LOCAL, WEB, World};

const ROUNDS: u64 = 4;

/// Asks for the name that agent and cluster answer differently.
fn question() -> Question {
    let message = query(WEB, TYPE::A);
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    Question {
        over_tcp: [&length[..], &message].concat().leak(),
        over_udp: message.leak(),
        is_whole: |it| {
            let length = it.first_chunk().map(|it| u16::from_be_bytes(*it));
            length.is_some_and(|length| it.len() >= 2 + usize::from(length))
        },
        from: |it| {
            let octets = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
            let has = |text: &str| it.windows(4).any(|it| it == octets(text));
            match (has(LOCAL), has(CENTRAL)) {
                (true, false) => Some(From::Local),
                (false, true) => Some(From::Cluster),
                _ => None,
            }
        },
    }
}

fn clients(world: &World) -> Vec<Resolver> {
    let question = question();
    let mut clients = Vec::new();
    // Below those that the kernel gives out.
    let mut ports = (10_000..).step_by(PORTS.into());
    for server in [DNS_ADDRESSES[0], CLUSTER_DNS.parse().unwrap()] {
        let server = SocketAddr::new(server, 53);
        let fresh = Kind::Fresh(ports.next().unwrap());
        for kind in [fresh, Kind::OneSocket, Kind::Tcp] {
            clients.push(Resolver::start(world.client(), server, kind, question));
        }
        let fresh = Kind::Fresh(ports.next().unwrap());
        clients.push(Resolver::start(world.node(), server, fresh, question));
    }
    clients
}

fn stop(mut agent: Agent) {
    let id = Pid::from_raw(agent.0.id().try_into().unwrap());
    kill(id, Signal::SIGTERM).unwrap();
    assert!(agent.0.wait().unwrap().success());
}

#[test]
fn killed_stopped_and_started_again() {
    require_netns!();
    let world = World::new();
    let start = || Agent::run(&world.files, world.proxy("nftables"));
    let mut agent = start();
    world.until(DNS_ADDRESSES[0], WEB, &[LOCAL]);
    let clients = clients(&world);
    let local = |count| more(&clients, |it| &it.local, count);
    let cluster = |count| more(&clients, |it| &it.cluster, count);
    for _ in 0..ROUNDS {
        for end in [drop, stop] {
            local(20);
            end(agent);
            cluster(20);
            agent = start();
        }
    }
    local(20);
    account(clients, 4 * ROUNDS);
}

/// The rules of an earlier agent are all that a node has whose API server is gone.
#[test]
fn an_agent_that_knows_nothing_leaves_queries_to_the_clusters_dns() {
    require_netns!();
    let world = World::new();
    drop(Agent::run(&world.files, world.proxy("nftables")));
    let clients = clients(&world);
    more(&clients, |it| &it.cluster, 20);
    let agent = Agent(world.without_api_server("nftables").spawn().unwrap());
    let id = agent.0.id();
    let is_up = |it: &Status| it.agent.pid == id && !it.synced;
    world.files.await_status("started", is_up);
    more(&clients, |it| &it.cluster, 20);
    stop(agent);
    more(&clients, |it| &it.cluster, 20);
    let answered_here = |it: &Resolver| it.counts.local.load(Ordering::Relaxed);
    assert_eq!(clients.iter().map(answered_here).sum::<u64>(), 0);
    // The agent ends and changes nothing; a busy machine may be late.
    account(clients, 1);
}
