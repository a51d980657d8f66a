//! A client's direct connection to an endpoint, and one from the same port to a Service that masquerades it.

use std::net::SocketAddr;

use sluice_ebpf::Trial;

use super::becomes;
use super::harness::{Bench, Family, GO_ON, families, run};
use super::packets::{ACK, AWAY, CLIENT, ENDPOINT, Kind, SYN, Segment, packet, read, segment, tcp};

fn word(flags: u8, sequence: u32, acknowledged: u32) -> Segment {
    Segment {
        payload: b"word",
        ..tcp(flags, sequence, acknowledged)
    }
}

/// An open connection of the client to the frontend that masquerades it.
struct Open<'a> {
    bench: &'a Bench,
    it: &'a Family,
    /// The client as the endpoint sees it.
    source: SocketAddr,
}

impl<'a> Open<'a> {
    fn new(bench: &'a Bench, it: &'a Family) -> Self {
        let syn = segment(it.client, it.masqueraded, word(SYN, CLIENT - 1, 0));
        let left = bench.leave(&bench.arrive(&syn).packet).packet;
        let source = read(&left).expect("it is whole").from;
        let open = Self { bench, it, source };
        open.answers(word(SYN | ACK, ENDPOINT - 1, CLIENT));
        open.asks();
        open.answers(word(ACK, ENDPOINT, CLIENT + 4));
        open
    }

    /// Both directions go on, with the source that the endpoint knows. Returns the source between both rewrites.
    #[track_caller]
    fn goes_on(&self) -> SocketAddr {
        self.answers(word(ACK, ENDPOINT, CLIENT + 4));
        self.asks()
    }

    #[track_caller]
    fn asks(&self) -> SocketAddr {
        let Self { bench, it, source } = self;
        let sent = segment(it.client, it.masqueraded, word(ACK, CLIENT, ENDPOINT));
        let arrived = bench.arrive(&sent).packet;
        let between = read(&arrived).expect("it is whole").from;
        becomes(&sent, &arrived, between, it.endpoint);
        becomes(
            &arrived,
            &bench.leave(&arrived).packet,
            *source,
            it.endpoint,
        );
        between
    }

    #[track_caller]
    fn answers(&self, answer: Segment) {
        let Self { bench, it, source } = self;
        let sent = segment(it.endpoint, *source, answer);
        let left = bench.leave(&bench.arrive(&sent).packet).packet;
        becomes(&sent, &left, it.masqueraded, it.client);
    }
}

/// A packet of no Service arrives and leaves.
#[track_caller]
fn passes(bench: &Bench, sent: &[u8]) {
    for Trial { action, packet, .. } in [bench.arrive(sent), bench.leave(sent)] {
        assert_eq!((action, &*packet), (GO_ON, sent));
    }
}

/// The direct connection was there first, and no entry knows it. Whoever speaks first in it, both go on.
#[test]
fn an_older_connection_keeps_its_port() {
    run("older", |bench| {
        let mut connections = 0;
        for mut it in families() {
            for is_clients in [true, false] {
                it.client.set_port(it.client.port() + 1);
                let open = Open::new(bench, &it);
                assert_eq!(open.goes_on(), it.client);
                let [asks, answers] = direct(&it, AWAY);
                let [first, second] = if is_clients {
                    [asks, answers]
                } else {
                    [answers, asks]
                };
                for sent in [&first, &second, &first] {
                    passes(bench, sent);
                }
                let between = open.goes_on();
                assert_eq!(between.ip(), it.client.ip());
                assert_ne!(between.port(), it.client.port());
                // Once and for all.
                passes(bench, &second);
                assert_eq!(open.goes_on(), between);
                // The next one begins without the numbers of this one.
                let next = SocketAddr::new(it.client.ip(), it.client.port() + 100);
                bench.arrive(&segment(next, it.open, word(SYN, 1, 0)));
                let entries = bench.maps().flows.entries().expect("they are listed");
                connections += 1;
                assert_eq!(entries.len(), 7 * connections, "four and three");
                let answers = entries
                    .iter()
                    .find(|it| it.0.destination_port == next.port());
                assert_eq!(answers.map(|it| it.1.window), Some(0));
            }
        }
    });
}

/// Nothing leaves to an endpoint on the node's own network, masqueraded or not: it sees the client, and one port for both
/// connections.
#[test]
fn an_endpoint_of_the_node_tells_two_connections_apart() {
    run("older-here", |bench| {
        for mut it in families() {
            for to in [it.open, it.masqueraded] {
                let answers = |endpoint, client, seen, answer| {
                    let sent = segment(endpoint, client, answer);
                    becomes(&sent, &bench.send(&sent).packet, to, seen);
                };
                // The Service first.
                it.client.set_port(it.client.port() + 1);
                let syn = segment(it.client, to, word(SYN, CLIENT - 1, 0));
                let led = bench.arrive(&syn).packet;
                becomes(&syn, &led, it.client, it.endpoint);
                let accept = word(SYN | ACK, ENDPOINT - 1, CLIENT);
                answers(it.endpoint, it.client, it.client, accept);
                bench.arrive(&segment(it.client, to, word(ACK, CLIENT, ENDPOINT)));
                let direct = packet(Kind::Syn, it.client, it.endpoint);
                let made = bench.arrive(&direct).packet;
                let other = read(&made).expect("it is whole").from;
                assert_ne!(other.port(), it.client.port());
                becomes(&direct, &made, other, it.endpoint);

                // The direct one first: no entry knows it.
                let client = SocketAddr::new(it.client.ip(), it.client.port() + 100);
                let syn = segment(client, to, word(SYN, CLIENT - 1, 0));
                assert_eq!(bench.arrive(&syn).action, GO_ON);
                let unknown = word(ACK, ENDPOINT + AWAY, CLIENT + AWAY);
                answers(it.endpoint, client, client, unknown);
                let led = bench.arrive(&syn).packet;
                let other = read(&led).expect("it is whole").from;
                assert_ne!(other.port(), client.port());
                answers(it.endpoint, other, client, accept);
                let direct = segment(it.endpoint, client, unknown);
                assert_eq!(bench.send(&direct).packet, direct);
            }
        }
    });
}

/// A packet of the client to the endpoint itself, and one of the answers, so far from those of the connection to the Service.
fn direct(it: &Family, away: u32) -> [Vec<u8>; 2] {
    let [client, endpoint] = [CLIENT, ENDPOINT].map(|it| it + away);
    [
        segment(it.client, it.endpoint, word(ACK, client, endpoint)),
        segment(it.endpoint, it.client, word(ACK, endpoint, client)),
    ]
}

/// Its own packets do not move a connection: one of another connection has other numbers. And what arrives at an upper interface
/// was rewritten below.
#[test]
fn a_connection_keeps_its_port_among_its_own_packets() {
    run("older-own", |bench| {
        for it in families() {
            let open = Open::new(bench, &it);
            for sent in [direct(&it, 0), direct(&it, 1 << 19)].as_flattened() {
                bench.arrive(sent);
                assert_eq!(open.goes_on(), it.client);
            }
            for sent in direct(&it, AWAY) {
                bench.arrive_again(&sent);
                assert_eq!(open.goes_on(), it.client);
            }
        }
    });
}
