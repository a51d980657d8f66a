//! Reload, stop, pages.

#[cfg(test)]
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;

use crate::support::{
    CLUSTER, Client, Served, TcpClient, addresses, cluster, corefile, eventually, get, query,
};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use sluice_dns::{Options, Server};
use sluice_model::{Change, EndpointSlice};
use sluice_zone::Event;
use sluice_zone::{NamespaceRule, Objects};

const ONE: &str = "one.default.svc.cluster.local.";

fn other_zone() -> String {
    CLUSTER.replace("cluster.local", "other.local")
}

#[test]
fn another_corefile_answers_on_the_same_sockets() {
    let mut served = Served::new(CLUSTER);
    let address = served.address();
    let client = Client::new(address);
    let mut tcp = TcpClient::new(address);
    let asked = query(ONE, RecordType::A);
    assert_eq!(addresses(&client.ask(&asked)), [[10, 96, 0, 1]]);
    served.running.reload(&corefile(&other_zone())).unwrap();
    assert_eq!(served.address(), address);
    assert_eq!(client.ask(&asked).response_code, ResponseCode::ServFail);
    let other = query("one.default.svc.other.local.", RecordType::A);
    assert_eq!(addresses(&client.ask(&other)), [[10, 96, 0, 1]]);
    assert_eq!(addresses(&tcp.ask(&other)), [[10, 96, 0, 1]]);
}

#[test]
fn no_query_is_lost_while_the_corefile_changes() {
    let mut served = Served::new(CLUSTER);
    let address = served.address();
    let ends = Arc::new(AtomicBool::new(false));
    let client = thread::spawn({
        let ends = ends.clone();
        move || {
            let client = Client::new(address);
            let mut answers = 0;
            while !ends.load(Ordering::Relaxed) {
                client.ask(&query(ONE, RecordType::A));
                answers += 1;
            }
            answers
        }
    });
    for _ in 0..50 {
        served.running.reload(&corefile(&other_zone())).unwrap();
        served.running.reload(&corefile(CLUSTER)).unwrap();
    }
    ends.store(true, Ordering::Relaxed);
    assert!(client.join().unwrap() > 0);
}

#[test]
fn a_corefile_that_cannot_be_served_changes_nothing() {
    let mut served = Served::new(CLUSTER);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let second = format!(
        "b.example:{} {{\n bind 127.0.0.1\n whoami\n}}",
        taken.port()
    );
    let text = format!("{}\n{second}", other_zone());
    let error = served
        .running
        .reload(&corefile(&text))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("listen on {taken}/tcp: address in use")),
        "{error}"
    );
    assert_eq!(addresses(&served.ask(ONE, RecordType::A)), [[10, 96, 0, 1]]);
    assert_eq!(served.running.addresses().len(), 1);
    assert_eq!(served.metric("coredns_reload_failed_total "), Some(1.0));
    // Nothing of it holds the port.
    assert!(UdpSocket::bind(taken).is_ok());
}

#[test]
fn changes_of_endpoints_are_measured() {
    let served = Served::new(CLUSTER);
    let metrics = served.running.cluster_metrics();
    let slice = |service, triggered| {
        let event = cluster::endpoints("default", service, &[[10, 1, 0, 1].into()]);
        let Event::EndpointSlice(Change::Set(slice)) = event else {
            unreachable!("a slice was made");
        };
        Event::EndpointSlice(Change::Set(Arc::new(EndpointSlice {
            triggered,
            ..Arc::unwrap_or_clone(slice)
        })))
    };
    let absorb = |event: &Event, now| {
        metrics.absorb(&mut served.objects.write().unwrap(), event, now);
    };
    absorb(&slice("many", Some(10_000)), 10_250);
    // Neither the same cause again, nor one that nobody knows, nor a Service that does not exist.
    absorb(&slice("many", Some(10_000)), 11_000);
    absorb(&slice("many", None), 12_000);
    absorb(&slice("nobody", Some(9_000)), 12_000);
    let of = |suffix: &str| {
        let name = "coredns_kubernetes_dns_programming_duration_seconds";
        served.metric(&format!(
            "{name}_{suffix}{{service_kind=\"headless_with_selector\"}}"
        ))
    };
    assert_eq!(of("sum"), Some(0.25));
    assert_eq!(of("count"), Some(1.0));
    let answer = served.ask("many.default.svc.cluster.local.", RecordType::A);
    assert_eq!(addresses(&answer).len(), 1);
}

#[test]
fn what_acl_says_is_counted() {
    let rules =
        "acl cluster.local {\n block type AAAA\n filter type TXT\n drop type MX\n }\n loadbalance";
    let served = Served::new(&CLUSTER.replace("loadbalance", rules));
    for kind in [RecordType::A, RecordType::AAAA, RecordType::TXT] {
        served.ask(ONE, kind);
    }
    Client::new(served.address()).send(&query(ONE, RecordType::MX).to_vec().unwrap());
    served.ask("a.example.", RecordType::A);
    let server = "server=\"dns://127.0.0.1:0\",view=\"\"";
    let of = |what: &str, zone: &str| {
        served.metric(&format!(
            "coredns_acl_{what}_requests_total{{{server}{zone}}} "
        ))
    };
    assert_eq!(of("allowed", ""), Some(2.0));
    for what in ["blocked", "filtered"] {
        assert_eq!(of(what, ",zone=\"cluster.local.\""), Some(1.0), "{what}");
    }
    eventually("the dropped query is counted", || {
        of("dropped", ",zone=\"cluster.local.\"") == Some(1.0)
    });
}

#[test]
fn addresses_come_and_go() {
    let mut served = Served::new(CLUSTER);
    let first = served.address();
    let text = format!("{CLUSTER}\nwho.example {{\n bind 127.0.0.2\n whoami\n}}");
    served.running.reload(&corefile(&text)).unwrap();
    let all = served.running.addresses();
    let second = *all.iter().find(|it| **it != first).unwrap();
    let answer = Client::new(second).ask(&query("who.example.", RecordType::A));
    assert_eq!(answer.additionals.len(), 2);
    assert_eq!(
        Client::new(second)
            .ask(&query(ONE, RecordType::A))
            .response_code,
        ResponseCode::Refused
    );
    served.running.reload(&corefile(CLUSTER)).unwrap();
    assert_eq!(served.running.addresses(), [first]);
    assert!(UdpSocket::bind(second).is_ok());
}

#[test]
fn stopping_waits_for_no_client_and_leaves_the_port() {
    let served = Served::new(CLUSTER);
    let address = served.address();
    let mut tcp = TcpClient::new(address);
    tcp.ask(&query(ONE, RecordType::A));
    // The client does not close its connection before the server has stopped.
    served.running.stop();
    assert!(tcp.receive().is_none());
    assert!(UdpSocket::bind(address).is_ok());
    assert!(TcpListener::bind(address).is_ok());
}

const PAGES: &str = "    health 127.0.0.1:0 {
        lameduck 1s
    }
    ready 127.0.0.1:0
    prometheus 127.0.0.1:0
    errors
";

fn page(served: &Served, plugin: &str) -> std::net::SocketAddr {
    let pages = served.running.pages();
    pages
        .iter()
        .find(|it| it.0 == plugin)
        .expect("the page is served")
        .1
}

#[test]
fn pages_tell_health_readiness_and_metrics() {
    let served = Served::new(&CLUSTER.replace("    errors\n", PAGES));
    served.ask(ONE, RecordType::A);
    served.ask("nobody.default.svc.cluster.local.", RecordType::AAAA);
    assert_eq!(get(page(&served, "health"), "/health"), (200, "OK".into()));
    assert_eq!(get(page(&served, "ready"), "/ready"), (200, "OK".into()));
    assert_eq!(get(page(&served, "ready"), "/health").0, 404);
    let (status, text) = get(page(&served, "prometheus"), "/metrics");
    assert_eq!(status, 200);
    let server = "server=\"dns://127.0.0.1:0\"";
    for line in [
        format!(
            "coredns_dns_requests_total{{family=\"1\",proto=\"udp\",{server},type=\"A\",view=\"\",zone=\".\"}} 1"
        ),
        format!(
            "coredns_dns_requests_total{{family=\"1\",proto=\"udp\",{server},type=\"AAAA\",view=\"\",zone=\".\"}} 1"
        ),
        format!(
            "coredns_dns_responses_total{{plugin=\"kubernetes\",rcode=\"NOERROR\",{server},view=\"\",zone=\".\"}} 1"
        ),
        format!(
            "coredns_dns_responses_total{{plugin=\"kubernetes\",rcode=\"NXDOMAIN\",{server},view=\"\",zone=\".\"}} 1"
        ),
        format!("coredns_dns_request_duration_seconds_count{{{server},view=\"\",zone=\".\"}} 2"),
        format!(
            "coredns_dns_response_size_bytes_count{{proto=\"udp\",{server},view=\"\",zone=\".\"}} 2"
        ),
        format!("coredns_plugin_enabled{{name=\"kubernetes\",{server},view=\"\",zone=\".\"}} 1"),
        "coredns_panics_total 0".into(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    eventually("the server asks its own /health", || {
        served.metric("coredns_health_request_duration_seconds_count ") > Some(0.0)
    });
}

#[test]
fn readiness_waits_for_the_objects() {
    let objects = Arc::new(RwLock::new(Objects::new(NamespaceRule::Declared)));
    let text = CLUSTER.replace("    errors\n", PAGES);
    let running = Server::start(&corefile(&text), objects.clone(), Options::default()).unwrap();
    let served = Served { running, objects };
    assert_eq!(
        get(page(&served, "ready"), "/ready"),
        (503, "kubernetes".into())
    );
    assert_eq!(get(page(&served, "health"), "/health").0, 200);
    let client = Client::new(served.address());
    // Nobody may conclude that the name does not exist.
    assert_eq!(
        client.ask(&query(ONE, RecordType::A)).response_code,
        ResponseCode::ServFail
    );
    served.absorb(&Event::SYNCED);
    assert_eq!(get(page(&served, "ready"), "/ready"), (200, "OK".into()));
    assert_eq!(
        client.ask(&query(ONE, RecordType::A)).response_code,
        ResponseCode::NXDomain
    );
}

#[test]
fn a_server_that_stops_says_so_and_answers_for_the_time_of_lameduck() {
    let served = Served::new(&CLUSTER.replace("    errors\n", PAGES));
    let (ready, health) = (page(&served, "ready"), page(&served, "health"));
    let client = Client::new(served.address());
    let running = served.running;
    let stopping = thread::spawn(move || running.stop());
    eventually("/ready is refused", || get(ready, "/ready").0 == 503);
    assert_eq!(get(health, "/health").0, 503);
    assert_eq!(
        addresses(&client.ask(&query(ONE, RecordType::A))),
        [[10, 96, 0, 1]]
    );
    stopping.join().unwrap();
}
