//! Clients that ask without pause lose no query when the process is killed, starts again, or gives the
//! queries back.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};

use sluice_dns_agent::local_dns::DNS_PORT;
use sluice_lab::{Probe, require_netns};

use crate::holder::Holder;
use crate::resolver::{From, Kind, PORTS, Question, Resolver, account, more};
use crate::world::{Plane, World, addresses, cluster_ips};

/// On each data plane. In a round each of the ten clients has at least 40 answers.
const ROUNDS: u32 = 4;

/// Servers of the lab say their name, over TCP before they are asked.
const WHO: Question = Question {
    over_udp: b"who?\n",
    over_tcp: b"",
    is_whole: |it| it.ends_with(b"\n"),
    from: |it| {
        if it.starts_with(b"local") {
            Some(From::Local)
        } else {
            Some(From::Cluster)
        }
    },
};

fn clients(world: &World) -> Vec<Resolver> {
    let mut clients = Vec::new();
    // Ports below those that the kernel assigns.
    let mut ports = (10_000..).step_by(PORTS.into());
    for address in [addresses()[0], addresses()[1], cluster_ips()[0]] {
        let fresh = Kind::Fresh(ports.next().unwrap());
        let server = SocketAddr::new(address, DNS_PORT);
        for kind in [fresh, Kind::OneSocket, Kind::Tcp] {
            clients.push(Resolver::start(
                world.cluster.pod("shell").netns(),
                server,
                kind,
                WHO,
            ));
        }
    }
    let server = SocketAddr::new(addresses()[0], DNS_PORT);
    let fresh = Kind::Fresh(ports.next().unwrap());
    clients.push(Resolver::start(world.node(), server, fresh, WHO));
    clients
}

#[test]
fn killed_and_started_again() {
    require_netns!();
    for plane in [Plane::Nftables, Plane::ALL[1], Plane::Ebpf] {
        let world = World::new(plane, World::recognising_pods(), true);
        let mut holder = Holder::taking(&world, DNS_PORT);
        let clients = clients(&world);
        for _ in 0..ROUNDS {
            more(&clients, |it| &it.local, 20);
            holder.kill();
            more(&clients, |it| &it.cluster, 20);
            holder = Holder::taking(&world, DNS_PORT);
        }
        more(&clients, |it| &it.local, 20);
        account(clients, 2 * u64::from(ROUNDS));
    }
}

#[test]
fn given_back_and_taken_again() {
    require_netns!();
    for plane in [Plane::Nftables, Plane::Ebpf] {
        let world = World::new(plane, World::recognising_pods(), true);
        let mut holder = Holder::taking(&world, DNS_PORT);
        let clients = clients(&world);
        for _ in 0..ROUNDS {
            more(&clients, |it| &it.local, 20);
            holder.say("give back");
            more(&clients, |it| &it.cluster, 20);
            holder.say("take");
        }
        account(clients, 2 * u64::from(ROUNDS));
    }
}

/// The kernel acknowledges the end of a connection for a process that is gone. If conntrack saw that packet as
/// the first of a connection, the client's next query from the port would come to this node.
#[test]
fn no_port_of_a_client_stays_with_a_dead_process() {
    require_netns!();
    for plane in [Plane::Nftables, Plane::Ebpf] {
        let world = World::new(plane, World::recognising_pods(), true);
        for address in world.dns().served() {
            let holder = Holder::taking(&world, DNS_PORT);
            let target = SocketAddr::new(address, DNS_PORT);
            let (mut stream, own) = world.cluster.pod("shell").netns().run(|| {
                let stream = TcpStream::connect(target).unwrap();
                let own = stream.local_addr().unwrap();
                (stream, own)
            });
            // The server closes first, the client after its death.
            stream.read_to_string(&mut String::new()).unwrap();
            holder.kill();
            drop(stream);
            let entries = world.connections();
            let of_server = |it: &String| it.contains(&format!(" src={address} dst={} ", own.ip()));
            assert!(!entries.iter().any(of_server), "{entries:#?}");
            let probe = Probe::tcp(target).source_port(own.port());
            let outcome = probe.from(world.cluster.pod("shell").netns());
            assert_eq!(outcome.name(), Some("cluster"), "{target}: {outcome}");
        }
    }
}

/// The same for sockets on another port.
#[test]
fn killed_with_another_port() {
    require_netns!();
    let world = World::new(Plane::Nftables, World::recognising_pods(), true);
    let mut holder = Holder::taking(&world, 5300);
    let clients = clients(&world);
    for _ in 0..ROUNDS {
        more(&clients, |it| &it.local, 20);
        holder.kill();
        more(&clients, |it| &it.cluster, 20);
        holder = Holder::taking(&world, 5300);
    }
    account(clients, 2 * u64::from(ROUNDS));
}
