//! Clients' sockets are led to endpoints: real calls, in a cgroup of the test's own.

mod fixture;

use std::collections::BTreeSet;
use std::env;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use sluice_bpf_abi::{Dns, Frontend, TCP, Treatment, UDP, Verdict, node_flags};
use sluice_ebpf::{LOSSES, Sizes, cgroup_root, destroy_sockets};
use sluice_lab::{eventually, require_netns};

use fixture::{ALL, BALANCED, FRONTENDS, Fixture, NODE, endpoint, parse};

const PATIENCE: Duration = Duration::from_secs(5);
const REJECTED: [u8; 4] = [Verdict::Reject as u8; 4];

/// Connects, and returns the name of the server.
fn dial(addr: SocketAddr) -> io::Result<(TcpStream, String)> {
    let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    Ok((stream, first_word(&line)))
}

fn first_word(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// A socket of UDP.
fn datagrams(to: SocketAddr) -> UdpSocket {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a port is free");
    let set = socket.set_read_timeout(Some(PATIENCE));
    set.expect("the timeout is not zero");
    socket
}

/// The name of the server that answers on a socket, and who seems to.
fn receive(socket: &UdpSocket) -> io::Result<(String, SocketAddr)> {
    let mut answer = [0; 512];
    let (length, from) = socket.recv_from(&mut answer)?;
    Ok((
        first_word(&String::from_utf8_lossy(&answer[..length])),
        from,
    ))
}

fn ask(socket: &UdpSocket, to: SocketAddr) -> io::Result<(String, SocketAddr)> {
    socket.send_to(b"who?\n", to)?;
    receive(socket)
}

fn no_route_or_refused(error: &io::Error) -> bool {
    // Nobody has the Service's address: a socket that is not led finds no route, or nobody listens.
    matches!(
        error.kind(),
        ErrorKind::NetworkUnreachable | ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable
    )
}

#[test]
fn tcp_reaches_every_endpoint_and_sees_the_service() {
    require_netns!();
    let _fixture = Fixture::new(ALL);
    for frontend in FRONTENDS.map(parse) {
        let mut names = BTreeSet::new();
        for _ in 0..64 {
            let (stream, name) = dial(frontend).expect("the Service answers");
            assert_eq!(stream.peer_addr().expect("it is connected"), frontend);
            names.insert(name);
        }
        assert_eq!(names, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    }
}

#[test]
fn this_kernel_has_what_sockets_need() {
    require_netns!();
    let lacks = sluice_bpf::probe(&LOSSES).expect("the kernel answers");
    let sockets = lacks.iter().find(|it| it.feature.contains("sockets"));
    assert_eq!(sockets, None);
}

/// Whether cgroups are mounted is no matter of the kernel.
#[test]
fn a_machine_without_cgroups_has_the_programs() {
    const HIDDEN: &str = "SLUICE_TEST_WITHOUT_CGROUPS";
    require_netns!();
    if env::var_os(HIDDEN).is_some() {
        assert_eq!(cgroup_root(), None);
        this_kernel_has_what_sockets_need();
        return;
    }
    let hide = "umount -l -a -t cgroup2 && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hide]);
    command.arg(env::current_exe().expect("a test has a program"));
    let name = "sockets::a_machine_without_cgroups_has_the_programs";
    let status = command.args(["--exact", name]).env(HIDDEN, "").status();
    assert!(status.expect("it can be started").success());
}

#[test]
fn ipv4_through_a_socket_of_ipv6() {
    require_netns!();
    let _fixture = Fixture::new(ALL);
    let mapped = parse("[::ffff:172.30.0.1]:80");
    let (stream, _) = dial(mapped).expect("the Service answers");
    assert_eq!(stream.peer_addr().expect("it is connected"), mapped);
    let socket = datagrams(mapped);
    let (_, from) = ask(&socket, mapped).expect("the Service answers");
    assert_eq!(from, mapped);
}

#[test]
fn udp_connected_sees_the_service() {
    require_netns!();
    let _fixture = Fixture::new(ALL);
    for frontend in FRONTENDS.map(parse) {
        let socket = datagrams(frontend);
        socket.connect(frontend).expect("UDP connects");
        assert_eq!(socket.peer_addr().expect("it is connected"), frontend);
        socket.send(b"who?\n").expect("it is sent");
        assert_eq!(receive(&socket).expect("the Service answers").1, frontend);
    }
}

#[test]
fn udp_unconnected_stays_with_its_endpoint_while_that_is_there() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    for frontend in FRONTENDS.map(parse) {
        let socket = datagrams(frontend);
        let (first, from) = ask(&socket, frontend).expect("the Service answers");
        assert_eq!(from, frontend);
        for _ in 0..32 {
            let (name, _) = ask(&socket, frontend).expect("the Service answers");
            assert_eq!(name, first, "the socket has one endpoint");
        }
        // The endpoint moves to the other slot, and stays in the pool.
        fixture.serve(BALANCED, 0, &["b", "a"]);
        for _ in 0..32 {
            let (name, _) = ask(&socket, frontend).expect("the Service answers");
            assert_eq!(name, first, "the slot does not matter");
        }
        let other = if first == "a" { "b" } else { "a" };
        fixture.serve(BALANCED, 0, &[other]);
        let (name, from) = ask(&socket, frontend).expect("the Service answers");
        assert_eq!((name.as_str(), from), (other, frontend));
        fixture.serve(BALANCED, 0, &["a", "b"]);
    }
}

#[test]
fn tcp_is_refused_without_endpoints_and_at_undefined_ports() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    fixture.serve(REJECTED, 0, &[]);
    for addr in FRONTENDS
        .into_iter()
        .chain(["172.30.0.1:81", "[fd00:30::1]:81"])
    {
        let error = dial(parse(addr)).expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{addr}");
    }
    // What sends nothing is not refused.
    let socket = datagrams(parse(FRONTENDS[0]));
    let connected = socket.connect(parse("172.30.0.1:0"));
    assert_ne!(
        connected.map_err(|it| it.kind()),
        Err(ErrorKind::ConnectionRefused)
    );
}

/// A client has one key, its address, whichever way it comes: by a packet when the agent did not know the Service yet, and
/// by a socket the next time.
#[test]
fn services_with_session_affinity_are_left_to_packets() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    for is_pod in [false, true] {
        if is_pod {
            fixture.clients_are_pods();
        }
        fixture.serve(BALANCED, 0, &["a", "b"]);
        for frontend in FRONTENDS.map(parse) {
            dial(frontend).expect("a Service without affinity leads sockets");
        }
        fixture.serve(BALANCED, 1000, &["a", "b"]);
        for frontend in FRONTENDS.map(parse) {
            let error = dial(frontend).expect_err("packets decide");
            assert!(no_route_or_refused(&error), "{error}");
            let socket = datagrams(frontend);
            let asked = ask(&socket, frontend);
            asked.expect_err("nobody leads a datagram, connected or not");
        }
        fixture.serve(REJECTED, 1000, &[]);
        for frontend in FRONTENDS.map(parse) {
            let error = dial(frontend).expect_err("nobody answers");
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{frontend}");
        }
    }
}

#[test]
fn node_ports_of_the_node() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    for addr in [NODE, "127.0.0.1"] {
        let addr = parse(&format!("{addr}:30080"));
        let (stream, _) = dial(addr).expect("the NodePort answers");
        assert_eq!(stream.peer_addr().expect("it is connected"), addr);
    }
    fixture.clients_are_pods();
    dial(parse(&format!("{NODE}:30080"))).expect("the NodePort answers pods");
    let error = dial(parse("127.0.0.1:30080")).expect_err("loopback is the pod's own");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn pods_that_are_masqueraded_are_left_alone() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    fixture.serve(
        [Verdict::Cluster as u8 | Treatment::MASQUERADE; 4],
        0,
        &["a"],
    );
    let frontend = parse(FRONTENDS[0]);
    dial(frontend).expect("the node is led");
    fixture.clients_are_pods();
    let error = dial(frontend).expect_err("packets decide");
    assert!(no_route_or_refused(&error), "{error}");
}

#[test]
fn modes_say_which_sockets_are_led() {
    require_netns!();
    for (flags, tcp, udp) in [
        (0, false, false),
        (node_flags::SOCKETS_TCP, true, false),
        (ALL, true, true),
    ] {
        let _fixture = Fixture::new(flags);
        let frontend = parse(FRONTENDS[0]);
        assert_eq!(dial(frontend).is_ok(), tcp, "TCP with {flags}");
        let socket = datagrams(frontend);
        assert_eq!(
            socket.send_to(b"who?\n", frontend).is_ok(),
            udp,
            "UDP with {flags}"
        );
    }
}

#[test]
fn another_agent_takes_the_links() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    let frontend = parse(FRONTENDS[0]);
    let (stream, _) = dial(frontend).expect("the Service answers");
    fixture.programs = None;
    dial(frontend).expect("the programs go on without an agent");
    fixture.restart();
    assert_eq!(fixture.links(), 9);
    dial(frontend).expect("the programs of the next agent lead");
    assert_eq!(stream.peer_addr().expect("it is connected"), frontend);
    fixture.programs().detach_sockets();
    // The kernel frees a link after its pin is gone.
    let error = eventually(PATIENCE, || dial(frontend).err());
    let error = error.expect("nothing is attached");
    assert!(no_route_or_refused(&error), "{error}");
}

#[test]
fn larger_maps_lead_sockets_as_well() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    let sizes = Sizes {
        frontends: 20_000,
        endpoints: 70_000,
        ..Sizes::default()
    };
    let grown = fixture.programs().grow(&sizes);
    grown.expect("the kernel takes larger maps");
    assert_eq!(fixture.links(), 9);
    // Written to the larger maps only.
    fixture.serve(BALANCED, 0, &["b"]);
    for frontend in FRONTENDS.map(parse) {
        assert_eq!(dial(frontend).expect("the Service answers").1, "b");
    }
}

/// Whether the node's own server answers, no socket knows when it connects: its packets do.
#[test]
fn sockets_that_ask_the_nodes_dns_server_are_left_alone() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    let frontends = FRONTENDS.map(parse);
    let mut dns = Dns {
        port: frontends[0].port().into(),
        ..Dns::default()
    };
    for (index, it) in frontends.iter().enumerate() {
        dns.addresses[index] = it.ip().into();
    }
    let written = fixture.programs().maps_mut().set_dns(&dns);
    written.expect("DNS is written");
    for frontend in frontends {
        let error = dial(frontend).expect_err("nobody has the address");
        assert!(no_route_or_refused(&error), "{error}");
        let error = ask(&datagrams(frontend), frontend).expect_err("nobody has the address");
        assert!(no_route_or_refused(&error), "{error}");
    }
}

#[test]
fn clients_outside_source_ranges_are_left_to_packets() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    let frontend = parse(FRONTENDS[0]);
    let maps = fixture.programs().maps_mut();
    for (key, value) in maps.frontends.entries().expect("FRONTENDS is read") {
        let ranged = Frontend {
            sources: [7, 7],
            ..value
        };
        let written = maps.frontends.insert(&key, &ranged);
        written.expect("the map takes the entry");
    }
    let error = dial(frontend).expect_err("packets decide");
    assert!(no_route_or_refused(&error), "{error}");
}

/// The entries of closed sockets would push out those of open ones, which are then not ended.
#[test]
fn a_closed_socket_is_forgotten() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    for frontend in [&FRONTENDS[..], &["[::ffff:172.30.0.1]:80"]].concat() {
        let frontend = parse(frontend);
        let mut known = || {
            let entries = fixture.programs().maps_mut().peers.entries();
            entries.expect("PEERS is listed").len()
        };
        let before = known();
        let stream = dial(frontend).expect("the Service answers");
        let socket = datagrams(frontend);
        socket.connect(frontend).expect("UDP connects");
        assert_eq!(known(), before + 2, "{frontend}");
        drop((stream, socket));
        assert_eq!(known(), before, "{frontend}");
    }
}

#[test]
fn sockets_of_an_endpoint_that_is_gone_are_ended() {
    require_netns!();
    let mut fixture = Fixture::new(ALL);
    for frontend in FRONTENDS.map(parse) {
        fixture.serve(BALANCED, 0, &["a"]);
        let (mut stream, _) = dial(frontend).expect("the Service answers");
        let socket = datagrams(frontend);
        socket.connect(frontend).expect("UDP connects");
        socket.send(b"who?\n").expect("it is sent");
        receive(&socket).expect("the Service answers");
        let (mut direct, _) = dial(endpoint("a", frontend)).expect("the endpoint answers");

        fixture.serve(BALANCED, 0, &["b"]);
        let mut end = || {
            [TCP, UDP].map(|protocol| {
                let led = fixture.led(frontend, "a", protocol);
                let ended = destroy_sockets(&mut fixture.programs().maps_mut().peers, &led);
                ended.expect("the kernel ends sockets")
            })
        };
        assert_eq!(end(), [1, 1]);

        let error = stream
            .read(&mut [0; 8])
            .expect_err("the connection is ended");
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        let error = receive(&socket).expect_err("the socket is ended");
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        assert_eq!(dial(frontend).expect("the client dials anew").1, "b");
        socket.connect(frontend).expect("UDP connects anew");
        socket.send(b"who?\n").expect("it is sent");
        assert_eq!(receive(&socket).expect("the Service answers").0, "b");

        direct.set_nonblocking(true).expect("the socket is open");
        let error = direct.read(&mut [0; 8]).expect_err("nothing was sent");
        assert_eq!(
            error.kind(),
            ErrorKind::WouldBlock,
            "who dialled the endpoint keeps it"
        );
        assert_eq!(end(), [0, 0]);
    }
}
