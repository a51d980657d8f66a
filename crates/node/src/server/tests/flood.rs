//! 2,000 slow connections from a neighbour, while other clients send requests.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::process::Output;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use sluice_http::{Own, Peer, Source};
use sluice_lab::{Client, Cluster, Netns, require_netns};

use super::*;
use crate::addresses::Addresses;
use crate::descriptors;

/// Connections of one attack.
const MANY: usize = 2000;
/// With 1,024 descriptors: the limits of remote and of local connections.
const MOST: i64 = 256 + 128;
const PORTS: [u16; 2] = [10256, 10249];

fn run(netns: &Netns, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let output: Output = netns
        .command(words[0], &words[1..])
        .output()
        .expect("installed");
    assert!(output.status.success(), "{line}: {output:?}");
}

/// A neighbour, and a client whose connections are in order.
fn world() -> Cluster {
    let builder = Cluster::builder().node("node-a");
    let builder = builder.client("neighbour").client("prober");
    let cluster = builder.build().expect("root");
    let (node, neighbour) = (cluster.node("node-a"), cluster.client("neighbour"));
    for (prefix, ip) in [
        ("198.18.0.0/16", IpAddr::from(neighbour.ipv4())),
        ("2001:db8:1::/48", IpAddr::from(neighbour.ipv6())),
    ] {
        run(
            neighbour.netns(),
            &format!("ip route add local {prefix} dev lo"),
        );
        run(node.netns(), &format!("ip route add {prefix} via {ip}"));
    }
    // IPv6 has no bind(2) to an address of such a route without it.
    let bound = neighbour.netns().sysctl("net.ipv6.ip_nonlocal_bind", "1");
    bound.expect("root");
    cluster
}

/// Opens a connection and sends a part of a request.
fn begin(from: IpAddr, to: SocketAddr) -> nix::Result<TcpStream> {
    let family = match from {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let [from, to] = [SocketAddr::new(from, 0), to].map(SockaddrStorage::from);
    bind(socket.as_raw_fd(), &from)?;
    connect(socket.as_raw_fd(), &to)?;
    let mut stream = TcpStream::from(socket);
    // Too many of them are closed at once.
    let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: no");
    Ok(stream)
}

/// One request on a connection that stays open.
fn ask_again(stream: &mut TcpStream) -> String {
    let request = b"GET /livez HTTP/1.1\r\nHost: node\r\n\r\n";
    stream.write_all(request).expect("open");
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).expect("open");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Attacks from these source addresses. No other client may be affected.
#[track_caller]
fn attack(node_ip: IpAddr, from: impl Fn(usize, &Client) -> IpAddr + Sync) {
    assert!(
        descriptors::raise() > 3 * MANY,
        "both ends are in this process"
    );
    let cluster = world();
    let (neighbour, prober) = (cluster.client("neighbour"), cluster.client("prober"));
    let node = cluster.node("node-a").netns();
    let any: IpAddr = match node_ip {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0; 16].into(),
    };
    let [health, metrics] = PORTS.map(|port| SocketAddr::new(node_ip, port));
    let (_served, running) = node.run(|| {
        start(Plan {
            health_address: Some(SocketAddr::new(any, PORTS[0])),
            metrics: Some(metrics_server(SocketAddr::new(any, PORTS[1]))),
            bind_hard_fail: true,
        })
    });
    // An answer that is being computed for as long as the attack lasts.
    let (begun, has_begun) = mpsc::channel();
    let go_on = Arc::new(tokio::sync::Notify::new());
    let blocked = go_on.clone();
    running.metrics.before_scrape(move || {
        let (begun, blocked) = (begun.clone(), blocked.clone());
        Box::pin(async move {
            let _ = begun.send(());
            blocked.notified().await;
        })
    });
    let mut in_progress = prober
        .netns()
        .run(|| TcpStream::connect(metrics))
        .expect("it listens");
    let request = b"GET /metrics HTTP/1.0\r\nHost: node\r\n\r\n";
    in_progress.write_all(request).expect("connected");
    has_begun.recv_timeout(WITHIN).expect("an answer begins");
    let mut local = node.run(|| TcpStream::connect(health)).expect("it listens");

    let mut slow = Vec::new();
    while slow.len() < MANY {
        assert!(ask_again(&mut local).contains("200 OK"));
        let part = slow.len()..slow.len() + 400;
        let one = |number: usize| begin(from(number, neighbour), [health, metrics][number % 2]);
        let opened: Result<Vec<_>, _> = neighbour.netns().run(|| part.map(one).collect());
        slow.extend(opened.expect("the kernel accepts connections"));
    }
    for netns in [prober.netns(), node] {
        for (address, path) in [(health, "/livez"), (metrics, "/healthz")] {
            let answer = ask(|| netns.run(|| TcpStream::connect(address)), path);
            assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
        }
    }
    assert!(ask_again(&mut local).contains("200 OK"));
    let socket = running.directory.path().join("sluice.sock");
    assert!(ask(|| UnixStream::connect(&socket), "/status").contains("node-a"));

    go_on.notify_one();
    let mut answer = String::new();
    in_progress
        .read_to_string(&mut answer)
        .expect("the whole answer");
    assert!(
        answer.contains("kubeproxy_proxy_healthz_total{code=\"200\"} 0\n"),
        "{answer}"
    );
    let open = running.metrics.server_connections.get();
    assert!((1..=MOST).contains(&open), "{open} of {MANY}");
    drop(slow);
}

#[test]
fn a_slow_neighbour() {
    require_netns!();
    attack(IpAddr::from([192, 168, 100, 10]), |_, it| it.ipv4().into());
}

#[test]
fn slow_neighbours_with_many_addresses() {
    require_netns!();
    attack(IpAddr::from([192, 168, 100, 10]), |number, _| {
        let [.., high, low] = (number + 1).to_be_bytes();
        [198, 18, high, low].into()
    });
}

#[test]
fn slow_neighbours_with_many_ipv6_prefixes() {
    require_netns!();
    let node_ip = "fd00:100::a".parse().expect("an address");
    attack(node_ip, |number, _| {
        let text = format!("2001:db8:1:{number:x}::1");
        text.parse().expect("an address")
    });
}

/// Its connections come from the primary address.
#[test]
fn a_local_client_of_a_secondary_address_is_local() {
    require_netns!();
    let cluster = world();
    let node = cluster.node("node-a");
    run(node.netns(), "ip addr add 192.168.100.20/24 dev eth0");
    let own = Own::default();
    let following = node
        .netns()
        .run(|| Addresses::follow(|_| {}, own.clone(), ""));
    let _following = following.expect("permitted");
    let (peer, source) = node.netns().run(|| {
        let listener = std::net::TcpListener::bind("0.0.0.0:10256").expect("free");
        let _client = TcpStream::connect("192.168.100.20:10256").expect("it listens");
        let (stream, peer) = listener.accept().expect("a client");
        stream.set_nonblocking(true).expect("a socket");
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().build().expect("a runtime");
        let _in_runtime = runtime.enter();
        let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
        (peer.ip(), stream.source(&own))
    });
    assert_eq!(peer, IpAddr::from(node.ipv4()));
    assert_eq!(source, Some(Source::Local));
}
