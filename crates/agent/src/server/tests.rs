use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use super::*;
use crate::status::Status;

const WITHIN: Duration = Duration::from_secs(10);

/// Asks until there is an answer: servers start on another thread.
fn ask<S: Read + Write>(connect: impl Fn() -> io::Result<S>, path: &str) -> String {
    let deadline = Instant::now() + WITHIN;
    let mut stream = loop {
        match connect() {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => panic!("no server: {error}"),
            Err(_) => thread::yield_now(),
        }
    };
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n").expect("connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a whole answer");
    answer
}

struct Running {
    directory: tempfile::TempDir,
    health: Arc<Health>,
    served: Served,
}

fn start(health_address: Option<SocketAddr>) -> Running {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = directory.path().join("sluice.sock");
    let lock = Lock::take(&socket).expect("nobody holds it");
    let health = Arc::new(Health::default());
    let (inputs, heard) = mpsc::channel();
    thread::spawn(move || {
        for input in heard {
            if let Input::Status(reply) = input {
                let _ = reply.send(Status {
                    node: "node-a".to_owned(),
                    ..Status::default()
                });
            }
        }
    });
    let server = Server {
        health_address,
        socket,
    };
    let served = server
        .start(lock, health.clone(), inputs)
        .expect("a free directory");
    Running {
        directory,
        health,
        served,
    }
}

#[test]
fn health_over_http() {
    let address = crate::node::free_port();
    let running = start(Some(address));
    for path in ["/healthz", "/livez"] {
        let answer = ask(|| TcpStream::connect(address), path);
        assert!(answer.starts_with("HTTP/1.0 503"), "{answer}");
    }
    running.health.updated(Timestamp::now());
    for path in ["/healthz", "/livez"] {
        let answer = ask(|| TcpStream::connect(address), path);
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let report: crate::HealthReport = serde_json::from_str(body).expect("JSON");
        assert!(report.healthy);
    }
}

#[test]
fn a_taken_health_port_is_not_fatal() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let running = start(Some(taken.local_addr().expect("bound")));
    let socket = running.directory.path().join("sluice.sock");
    assert!(ask(|| UnixStream::connect(&socket), "/status").contains("node-a"));
}

#[test]
fn status_over_the_socket() {
    let running = start(None);
    let socket = running.directory.path().join("sluice.sock");
    let answer = ask(|| UnixStream::connect(&socket), "/status");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("head and body");
    let status: Status = serde_json::from_str(body).expect("JSON");
    assert_eq!(status.node, "node-a");
    let mode = fs::metadata(&socket)
        .expect("it exists")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(running.served);
    assert!(!socket.exists(), "a clean end leaves no socket");
}

#[test]
fn the_socket_of_a_dead_agent_is_replaced() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sluice.sock");
    drop(UnixListener::bind(&path).expect("a free name"));
    assert!(path.exists(), "closing a socket leaves its file");
    listen(&path).expect("nobody listens there");
}

#[test]
fn a_file_that_is_no_socket_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sluice.sock");
    fs::write(&path, "precious").expect("writable");
    listen(&path).expect_err("a file is in the way");
    assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
}
