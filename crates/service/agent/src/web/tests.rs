#[path = "../../../../node/src/server/tests/http.rs"]
mod http;

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use jiff::Timestamp;
use serde_json::Value;
use sluice_http::{Budget, Own};
use sluice_lab::eventually;
use sluice_model::Protocol;
use sluice_nftables::Nftables;
use sluice_node::metrics::Metrics;
use sluice_node::{
    Health, Lock, MetricsServer, NodeObject, Programs, Runtime, Served, Server, Shown, Token,
    WebServer,
};
use sluice_plan::Frontend;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{endpoints, planner, service};
use sluice_plane::{ConnectionCount, Counter, Counters, Reading};
use sluice_reconcile::BackendError;

use super::*;
use crate::connections::Connections;
use crate::metrics::for_test;
use crate::testing::free_port;
use http::{WITHIN, ask, metrics_server, send_text};

const TOKEN: &str = "correct-horse-battery";

/// Running servers, with the proxy of [`planned`].
struct Running {
    _served: Served,
    directory: tempfile::TempDir,
    of_process: Arc<Metrics>,
    metrics: Arc<ServiceMetrics>,
    plans: Plans,
}

/// The plan of the proxy of these tests.
fn planned() -> Planner {
    let mut events = vec![service("default/web 10.96.0.10 :80")];
    events.extend(endpoints("default/web", "10.0.1.5:80"));
    planner(Settings::for_node("node-a"), events)
}

fn start(metrics_server: Option<MetricsServer>, web_server: Option<WebServer>) -> Running {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("sluice.sock");
    let lock = Lock::take(&socket).expect("nobody holds it");
    let (sender, started) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Runtime::new("node-a", "nftables");
        sender.send(runtime.control()).expect("the test waits");
        runtime.run();
    });
    let (of_process, metrics) = for_test::<Nftables>();
    let plans = crate::testing::plans(planned());
    let server = Server {
        socket,
        report_socket: Box::new(|_| {}),
        health_address: None,
        metrics_server,
        web_server,
        bind_hard_fail: true,
        node_name: "node-a".into(),
        budget: Budget::new(1024, Own::default(), of_process.clone()),
        health: Arc::new(Health::new(NodeObject::Required, Timestamp::now())),
        metrics: of_process.clone(),
        others: Vec::new(),
        announce: mpsc::channel().0,
        control: started.recv().expect("the loop runs"),
        programs: Programs::none(),
        shown: Shown {
            questions: questions(plans.clone(), metrics.clone()),
            page: page(),
            data: data(plans.clone(), metrics.clone()),
        },
    };
    Running {
        _served: server.start(lock).expect("a free directory and ports"),
        directory,
        of_process,
        metrics,
        plans,
    }
}

fn serve(address: SocketAddr, token: Option<&str>) -> Running {
    let token = token.map(|it| Token::new(it).expect("long enough"));
    start(None, Some(WebServer { address, token }))
}

/// Sends a request line and fields; returns the answer's head and body.
fn exchange(address: SocketAddr, line: &str, fields: &str) -> (String, String) {
    let connect = || TcpStream::connect(address);
    let answer = send_text(connect, &format!("{line} HTTP/1.0\r\n{fields}\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    exchange(address, &format!("GET {path}"), "Host: localhost\r\n")
}

#[track_caller]
fn json(address: SocketAddr, path: &str) -> Value {
    let (head, body) = get(address, path);
    assert!(head.starts_with("HTTP/1.0 200"), "{path}: {head}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// The value of a field of a head.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|it| it.split_once(": "));
    let mut named = lines.filter(|(it, _)| it.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value)
}

#[test]
fn the_page_and_its_answers() {
    let address = free_port();
    let _running = serve(address, None);
    let (head, body) = get(address, "/api/service?name=a%E2%80%AE/%1B[2J");
    assert!(head.starts_with("HTTP/1.0 400"), "{head}");
    assert!(!body.contains(['\u{202e}', '\u{1b}']), "{body:?}");
    let (head, body) = get(address, "/");
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert!(body.starts_with("<!doctype html>") && body.ends_with("</html>\n"));
    assert_eq!(json(address, "/api/status")["node"], "node-a");
    assert_eq!(json(address, "/api/syncs")[0]["added"], 0);
    assert_eq!(json(address, "/api/services")[0]["name"], "default/web");
    let one = json(address, "/api/service?name=default%2Fweb");
    assert_eq!(one["ports"][0]["endpoints"][0]["address"], "10.0.1.5:80");
    assert_eq!(one["ports"][0]["roles"][0], "ClusterIP");
    let explained = json(address, "/api/explain?from=10.244.0.9&to=default/web");
    assert_eq!(explained["verdict"], "balance");
    let nodes = json(address, "/api/nodes");
    assert_eq!(nodes[1]["name"], "node-a");
    assert_eq!(
        (&nodes[0]["name"], &nodes[0]["ready"]),
        (&"elsewhere".into(), &1.into())
    );
    let on_it = json(address, "/api/node?name=elsewhere");
    assert_eq!(on_it[0]["service"], "default/web");
    let counted = json(address, "/api/connections");
    assert!(counted["uncounted"].is_string(), "{counted}");
}

#[test]
fn connections_are_those_of_services() {
    let address = free_port();
    let running = serve(address, None);
    let counters = Box::new(Climbing(0));
    let connections = Connections::start(counters, running.plans.clone()).expect("a thread");
    running.metrics.show_connections(connections);
    let grown = || json(address, "/api/connections")["services"]["default/web"].as_u64();
    eventually(WITHIN, grown).expect("something is counted");
    let of_one = json(address, "/api/connections?name=default/web");
    assert_eq!(of_one[0]["endpoints"][0]["endpoint"], "10.0.1.5:80");
    assert_eq!(
        json(address, "/api/connections?name=default/api"),
        Value::Array(vec![])
    );
}

#[test]
fn what_is_known_is_not_sent_again() {
    let address = free_port();
    let _running = serve(address, None);
    for path in [
        "/api/status",
        "/api/syncs",
        "/api/services",
        "/api/nodes",
        "/api/connections",
    ] {
        let (head, _) = get(address, path);
        let tag = field(&head, "ETag").unwrap_or_else(|| panic!("{path}: {head}"));
        let known = |tag: &str| {
            let fields = format!("Host: localhost\r\nIf-None-Match: {tag}\r\n");
            exchange(address, &format!("GET {path}"), &fields)
        };
        let (head, body) = known(tag);
        assert!(head.starts_with("HTTP/1.0 304"), "{path}: {head}");
        assert_eq!(body, "");
        let (_, number) = tag.rsplit_once('-').expect("two parts");
        for other in [format!("\"0-{number}"), "\"\"".to_owned(), "*".to_owned()] {
            let (head, _) = known(&other);
            assert!(head.starts_with("HTTP/1.0 200"), "{path} {other}: {head}");
        }
    }
}

#[test]
fn requests_that_are_refused() {
    let address = free_port();
    let _running = serve(address, None);
    let long = format!("GET /api/explain?from={}", "a".repeat(32 << 10));
    for (line, fields, status) in [
        ("GET /favicon.ico", "Host: localhost\r\n", "404"),
        ("GET /api/", "Host: localhost\r\n", "404"),
        ("GET /api/service?name=x", "Host: localhost\r\n", "400"),
        (
            "GET /api/explain?to=default/web",
            "Host: localhost\r\n",
            "400",
        ),
        ("POST /api/services", "Host: localhost\r\n", "405"),
        ("DELETE /", "Host: localhost\r\n", "405"),
        ("HEAD /api/services", "Host: localhost\r\n", "200"),
        ("HEAD /", "Host: localhost\r\n", "200"),
        ("GET /", "Host: evil.example\r\n", "421"),
        ("GET /api/status", "Host: 192.0.2.1:10261\r\n", "421"),
        ("GET /api/status", "", "421"),
        (&*long, "Host: localhost\r\n", "431"),
    ] {
        let (head, body) = exchange(address, line, fields);
        let is_expected = head.split(' ').nth(1) == Some(status);
        assert!(is_expected, "{line:.40} {fields}: {head}");
        assert!(!line.starts_with("HEAD") || body.is_empty());
        // A head that is too long is refused before it is parsed.
        if status != "431" {
            assert_eq!(field(&head, "Cache-Control"), Some("no-store"), "{head}");
            assert_eq!(field(&head, "X-Content-Type-Options"), Some("nosniff"));
            assert_eq!(field(&head, "Access-Control-Allow-Origin"), None);
            let policy = field(&head, "Content-Security-Policy").expect("a policy");
            assert!(policy.starts_with("default-src 'none'; "), "{policy}");
            let is_page = line.ends_with(" /") && status == "200";
            assert_eq!(policy.contains("style-src 'sha256-"), is_page, "{policy}");
            assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
            assert!(!policy.contains("unsafe"));
        }
    }
}

#[test]
fn data_is_for_those_who_know_the_token() {
    for address in [free_port(), everywhere()] {
        let _running = serve(address, Some(TOKEN));
        let address = SocketAddr::from(([127, 0, 0, 1], address.port()));
        let (head, _) = get(address, "/");
        assert!(
            head.starts_with("HTTP/1.0 200"),
            "the page has no data: {head}"
        );
        for path in [
            "/api/status",
            "/api/services",
            "/api/explain?from=10.244.0.9&to=default/web",
        ] {
            let with = |shown: &str| {
                let fields = format!("Host: localhost\r\n{shown}");
                exchange(address, &format!("GET {path}"), &fields).0
            };
            for shown in ["", "Authorization: Bearer correct-horse-batterY\r\n"] {
                let head = with(shown);
                assert!(head.starts_with("HTTP/1.0 401"), "{head}");
                assert_eq!(field(&head, "WWW-Authenticate"), Some("Bearer"));
            }
            let head = with(&format!("Authorization: Bearer {TOKEN}\r\n"));
            assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        }
    }
}

/// A free port on every address.
fn everywhere() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], free_port().port()))
}

#[test]
fn any_name_is_served_where_the_token_protects() {
    let address = everywhere();
    let _running = serve(address, Some(TOKEN));
    let local = SocketAddr::from(([127, 0, 0, 1], address.port()));
    let fields = format!("Host: node-a.example\r\nAuthorization: Bearer {TOKEN}\r\n");
    let (head, _) = exchange(local, "GET /api/status", &fields);
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
}

#[test]
fn slow_clients_share_the_budget() {
    let address = free_port();
    let running = serve(address, None);
    assert!(get(address, "/").0.starts_with("HTTP/1.0 200"));
    let slow = (0..300).filter_map(|_| {
        let mut stream = TcpStream::connect(address).ok()?;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
        Some(stream)
    });
    let slow: Vec<TcpStream> = slow.collect();
    assert!(get(address, "/api/status").0.starts_with("HTTP/1.0 200"));
    let text = running.of_process.text().expect("complete");
    let mut lines = text.lines();
    let open = lines.find_map(|it| it.strip_prefix("sluice_server_connections "));
    let open: u64 = open.expect("shown").parse().expect("a number");
    assert!(open <= 128, "{open} connections with 1,024 descriptors");
    drop(slow);
}

/// Counters that grow by one connection with each reading.
struct Climbing(u64);

impl Counters for Climbing {
    fn read(&mut self) -> Result<Reading, BackendError> {
        let frontend = Frontend::Address {
            addr: IpAddr::from([10, 96, 0, 10]),
            port: 80,
            protocol: Protocol::Tcp,
        };
        self.0 += 1;
        let count = ConnectionCount {
            frontend,
            counter: Counter::Slot("endpoints", frontend, 0),
            endpoint: SocketAddr::from(([10, 0, 1, 5], 80)),
            connections: self.0,
            load: None,
        };
        Ok(Reading {
            counts: vec![count],
            is_complete: true,
        })
    }
}

#[test]
fn connections_are_shown_where_they_are_counted() {
    let address = free_port();
    let running = start(Some(metrics_server(address)), None);
    let socket = running.directory.path().join("sluice.sock");
    let report = || ask(|| UnixStream::connect(&socket), "/connections");
    let answer = report();
    assert!(answer.starts_with("HTTP/1.0 404"), "{answer}");
    assert!(answer.contains("--count-connections"), "{answer}");
    let scrape = || ask(|| TcpStream::connect(address), "/metrics");
    assert!(!scrape().contains("connections_total"));

    let counters = Box::new(Climbing(100));
    let connections = Connections::start(counters, running.plans.clone());
    running
        .metrics
        .show_connections(connections.expect("a thread"));
    let shown = "sluice_service_connections_total{ip_family=\"IPv4\",namespace=\"default\",\
                 port=\"\",protocol=\"tcp\",service=\"web\"} 1\n";
    // A request during the first reading gets no series yet.
    let is_shown = eventually(WITHIN, || scrape().contains(shown).then_some(()));
    assert!(is_shown.is_some(), "{}", scrape());
    let answer = report();
    assert!(answer.contains("\"connections\":1,"), "{answer}");
}

#[test]
fn user_data_is_text_and_nothing_is_fetched_elsewhere() {
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
    ] {
        assert!(!SCRIPT.contains(word), "{word}");
    }
    assert!(!SCRIPT.contains("</script"));
    let elsewhere = |part: &str| {
        part.replace("http://www.w3.org/2000/svg", "")
            .contains("://")
    };
    assert!(![BODY, SCRIPT].into_iter().any(elsewhere));
}
