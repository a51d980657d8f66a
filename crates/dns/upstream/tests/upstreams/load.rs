//! Many queries at once: equal ones are joined, too many are refused.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hickory_proto::op::{Message, ResponseCode};
use sluice_corefile::Forward;
use sluice_upstream::{Failure, Forwarder, Question, Transport};
use tokio::runtime;
use tokio::task::JoinSet;

use crate::server::{Ports, Seen, Server, address, honest, send, silent};
use crate::{READ_TIMEOUT, Recorder, Silent, addresses, config, forwarder, question, skip};

/// Asks all `questions` at once and gives the responses.
async fn ask_at_once(
    forwarder: &Arc<Forwarder>,
    questions: impl Iterator<Item = Question>,
) -> Vec<Result<Message, Failure>> {
    let mut tasks = JoinSet::new();
    for question in questions {
        let forwarder = Arc::clone(forwarder);
        tasks.spawn(async move { forwarder.exchange(&question, Transport::Udp).await });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn equal_questions_are_one_query() {
    let server = Server::start(Ports::UdpOnly, honest(1)).await;
    let forwarder = Arc::new(forwarder(&config(&[&server])));
    let cases = ["a.example.", "A.example.", "a.EXAMPLE."];
    let questions = (0..100).map(|number| question(cases[number % cases.len()]));
    let responses = ask_at_once(&forwarder, questions).await;
    assert_eq!(responses.len(), 100);
    for response in responses {
        let response = response.unwrap();
        assert_eq!(addresses(&response), [1]);
        // Each client sees the case in which it asked, in question and answer.
        assert!(response.answers[0].name.eq_case(&response.queries[0].name));
    }
    assert_eq!(server.seen().len(), 1);
    // What has its answer is asked for again: keeping is the cache's part.
    ask_at_once(&forwarder, [question("a.example.")].into_iter()).await;
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn different_questions_are_different_queries() {
    let server = Server::start(Ports::UdpOnly, honest(1)).await;
    let forwarder = Arc::new(forwarder(&config(&[&server])));
    let plain = question("a.");
    let questions = [
        Question {
            dnssec_ok: true,
            ..plain.clone()
        },
        Question {
            checking_disabled: true,
            ..plain.clone()
        },
        Question {
            recursion_desired: false,
            ..plain.clone()
        },
        question("b."),
        plain,
    ];
    ask_at_once(&forwarder, questions.into_iter()).await;
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn more_than_max_concurrent_are_refused_at_once() {
    let server = Server::start(Ports::UdpOnly, silent).await;
    let (forwarder, recorder) = Recorder::forwarder(&Forward {
        max_concurrent: NonZeroUsize::new(3),
        ..config(&[&server])
    });
    let forwarder = Arc::new(forwarder);
    let mut waiting = JoinSet::new();
    // Joined queries count: each has a client that waits.
    for text in ["a.", "a.", "b."] {
        let forwarder = Arc::clone(&forwarder);
        waiting.spawn(async move {
            let asked = question(text);
            forwarder.exchange(&asked, Transport::Udp).await
        });
    }
    server.wait_for(2).await;
    let response = forwarder.exchange(&question("c."), Transport::Udp).await;
    let failure = response.unwrap_err();
    assert_eq!(failure, Failure::TooMany { max: 3 });
    assert_eq!(failure.response_code(), ResponseCode::Refused);
    assert_eq!(recorder.count("rejected"), 1);
    let _server = server.restart(Ports::UdpOnly, honest(1)).await;
    skip(READ_TIMEOUT).await;
    // The next attempts of those that wait are answered, and there is room again.
    for response in waiting.join_all().await {
        assert_eq!(addresses(&response.unwrap()), [1]);
    }
    let response = forwarder.exchange(&question("c."), Transport::Udp).await;
    assert_eq!(addresses(&response.unwrap()), [1]);
}

#[tokio::test]
async fn a_client_that_leaves_takes_no_answer_from_others() {
    let server = Server::start(Ports::UdpOnly, silent).await;
    let forwarder = Arc::new(forwarder(&config(&[&server])));
    let first = tokio::spawn({
        let forwarder = Arc::clone(&forwarder);
        async move { forwarder.exchange(&question("a."), Transport::Udp).await }
    });
    server.wait_for(1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let asked = question("a.");
    let second = forwarder.exchange(&asked, Transport::Udp);
    let back = async {
        let server = server.restart(Ports::UdpOnly, honest(1)).await;
        skip(READ_TIMEOUT).await;
        server
    };
    let (response, _server) = tokio::join!(second, back);
    assert_eq!(addresses(&response.unwrap()), [1]);
}

#[tokio::test]
async fn many_different_queries_all_get_their_answer() {
    let server = Server::start(Ports::UdpOnly, |Seen { query, .. }| {
        let label = query.queries[0].name.iter().next().unwrap();
        let number = std::str::from_utf8(&label[1..]).unwrap().parse().unwrap();
        vec![send(&address(query, number))]
    })
    .await;
    let forwarder = Arc::new(forwarder(&config(&[&server])));
    let mut tasks = JoinSet::new();
    for number in 0..200_u8 {
        let forwarder = Arc::clone(&forwarder);
        tasks.spawn(async move {
            let asked = question(&format!("n{number}."));
            let response = forwarder.exchange(&asked, Transport::Udp).await.unwrap();
            assert_eq!(addresses(&response), [number]);
        });
    }
    tasks.join_all().await;
}

#[test]
fn a_thread_without_runtime_may_wait() {
    let sockets = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = sockets.block_on(Server::start(Ports::UdpOnly, honest(1)));
    let config = config(&[&server]);
    let handle = sockets.handle().clone();
    let forwarder = Forwarder::new(&config, Arc::new(Silent), handle).unwrap();
    // A runtime with neither sockets nor timers, as good as none.
    let bare = runtime::Builder::new_current_thread().build().unwrap();
    let response = bare.block_on(forwarder.exchange(&question("a."), Transport::Udp));
    assert_eq!(addresses(&response.unwrap()), [1]);
}
