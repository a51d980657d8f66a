//! Upstreams that are slow, dead or wrong: which one is asked next.

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use sluice_corefile::{Forward, HealthCheck, Policy};
use sluice_upstream::{Failure, Transport};

use crate::server::{Ports, Server, honest, saying, silent};
use crate::{READ_TIMEOUT, Recorder, addresses, config, forwarder, name, question, skip, upstream};

const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A server whose port is closed.
async fn dead() -> std::net::SocketAddr {
    Server::start(Ports::Both, silent).await.stop().await
}

/// Polls a future with a clock that does not move: what waits for a timer never ends.
async fn while_time_stands_still<T>(future: impl Future<Output = T>) -> T {
    tokio::time::pause();
    // A paused clock jumps to the next timer when nothing else can be polled.
    let busy = async {
        loop {
            tokio::task::yield_now().await;
        }
    };
    let output = tokio::select! {
        output = future => output,
        () = busy => unreachable!("it has no end"),
    };
    tokio::time::resume();
    output
}

#[tokio::test]
async fn a_closed_port_costs_no_time() {
    let server = Server::start(Ports::Both, honest(1)).await;
    let mut config = config(&[&server]);
    config.to.insert(0, upstream(dead().await));
    let forwarder = forwarder(&config);
    for transport in [Transport::Udp, Transport::Tcp] {
        let asked = question("a.");
        let exchange = forwarder.exchange(&asked, transport);
        let response = while_time_stands_still(exchange).await;
        assert_eq!(addresses(&response.unwrap()), [1]);
    }
}

#[tokio::test]
async fn a_silent_upstream_costs_its_timeout() {
    let slow = Server::start(Ports::Both, silent).await;
    let server = Server::start(Ports::Both, honest(1)).await;
    let forwarder = forwarder(&config(&[&slow, &server]));
    let asked = question("a.");
    let exchange = forwarder.exchange(&asked, Transport::Udp);
    let timer = async {
        slow.wait_for(1).await;
        assert_eq!(server.seen().len(), 0);
        skip(READ_TIMEOUT).await;
    };
    let (response, ()) = tokio::join!(exchange, timer);
    assert_eq!(addresses(&response.unwrap()), [1]);
}

#[tokio::test]
async fn a_query_ends_after_five_seconds() {
    let slow = Server::start(Ports::UdpOnly, silent).await;
    let forwarder = forwarder(&Forward {
        // Health checks would be queries too.
        max_fails: 0,
        ..config(&[&slow])
    });
    let asked = question("a.");
    let exchange = forwarder.exchange(&asked, Transport::Udp);
    let timer = async {
        let began = tokio::time::Instant::now();
        for attempt in 1..=3 {
            slow.wait_for(attempt).await;
            skip(READ_TIMEOUT).await;
        }
        began
    };
    let (response, began) = tokio::join!(exchange, timer);
    let failure = response.unwrap_err();
    assert!(matches!(failure, Failure::NoAnswer { .. }), "{failure}");
    assert_eq!(failure.response_code(), ResponseCode::ServFail);
    assert!(began.elapsed() >= Duration::from_secs(5));
    // A fourth attempt would begin after six seconds.
    assert_eq!(slow.seen().len(), 3);
}

#[tokio::test]
async fn max_connect_attempts_ends_a_query_sooner() {
    let mut config = Forward {
        max_connect_attempts: 2,
        max_fails: 0,
        ..config(&[])
    };
    config.to = vec![upstream(dead().await), upstream(dead().await)];
    let (forwarder, recorder) = Recorder::forwarder(&config);
    let response = forwarder.exchange(&question("a."), Transport::Udp).await;
    assert!(matches!(response, Err(Failure::NoAnswer { .. })));
    assert_eq!(recorder.count("udp Opened"), 2);
}

#[tokio::test]
async fn an_upstream_that_dies_is_left_out_until_it_is_back() {
    let first = Server::start(Ports::Both, honest(1)).await;
    let second = Server::start(Ports::Both, honest(2)).await;
    let (forwarder, recorder) = Recorder::forwarder(&config(&[&first, &second]));
    let ask = async |text: &str| {
        let response = forwarder.exchange(&question(text), Transport::Udp).await;
        addresses(&response.unwrap())
    };
    assert_eq!(ask("a.").await, [1]);
    let address = first.stop().await;
    let failed = format!("{address} failed");
    assert_eq!(ask("b.").await, [2]);
    for checks in 1..=3 {
        recorder.wait_for(&failed, checks).await;
        skip(CHECK_INTERVAL).await;
    }
    // Down: it is not even tried.
    let tries = recorder.count("udp Opened");
    assert_eq!(ask("c.").await, [2]);
    assert_eq!(recorder.count("udp Opened"), tries + 1);
    let first = Server::start_at(address, Ports::Both, honest(1)).await;
    skip(CHECK_INTERVAL).await;
    first.wait_for(1).await;
    // The answer to the check is on its way: ask until it came.
    let back = async {
        while ask("d.").await != [1] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::server::DEADLINE, back)
        .await
        .expect("the upstream is up again");
}

#[tokio::test]
async fn any_answer_to_a_health_check_is_good() {
    let check = HealthCheck {
        recursion_desired: false,
        domain: name("check.example."),
        ..HealthCheck::default()
    };
    let first = Server::start(Ports::UdpOnly, silent).await;
    let second = Server::start(Ports::Both, honest(2)).await;
    let (forwarder, recorder) = Recorder::forwarder(&Forward {
        health_check: check,
        ..config(&[&first, &second])
    });
    let address = first.stop().await;
    forwarder
        .exchange(&question("a."), Transport::Udp)
        .await
        .unwrap();
    recorder.wait_for(&format!("{address} failed"), 1).await;
    let refusing = saying(ResponseCode::Refused);
    let first = Server::start_at(address, Ports::UdpOnly, refusing).await;
    skip(CHECK_INTERVAL).await;
    first.wait_for(1).await;
    let [check] = first.seen().try_into().unwrap();
    let query = &check.query.queries[0];
    assert_eq!(query.name, name("check.example."));
    assert_eq!(query.query_type, RecordType::NS);
    assert!(!check.query.recursion_desired);
    // No further check follows: only the query comes.
    skip(CHECK_INTERVAL).await;
    let response = forwarder.exchange(&question("b."), Transport::Udp).await;
    assert_eq!(response.unwrap().response_code, ResponseCode::Refused);
    assert_eq!(first.seen().len(), 2);
}

/// A forwarder whose two upstreams are down.
async fn all_down(
    fail_fast: bool,
) -> (sluice_upstream::Forwarder, std::sync::Arc<Recorder>, String) {
    let (first, second) = (dead().await, dead().await);
    let mut config = Forward {
        failfast_all_unhealthy_upstreams: fail_fast,
        max_connect_attempts: 2,
        ..config(&[])
    };
    config.to = vec![upstream(first), upstream(second)];
    let (forwarder, recorder) = Recorder::forwarder(&config);
    forwarder
        .exchange(&question("a."), Transport::Udp)
        .await
        .unwrap_err();
    for checks in 1..=3 {
        for address in [first, second] {
            recorder
                .wait_for(&format!("{address} failed"), checks)
                .await;
        }
        skip(CHECK_INTERVAL).await;
    }
    (forwarder, recorder, format!(". -> {first}+{second} down"))
}

#[tokio::test]
async fn when_all_are_down_one_is_tried() {
    let (forwarder, recorder, down) = all_down(false).await;
    let tries = recorder.count("udp Opened");
    let response = forwarder.exchange(&question("b."), Transport::Udp).await;
    assert!(matches!(response, Err(Failure::NoAnswer { .. })));
    assert_eq!(recorder.count("udp Opened"), tries + 1);
    assert_eq!(recorder.count(&down), 1);
}

#[tokio::test]
async fn when_all_are_down_none_is_tried_with_failfast() {
    let (forwarder, recorder, down) = all_down(true).await;
    let tries = recorder.count("udp Opened");
    let response = forwarder.exchange(&question("b."), Transport::Udp).await;
    assert_eq!(response, Err(Failure::AllDown));
    assert_eq!(recorder.count("udp Opened"), tries);
    assert_eq!(recorder.count(&down), 1);
}

#[tokio::test]
async fn failover_codes_lead_to_the_next_upstream() {
    let failing = Server::start(Ports::Both, saying(ResponseCode::ServFail)).await;
    let refusing = Server::start(Ports::Both, saying(ResponseCode::Refused)).await;
    let good = Server::start(Ports::Both, honest(1)).await;
    let failover = vec![ResponseCode::ServFail, ResponseCode::Refused];
    let code = async |to: &[&Server], failover: &[ResponseCode]| {
        let forwarder = forwarder(&Forward {
            failover: failover.to_vec(),
            ..config(to)
        });
        let response = forwarder.exchange(&question("a."), Transport::Udp).await;
        response.unwrap().response_code
    };
    let all = [&failing, &refusing, &good];
    assert_eq!(code(&all, &failover).await, ResponseCode::NoError);
    assert_eq!(code(&all, &[]).await, ResponseCode::ServFail);
    // The last answer, when no upstream has a better one.
    assert_eq!(code(&all[..2], &failover).await, ResponseCode::Refused);
}

#[tokio::test]
async fn policies_spread_queries() {
    let first = Server::start(Ports::UdpOnly, honest(1)).await;
    let second = Server::start(Ports::UdpOnly, honest(2)).await;
    let third = Server::start(Ports::UdpOnly, honest(3)).await;
    let spread = async |policy: Policy| {
        let forwarder = forwarder(&Forward {
            policy,
            ..config(&[&first, &second, &third])
        });
        let mut counts = [0; 3];
        for number in 0..60 {
            let asked = question(&format!("n{number}."));
            let response = forwarder.exchange(&asked, Transport::Udp).await.unwrap();
            counts[usize::from(addresses(&response)[0]) - 1] += 1;
        }
        counts
    };
    assert_eq!(spread(Policy::Sequential).await, [60, 0, 0]);
    assert_eq!(spread(Policy::RoundRobin).await, [20, 20, 20]);
    let random = spread(Policy::Random).await;
    assert!(random.iter().all(|count| *count > 3), "{random:?}");
}

#[tokio::test]
async fn from_and_except_say_what_is_forwarded() {
    let server = Server::start(Ports::UdpOnly, silent).await;
    let forwarder = forwarder(&Forward {
        from: name("example."),
        except: vec![name("a.example."), name("example.")],
        ..config(&[&server])
    });
    let table = [
        ("Example.", true),
        ("a.example.", false),
        ("x.A.example.", false),
        ("example.org.", false),
        (".", false),
    ];
    for (asked, covered) in table {
        assert_eq!(forwarder.covers(&name(asked)), covered, "{asked}");
    }
}

#[tokio::test]
async fn next_says_after_which_answers_another_forward_is_asked() {
    let empty = Server::start(Ports::UdpOnly, saying(ResponseCode::NoError)).await;
    let unknown = Server::start(Ports::UdpOnly, saying(ResponseCode::NXDomain)).await;
    let passes_on = async |to: &Server, next: &[ResponseCode], next_on_nodata: bool| {
        let forwarder = forwarder(&Forward {
            next: next.to_vec(),
            next_on_nodata,
            ..config(&[to])
        });
        let response = forwarder.exchange(&question("a."), Transport::Udp).await;
        forwarder.passes_on(&response.unwrap())
    };
    assert!(passes_on(&unknown, &[ResponseCode::NXDomain], false).await);
    assert!(!passes_on(&unknown, &[ResponseCode::Refused], true).await);
    assert!(passes_on(&empty, &[], true).await);
    assert!(!passes_on(&empty, &[], false).await);
}
