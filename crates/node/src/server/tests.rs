mod flood;
mod http;

use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use jiff::Timestamp;

use sluice_http::Own;
use sluice_model::IpFamily;

use super::*;
use crate::health::{HealthReport, NodeObject, NodeState, StepClock};
use crate::metrics::for_test;
use crate::runtime::Runtime;
use crate::status::AgentStatus;
use http::{WITHIN, ask, metrics_server, send};

struct Running {
    directory: tempfile::TempDir,
    health: Arc<Health>,
    clock: StepClock,
    metrics: Arc<Metrics>,
    announcements: mpsc::Receiver<Announcement>,
}

/// The servers that a test wants beside the socket.
struct Plan {
    health_address: Option<SocketAddr>,
    metrics: Option<MetricsServer>,
    bind_hard_fail: bool,
}

const NOTHING: Plan = Plan {
    health_address: None,
    metrics: None,
    bind_hard_fail: false,
};

fn try_start(plan: Plan) -> (Result<Served, NodeError>, Running) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("sluice.sock");
    let lock = Lock::take(&socket).expect("nobody holds it");
    let (node, now) = (NodeObject::Required, Instant::now());
    let health = Arc::new(Health::new(node, Timestamp::now()));
    let clock = health.clock(Duration::from_secs(60), now);
    let (sender, started) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Runtime::new("node-a", "nftables");
        sender.send(runtime.control()).expect("the test waits");
        runtime.run();
    });
    let (announce, announcements) = mpsc::channel();
    let metrics = Arc::new(for_test());
    let server = Server {
        socket,
        report_socket: Box::new(|_| {}),
        health_address: plan.health_address,
        metrics_server: plan.metrics,
        web_server: None,
        bind_hard_fail: plan.bind_hard_fail,
        node_name: "node-a".into(),
        budget: Budget::new(1024, Own::default(), metrics.clone()),
        health: health.clone(),
        metrics: metrics.clone(),
        others: Vec::new(),
        announce,
        control: started.recv().expect("the loop runs"),
        programs: Programs::none(),
        shown: Shown {
            questions: Router::new(),
            page: Page::new("", "", "", ""),
            data: Router::new(),
        },
    };
    let served = server.start(lock);
    let rest = Running {
        directory,
        health,
        clock,
        metrics,
        announcements,
    };
    (served, rest)
}

fn start(plan: Plan) -> (Served, Running) {
    let (served, running) = try_start(plan);
    (served.expect("a free directory and ports"), running)
}

#[test]
fn health_over_http() {
    let address = crate::node::free_port();
    let (_served, running) = start(Plan {
        health_address: Some(address),
        ..NOTHING
    });
    let asked = |path: &str, status: &str| {
        let answer = ask(|| TcpStream::connect(address), path);
        assert!(
            answer.starts_with(&format!("HTTP/1.0 {status}")),
            "{answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
        assert!(head.contains("X-Content-Type-Options: nosniff"), "{head}");
        assert!(head.contains("Content-Type: application/json"), "{head}");
        let report: HealthReport = serde_json::from_str(body).expect("JSON");
        report
    };
    assert!(asked("/healthz", "200").healthy, "it has just started");
    assert!(!asked("/readyz", "503").healthy, "no sync has succeeded");
    running.clock.done();
    running.health.updated(Timestamp::now(), &IpFamily::ALL);
    assert!(asked("/readyz", "200").healthy);
    running.health.set_node(NodeState::Leaving);
    let report = asked("/healthz", "503");
    assert_eq!((report.healthy, report.node_eligible), (true, Some(false)));
    let report = asked("/livez", "200");
    assert_eq!((report.healthy, report.node_eligible), (true, None));
    for (method, path, status) in [
        ("GET", "/", "404"),
        ("POST", "/healthz", "405"),
        ("HEAD", "/livez", "200"),
    ] {
        let answer = send(
            || TcpStream::connect(address),
            &format!("{method} {path}"),
            "",
        );
        assert!(
            answer.starts_with(&format!("HTTP/1.0 {status}")),
            "{answer}"
        );
    }
}

#[test]
fn a_taken_port_is_tried_again_or_fatal() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = taken.local_addr().expect("bound");
    let health = || Plan {
        health_address: Some(address),
        ..NOTHING
    };
    let metrics = || Plan {
        metrics: Some(metrics_server(address)),
        ..NOTHING
    };
    let cases: [(&dyn Fn() -> Plan, &str); 2] = [
        (&health, "FailedToStartProxierHealthcheck"),
        (&metrics, "FailedToStartMetricServer"),
    ];
    for (plan, reason) in cases {
        let (_served, running) = start(plan());
        let announced = running.announcements.try_recv().expect("announced");
        assert_eq!(announced.reason, reason);
        assert_eq!(
            announced.about,
            Reference::cluster_scoped::<Node>(&"node-a".into())
        );
        assert!(
            announced.note.contains(&address.to_string()),
            "{announced:?}"
        );
        let socket = running.directory.path().join("sluice.sock");
        assert!(ask(|| UnixStream::connect(&socket), "/status").contains("node-a"));

        let (served, rest) = try_start(Plan {
            bind_hard_fail: true,
            ..plan()
        });
        let error = served.expect_err("the port is taken").to_string();
        assert!(
            error.starts_with(&format!("listen on {address} for the ")),
            "{error}"
        );
        let announced = rest.announcements.try_recv().expect("announced");
        assert_eq!(announced.reason, reason);
    }
}

#[test]
fn the_pages_of_the_metrics_server() {
    let address = crate::node::free_port();
    let _running = start(Plan {
        metrics: Some(metrics_server(address)),
        ..NOTHING
    });
    let warning = "Warning: This endpoint is not meant to be machine parseable";
    let text = "text/plain";
    let cases = [
        ("/healthz", "200", text, "ok"),
        ("/healthz/ping", "200", text, "ok"),
        ("/healthz/etcd", "404", text, "404 page not found"),
        (
            "/healthz?verbose",
            "200",
            text,
            "[+]ping ok\nhealthz check passed\n",
        ),
        (
            "/metrics",
            "200",
            "text/plain; version=0.0.4",
            "sluice_server_connections 1\n",
        ),
        (
            "/metrics/slis",
            "200",
            "text/plain; version=0.0.4",
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n",
        ),
        ("/proxyMode", "200", text, "nftables"),
        (
            "/configz",
            "200",
            "application/json",
            r#"{"kubeproxy.config.k8s.io":{"mode":"nftables"}}"#,
        ),
        ("/flagz", "200", text, "\n\nproxy-mode=nftables\nv=2\n"),
        ("/flagz", "200", text, warning),
        ("/statusz", "200", text, "\nsluice statusz\n"),
        ("/statusz", "200", text, "\nUp: 0 hr 00 min "),
        (
            "/statusz",
            "200",
            text,
            "\nPaths: /configz /flagz /healthz /metrics /proxyMode /statusz\n",
        ),
        ("/configz", "200", "", "X-Content-Type-Options: nosniff\r\n"),
        ("/debug/pprof/", "404", "", ""),
        ("/debug/flags/v", "404", "", ""),
    ];
    for (path, status, kind, part) in cases {
        let answer = ask(|| TcpStream::connect(address), path);
        assert!(
            answer.starts_with(&format!("HTTP/1.0 {status}")),
            "{path}: {answer}"
        );
        let kind = format!("Content-Type: {kind}");
        assert!(
            answer.contains(&kind) || kind.len() == 14,
            "{path}: {answer}"
        );
        assert!(answer.contains(part), "{path}: {answer}");
    }
    let answer = send(|| TcpStream::connect(address), "POST /metrics", "");
    assert!(answer.starts_with("HTTP/1.0 405"), "{answer}");
}

#[test]
fn debugging_is_served_where_it_is_on() {
    let address = crate::node::free_port();
    static VERBOSITY: AtomicU32 = AtomicU32::new(0);
    let set_verbosity = |text: &str| {
        let number = text.parse().map_err(|_| format!("{text:?} is no number"))?;
        VERBOSITY.store(number, Ordering::Relaxed);
        Ok(())
    };
    let _running = start(Plan {
        metrics: Some(profiled(address, set_verbosity)),
        ..NOTHING
    });
    let get = |path: &str| ask(|| TcpStream::connect(address), path);
    assert!(get("/debug/pprof/").contains("profile"));
    let program = env::args().next().expect("a name");
    assert!(get("/debug/pprof/cmdline").contains(&program));
    assert!(get("/debug/pprof/profile?seconds=0").starts_with("HTTP/1.0 400"));
    assert!(get("/debug/pprof/heap").starts_with("HTTP/1.0 404"));

    let put = |body: &str| send(|| TcpStream::connect(address), "PUT /debug/flags/v", body);
    assert!(put("5").ends_with("successfully set v to 5\n"));
    assert_eq!(VERBOSITY.load(Ordering::Relaxed), 5);
    assert!(put("loud").starts_with("HTTP/1.0 400"));
    assert!(put(&"5".repeat(100)).starts_with("HTTP/1.0 413"));
    assert!(get("/debug/flags/v").starts_with("HTTP/1.0 405"));
}

fn profiled(address: SocketAddr, set_verbosity: SetVerbosity) -> MetricsServer {
    MetricsServer {
        set_verbosity: Some(set_verbosity),
        ..metrics_server(address)
    }
}

/// Costs CPU time under a name of its own.
#[inline(never)]
fn a_name_that_a_profile_shows(stop: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
    sum
}

#[test]
fn a_profile_names_what_runs() {
    let address = crate::node::free_port();
    let _running = start(Plan {
        metrics: Some(profiled(address, |_| Ok(()))),
        ..NOTHING
    });
    assert!(ask(|| TcpStream::connect(address), "/healthz").ends_with("ok"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let working = thread::spawn(move || a_name_that_a_profile_shows(&stopped));
    let mut stream = TcpStream::connect(address).expect("it listens");
    let path = "/debug/pprof/profile?seconds=1";
    let request = format!("GET {path} HTTP/1.0\r\nHost: node\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("connected");
    let second = ask(|| TcpStream::connect(address), path);
    assert!(
        second.starts_with("HTTP/1.0 500"),
        "one at a time: {second}"
    );
    assert!(ask(|| TcpStream::connect(address), "/healthz").ends_with("ok"));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("a whole answer");
    stop.store(true, Ordering::Relaxed);
    working.join().expect("no panic");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert!(answer.contains("a_name_that_a_profile_shows"), "{answer}");
}

#[test]
fn a_long_head_is_refused_and_others_are_served() {
    let address = crate::node::free_port();
    let _running = start(Plan {
        metrics: Some(metrics_server(address)),
        ..NOTHING
    });
    let silent: Vec<TcpStream> = (0..20)
        .filter_map(|_| TcpStream::connect(address).ok())
        .collect();
    let path = format!("/{}", "a".repeat(32 << 10));
    let answer = ask(|| TcpStream::connect(address), &path);
    assert!(
        answer.starts_with("HTTP/1.") && answer.contains(" 4"),
        "{answer}"
    );
    assert!(ask(|| TcpStream::connect(address), "/healthz").ends_with("ok"));
    drop(silent);
}

#[test]
fn status_over_the_socket() {
    let (served, running) = start(NOTHING);
    let socket = running.directory.path().join("sluice.sock");
    let answer = ask(|| UnixStream::connect(&socket), "/status");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("head and body");
    let status: AgentStatus = serde_json::from_str(body).expect("JSON");
    assert_eq!(status.node, "node-a");
    let mode = fs::metadata(&socket)
        .expect("it exists")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(served);
    assert!(!socket.exists(), "a clean end leaves no socket");
}

#[test]
fn the_socket_of_a_dead_agent_is_replaced() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sluice.sock");
    drop(UnixListener::bind(&path).expect("a free name"));
    assert!(path.exists(), "closing a socket leaves its file");
    listen_on(&path).expect("nobody listens there");
}

#[test]
fn a_file_that_is_no_socket_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sluice.sock");
    fs::write(&path, "precious").expect("writable");
    listen_on(&path).expect_err("a file is in the way");
    assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
}
