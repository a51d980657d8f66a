//! Connections.

#[cfg(test)]
use std::io::Write;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{CLUSTER, Client, Served, TcpClient, addresses, eventually, query};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use sluice_dns::{Limits, Options};

const ONE: &str = "one.default.svc.cluster.local.";

/// Forwards everything but the cluster's zone to this address.
fn forwarding(upstream: std::net::SocketAddr) -> String {
    CLUSTER.replace("loadbalance", &format!("forward . {upstream}"))
}

#[test]
fn queries_are_answered_in_the_order_of_their_answers() {
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = forwarding(upstream.local_addr().unwrap());
    let served = Served::new(&text);
    let mut client = TcpClient::new(served.address());
    // The upstream takes UDP only, and never answers.
    let slow = query("slow.example.", RecordType::A);
    client.send(&slow);
    for _ in 0..10 {
        let asked = query(ONE, RecordType::A);
        let answer = client.ask(&asked);
        assert_eq!(answer.id, asked.id);
        assert_eq!(addresses(&answer), [[10, 96, 0, 1]]);
    }
}

#[test]
fn many_queries_in_one_segment_are_all_answered() {
    let served = Served::new(CLUSTER);
    let mut client = TcpClient::new(served.address());
    let queries: Vec<Message> = (0..200).map(|_| query(ONE, RecordType::A)).collect();
    let mut bytes = Vec::new();
    for query in &queries {
        let query = query.to_vec().unwrap();
        bytes.extend(u16::try_from(query.len()).unwrap().to_be_bytes());
        bytes.extend(query);
    }
    client.stream.write_all(&bytes).unwrap();
    // The client's side is closed: the answers come nevertheless.
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut ids: Vec<u16> = queries.iter().map(|it| it.id).collect();
    while let Some(answer) = client.receive() {
        let found = ids
            .iter()
            .position(|it| *it == answer.id)
            .expect("an id of ours");
        ids.swap_remove(found);
    }
    assert!(ids.is_empty());
}

#[test]
fn a_message_that_comes_in_pieces_is_read() {
    let served = Served::new(CLUSTER);
    let mut client = TcpClient::new(served.address());
    let asked = query(ONE, RecordType::A);
    let bytes = asked.to_vec().unwrap();
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    for byte in length.iter().chain(&bytes) {
        client.stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(client.receive().unwrap().id, asked.id);
}

#[test]
fn a_message_that_is_too_large_ends_the_connection() {
    let served = Served::new(CLUSTER);
    let mut client = TcpClient::new(served.address());
    client.stream.write_all(&[0xff, 0xff, 0, 0]).unwrap();
    assert!(client.receive().is_none());
}

#[test]
fn an_idle_connection_is_closed() {
    let limits = Limits {
        idle: Duration::from_millis(200),
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let served = Served::with(CLUSTER, options);
    let mut idle = TcpClient::new(served.address());
    idle.ask(&query(ONE, RecordType::A));
    let mut half = TcpClient::new(served.address());
    half.stream.write_all(&[0, 40, 1]).unwrap();
    assert!(idle.receive().is_none());
    assert!(half.receive().is_none());
}

#[test]
fn connections_are_bounded_for_each_client() {
    let limits = Limits {
        connections_per_client: 2,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let served = Served::with(CLUSTER, options);
    let mut clients: Vec<_> = (0..2).map(|_| TcpClient::new(served.address())).collect();
    for client in &mut clients {
        client.ask(&query(ONE, RecordType::A));
    }
    let mut third = TcpClient::new(served.address());
    assert!(third.receive().is_none());
    let shed = "sluice_dns_shed_total{limit=\"client_connections\"}";
    assert_eq!(served.metric(shed), Some(1.0));
    clients.pop();
    eventually("a place is free", || {
        served.metric("sluice_dns_connections ") == Some(1.0)
    });
    TcpClient::new(served.address()).ask(&query(ONE, RecordType::A));
}

#[test]
fn queries_that_wait_are_bounded() {
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    let limits = Limits {
        queries: 3,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let served = Served::with(&forwarding(upstream.local_addr().unwrap()), options);
    let (sent, asked) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 512];
        upstream
            .set_read_timeout(Some(crate::support::PATIENCE))
            .unwrap();
        while upstream.recv(&mut bytes).is_ok() && sent.send(()).is_ok() {}
    });
    let client = Client::new(served.address());
    for number in 0..3 {
        let slow = query(&format!("slow{number}.example."), RecordType::A);
        client.send(&slow.to_vec().unwrap());
        asked.recv_timeout(crate::support::PATIENCE).unwrap();
    }
    let fourth = client.ask(&query("slow3.example.", RecordType::A));
    assert_eq!(fourth.response_code, ResponseCode::ServFail);
    assert_eq!(
        served.metric("sluice_dns_shed_total{limit=\"queries\"}"),
        Some(1.0)
    );
    // The cluster's names are answered all the same.
    let answer = client.ask(&query(ONE, RecordType::A));
    assert_eq!(addresses(&answer), [[10, 96, 0, 1]]);
}
