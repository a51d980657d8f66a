use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use axum::routing::get;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::*;
use crate::budget::Own;

/// Eight local connections.
const DESCRIPTORS: usize = 64;
const LOCAL: usize = 8;
/// More than the kernel buffers of both ends.
const LARGE: usize = 64 << 20;
/// Longest wait for anything.
const WITHIN: Duration = Duration::from_secs(60);

/// Serves a small and a large page on loopback.
fn start() -> SocketAddr {
    start_on(SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn start_on(address: SocketAddr) -> SocketAddr {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let listener = {
        let _in_runtime = runtime.enter();
        listen(socket(address).expect("a descriptor"), address).expect("loopback")
    };
    let address = listener.local_addr().expect("bound");
    let routes = Router::new()
        .route("/", get(async || "small"))
        .route("/large", get(async || "x".repeat(LARGE)));
    let budget = Budget::new(DESCRIPTORS, Own::default(), Arc::new(()));
    thread::spawn(move || runtime.block_on(serve(listener, routes, budget)));
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WITHIN)).expect("not zero");
    stream
}

fn request(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("open");
}

/// The answer to a small request; empty when the server has closed the connection.
fn ask(stream: &mut TcpStream) -> String {
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n");
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// As many connections as are admitted, each with one answer.
fn fill(address: SocketAddr) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = connect(address);
        assert!(ask(&mut stream).ends_with("small"));
        stream
    };
    (0..LOCAL).map(one).collect()
}

#[test]
fn an_answer_that_is_being_read_is_not_cut() {
    let address = start();
    let mut reader = connect(address);
    request(&mut reader, "/large");
    let mut first = [0; 8];
    reader.read_exact(&mut first).expect("the answer begins");
    let mut others = fill(address);
    assert_eq!(ask(&mut others[0]), "", "idle for longest");
    let mut rest = [0; 1 << 16];
    let mut length = 0;
    let mut head = None;
    while head.is_none_or(|it| length < it + LARGE - first.len()) {
        let more = reader.read(&mut rest).expect("the whole answer");
        assert!(more > 0, "cut after {length} bytes");
        let end = rest[..more].windows(4).position(|it| it == b"\r\n\r\n");
        head = head.or(end.map(|it| it + 4 + first.len()));
        length += more;
    }
    assert!(ask(&mut reader).ends_with("small"), "it is kept open");
    let _others = fill(address);
    assert_eq!(ask(&mut reader), "", "idle for longest, after its answer");
}

#[test]
fn idle_connections_and_slow_heads_end() {
    let address = start();
    let mut silent = connect(address);
    let mut slow = connect(address);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: no").expect("open");
    let mut kept = connect(address);
    assert!(ask(&mut kept).ends_with("small"));
    for stream in [&mut silent, &mut slow, &mut kept] {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("closed in time");
        assert_eq!(String::from_utf8_lossy(&answer), "");
    }
}

/// Tests run in processes of their own.
#[test]
fn a_listener_lives_on_without_descriptors() {
    let address = start();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("every process has limits");
    // A socket that exists needs no descriptor to connect.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().build().expect("a runtime");
    let client = socket(address).expect("a descriptor");
    setrlimit(Resource::RLIMIT_NOFILE, 0, hard).expect("lowering is permitted");
    let stream = runtime.block_on(async { client.connect(address).await?.into_std() });
    let mut stream = stream.expect("the kernel accepts connections");
    stream.set_nonblocking(false).expect("a socket");
    request(&mut stream, "/");
    let moment = Duration::from_millis(50);
    stream.set_read_timeout(Some(moment)).expect("not zero");
    let mut answer = [0; 1024];
    stream.read(&mut answer).expect_err("accept(2) fails");

    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("it was so before");
    stream.set_read_timeout(Some(WITHIN)).expect("not zero");
    let length = stream.read(&mut answer).expect("an answer");
    assert!(answer[..length].ends_with(b"small"));
}

/// As Go's listeners, which kube-proxy has.
#[test]
fn all_addresses_are_those_of_both_families() {
    for any in ["0.0.0.0:0", "[::]:0"] {
        let port = start_on(widened(any.parse().expect("an address"))).port();
        for client in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(client.parse().expect("an address"), port);
            let answer = ask(&mut connect(address));
            assert!(answer.ends_with("small"), "{any} from {client}: {answer}");
        }
    }
    let one = SocketAddr::from(([127, 0, 0, 1], 80));
    assert_eq!(widened(one), one);
}
