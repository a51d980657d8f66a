//! Connections that rules of another mode open while the programs are there, from ports of connections that ended.

use std::net::SocketAddr;

use super::becomes;
use super::harness::{Bench, Family, GO_ON, families, run};
use super::packets::{ACK, AWAY, CLIENT, ENDPOINT, RST, SYN, read, segment, tcp};

#[track_caller]
fn passes(bench: &Bench, leaves: bool, sent: &[u8]) {
    let made = if leaves {
        bench.leave(sent)
    } else {
        bench.arrive(sent)
    };
    assert_eq!((made.action, &*made.packet), (GO_ON, sent));
}

/// The client opens a connection to a frontend and resets it. Returns its address as the endpoint saw it.
fn opens_and_resets(bench: &Bench, it: &Family, frontend: SocketAddr) -> SocketAddr {
    let asks = |flags, sequence, acknowledged| {
        let sent = segment(it.client, frontend, tcp(flags, sequence, acknowledged));
        bench.leave(&bench.arrive(&sent).packet).packet
    };
    let left = asks(SYN, CLIENT - 1, 0);
    let source = read(&left).expect("it is whole").from;
    let accept = segment(it.endpoint, source, tcp(SYN | ACK, ENDPOINT - 1, CLIENT));
    let told = bench.leave(&bench.arrive(&accept).packet).packet;
    becomes(&accept, &told, frontend, it.client);
    asks(ACK, CLIENT, ENDPOINT);
    asks(RST | ACK, CLIENT, ENDPOINT);
    source
}

/// The endpoint accepts what rules opened with the port of a connection that its client has reset.
#[test]
fn an_endpoint_accepts_what_rules_opened() {
    run("accepts-rules", |bench| {
        for it in families() {
            let source = opens_and_resets(bench, &it, it.masqueraded);
            let accept = tcp(SYN | ACK, ENDPOINT + AWAY, CLIENT + AWAY);
            passes(bench, false, &segment(it.endpoint, source, accept));
        }
    });
}

/// Rules lead a client to the endpoint from the port of its connection that it has reset: the SYN leaves as it came, and
/// is not masqueraded as that one was.
#[test]
fn what_rules_led_leaves_as_it_is() {
    run("led-by-rules", |bench| {
        for it in families() {
            opens_and_resets(bench, &it, it.masqueraded);
            let syn = segment(it.client, it.endpoint, tcp(SYN, CLIENT + AWAY, 0));
            passes(bench, true, &syn);
            let accept = tcp(SYN | ACK, ENDPOINT + AWAY, CLIENT + AWAY + 1);
            passes(bench, true, &segment(it.endpoint, it.client, accept));
            // Its next one to the frontend begins anew.
            let source = opens_and_resets(bench, &it, it.masqueraded);
            assert_ne!(source.ip(), it.client.ip());
        }
    });
}

/// A SYN that is sent again, after a reset of another connection between both rewrites, is still of its connection.
#[test]
fn a_syn_again_stays_with_its_connection() {
    run("syn-again", |bench| {
        for it in families() {
            let syn = segment(it.client, it.open, tcp(SYN, CLIENT - 1, 0));
            let led = bench.arrive(&syn).packet;
            // A direct one of the same port left at the same time, and is reset.
            let other = segment(it.client, it.endpoint, tcp(SYN, CLIENT + AWAY, 0));
            passes(bench, true, &other);
            let reset = segment(it.client, it.endpoint, tcp(RST, CLIENT + AWAY + 1, 0));
            passes(bench, true, &reset);
            for _ in 0..2 {
                assert_eq!(bench.arrive(&syn).packet, led);
                passes(bench, true, &led);
                let accept = segment(it.endpoint, it.client, tcp(SYN | ACK, ENDPOINT, CLIENT));
                becomes(&accept, &bench.leave(&accept).packet, it.open, it.client);
            }
        }
    });
}

/// Netfilter gave a connection of the programs another source port between both rewrites, so no packet of it left by its
/// entry. The client's direct connection from the same port gets another one.
#[test]
fn a_direct_connection_beside_one_that_never_left() {
    run("never-left", |bench| {
        for it in families() {
            let led = bench.arrive(&segment(it.client, it.open, tcp(SYN, CLIENT - 1, 0)));
            // It arrives once more, by way of an interface that the programs do not know.
            passes(bench, false, &led.packet);
            let syn = segment(it.client, it.endpoint, tcp(SYN, CLIENT + AWAY, 0));
            let made = bench.arrive(&syn).packet;
            let source = read(&made).expect("it is whole").from;
            assert_ne!(source.port(), it.client.port());
            becomes(&syn, &made, source, it.endpoint);
            passes(bench, true, &made);
            let accept = tcp(SYN | ACK, ENDPOINT, CLIENT + AWAY + 1);
            let accept = segment(it.endpoint, source, accept);
            becomes(
                &accept,
                &bench.leave(&accept).packet,
                it.endpoint,
                it.client,
            );
        }
    });
}
