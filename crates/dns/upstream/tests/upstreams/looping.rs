//! Queries that come back.

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::{Name, RecordType};
use sluice_upstream::LoopProbe;

use crate::server::{Ports, Seen, Server, honest, silent};
use crate::{Recorder, config, forwarder, skip};

/// Time passes without end, two seconds at a time.
async fn skip_on() {
    loop {
        skip(Duration::from_secs(2)).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_query_that_comes_back_is_recognised() {
    let probe = Arc::new(LoopProbe::new(&Name::root()));
    // The upstream is this server itself.
    let server = Server::start(Ports::UdpOnly, {
        let probe = Arc::clone(&probe);
        move |Seen { query, .. }: &Seen| {
            assert!(probe.recognises(&query.queries[0]));
            Vec::new()
        }
    })
    .await;
    let forwarder = forwarder(&config(&[&server]));
    let text = tokio::select! {
        () = probe.run(&forwarder) => panic!("the probe must not be answered"),
        () = server.wait_for(1) => probe.found(&forwarder),
    };
    assert!(text.contains(&server.address.to_string()), "{text}");
    let query = server.seen()[0].query.queries[0].clone();
    assert_eq!(query.query_type, RecordType::HINFO);
    assert!(text.contains(&query.name.to_string()), "{text}");
    let mut other = query;
    other.set_query_type(RecordType::A);
    assert!(!probe.recognises(&other));
    other.set_query_type(RecordType::HINFO);
    other.set_name(Name::root());
    assert!(!probe.recognises(&other));
}

#[tokio::test]
async fn after_an_answer_nothing_is_recognised() {
    let probe = LoopProbe::new(&Name::from_ascii("cluster.local.").unwrap());
    let server = Server::start(Ports::UdpOnly, honest(1)).await;
    let (forwarder, recorder) = Recorder::forwarder(&config(&[&server]));
    let answered = format!("{} answered NoError", server.address);
    let timer = async {
        recorder.wait_for(&answered, 1).await;
        let query = server.seen()[0].query.queries[0].clone();
        assert!(probe.recognises(&query));
        skip_on().await;
    };
    tokio::select! {
        () = probe.run(&forwarder) => {}
        () = timer => {}
    }
    let query = server.seen()[0].query.queries[0].clone();
    assert!(!probe.recognises(&query));
    assert_eq!(server.seen().len(), 1);
    assert_eq!(query.name.num_labels(), 4);
}

#[tokio::test]
async fn the_probe_ends_after_thirty_seconds() {
    let probe = LoopProbe::new(&Name::root());
    let server = Server::start(Ports::UdpOnly, silent).await;
    let forwarder = forwarder(&config(&[&server]));
    let began = tokio::time::Instant::now();
    tokio::select! {
        () = probe.run(&forwarder) => {}
        () = skip_on() => {}
    }
    assert!(began.elapsed() >= Duration::from_secs(30));
    assert!(!probe.recognises(&server.seen()[0].query.queries[0]));
}
