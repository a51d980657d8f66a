//! A running agent with 1,024 descriptors whose servers are flooded. Needs root.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use sluice_agent::status::Status;
use sluice_lab::{Agent, Cluster, Netns, eventually, require_netns, write_program};
use sluice_node::client::{self, is_synced};
use sluice_node::descriptors;
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(60);
const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
const DESCRIPTORS: usize = 1024;
/// Ports of the health and the metrics server.
const PORTS: [u16; 2] = [10256, 10249];
/// Health check node ports of ten Services.
const CHECKS: [u16; 10] = [
    32000, 32001, 32002, 32003, 32004, 32005, 32006, 32007, 32008, 32009,
];

fn service(number: usize, check: u16) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web-{number}, namespace: default}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.{}
  externalTrafficPolicy: Local
  healthCheckNodePort: {check}
  ports: [{{port: 80, nodePort: {}}}]
",
        number + 10,
        check - 1000
    )
}

struct World {
    cluster: Cluster,
    scratch: TempDir,
}

impl World {
    fn new() -> Self {
        let builder = Cluster::builder().node("node-a");
        let builder = builder.client("neighbour").client("prober");
        let cluster = builder.build().expect("root");
        let (node, neighbour) = (cluster.node("node-a"), cluster.client("neighbour"));
        let many = ["ip", "route", "add", "local", "198.18.0.0/16", "dev", "lo"];
        run(neighbour.netns(), &many);
        let via = neighbour.ipv4().to_string();
        let back = ["ip", "route", "add", "198.18.0.0/16", "via", &via];
        run(node.netns(), &back);
        let world = Self {
            scratch: tempfile::tempdir().expect("a temporary directory"),
            cluster,
        };
        fs::create_dir(world.manifests()).expect("an empty directory");
        let node = world.cluster.node("node-a").ipv4();
        let node = format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: node-a}}
status: {{addresses: [{{type: InternalIP, address: {node}}}]}}
"
        );
        world.write("node.yaml", &node);
        for (number, check) in CHECKS.into_iter().enumerate() {
            world.write(&format!("web-{number}.yaml"), &service(number, check));
        }
        world
    }

    fn manifests(&self) -> PathBuf {
        self.scratch.path().join("manifests")
    }

    fn write(&self, name: &str, text: &str) {
        let draft = self.scratch.path().join(name);
        fs::write(&draft, text).expect("writable");
        fs::rename(draft, self.manifests().join(name)).expect("the same file system");
    }

    /// Starts the agent with a low soft limit and a hard limit of 1,024.
    fn start(&self) -> Agent {
        let program = self.scratch.path().join("limited");
        let lines = format!("ulimit -Sn 128\nulimit -Hn {DESCRIPTORS}\nexec {SLUICE} \"$@\"");
        write_program(&program, &lines).expect("writable");
        let manifests = self.manifests().display().to_string();
        let metrics = format!("0.0.0.0:{}", PORTS[1]);
        let flags = [
            "--manifests",
            &manifests,
            "--metrics-bind-address",
            &metrics,
        ];
        let node = self.cluster.node("node-a");
        let agent = Agent::start(&program, node, self.scratch.path(), &flags, is_synced);
        agent.expect("the agent starts")
    }

    /// Asks from a machine; the answer.
    fn ask(&self, from: &Netns, port: u16, path: &str) -> String {
        let to = SocketAddr::from((self.cluster.node("node-a").ipv4(), port));
        let asked = eventually(WITHIN, || {
            let mut stream = from.run(|| TcpStream::connect(to)).ok()?;
            let request = format!("GET {path} HTTP/1.0\r\nHost: node\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer)
        });
        asked.unwrap_or_else(|| panic!("no answer on port {port}"))
    }

    /// Opens connections of the neighbour, each from an address to a port, and sends a part of a
    /// request on each.
    fn attack(
        &self,
        ends: impl Iterator<Item = (Ipv4Addr, u16)> + Send,
        part: &[u8],
    ) -> Vec<TcpStream> {
        let node = self.cluster.node("node-a").ipv4();
        let one = |(from, port)| {
            let flags = SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
            let [from, to] = [(from, 0), (node, port)];
            bind(
                socket.as_raw_fd(),
                &SockaddrStorage::from(SocketAddr::from(from)),
            )?;
            connect(
                socket.as_raw_fd(),
                &SockaddrStorage::from(SocketAddr::from(to)),
            )?;
            let mut stream = TcpStream::from(socket);
            // Many are closed at once.
            let _ = stream.write_all(part);
            nix::Result::Ok(stream)
        };
        let neighbour = self.cluster.client("neighbour").netns();
        let all: Result<_, _> = neighbour.run(|| ends.map(one).collect());
        all.expect("the kernel accepts connections")
    }
}

fn run(netns: &Netns, words: &[&str]) {
    let output = netns.command(words[0], &words[1..]).output();
    let output = output.expect("installed");
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// The value of a metric without other labels.
fn value(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|it| it.strip_prefix(name));
    let text = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
    text.trim().parse().expect("a number")
}

#[test]
fn a_flood_of_connections_takes_nothing_from_others() {
    require_netns!();
    assert!(descriptors::raise() > 5000, "the attack needs descriptors");
    let world = World::new();
    let agent = world.start();
    let process = PathBuf::from(format!("/proc/{}", agent.pid()));
    let limits = fs::read_to_string(process.join("limits")).expect("it runs");
    let limit = limits.lines().find(|it| it.starts_with("Max open files"));
    let limit: Vec<&str> = limit.expect("listed").split_whitespace().collect();
    assert_eq!(limit[3..5], ["1024", "1024"], "the soft limit is raised");

    // The servers of health checks listen soon after the rules are written.
    let node = world.cluster.node("node-a").netns();
    for port in CHECKS {
        world.ask(node, port, "/");
    }

    let idle = (0..1400).map(|number: usize| {
        let [.., high, low] = (number + 1).to_be_bytes();
        let from = Ipv4Addr::new(198, 18, high, low);
        (from, CHECKS[number % CHECKS.len()])
    });
    let idle = world.attack(idle, b"");
    let neighbour = world.cluster.client("neighbour").ipv4();
    let slow = (0..2000).map(|number| (neighbour, PORTS[number % PORTS.len()]));
    let slow = world.attack(slow, b"GET /livez HTTP/1.1\r\nHost: no");

    let prober = world.cluster.client("prober").netns();
    for from in [node, prober] {
        let answer = world.ask(from, PORTS[0], "/livez");
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        for (number, check) in CHECKS.into_iter().enumerate() {
            let answer = world.ask(from, check, "/");
            assert!(answer.contains(&format!("\"web-{number}\"")), "{answer}");
        }
    }
    let metrics = world.ask(prober, PORTS[1], "/metrics");
    let closed = "sluice_server_connections_closed_total";
    assert!(value(&metrics, &format!("{closed}{{limit=\"source\"}}")) > 0);
    assert!(value(&metrics, &format!("{closed}{{limit=\"remote\"}}")) > 0);
    assert_eq!(value(&metrics, &format!("{closed}{{limit=\"local\"}}")), 0);
    assert_eq!(value(&metrics, "sluice_health_check_services"), 10);
    let open = fs::read_dir(process.join("fd")).expect("it runs").count();
    assert!(open < DESCRIPTORS / 2, "{open} descriptors are open");

    // Manifests are read and written to the kernel meanwhile.
    world.write("web-10.yaml", &service(10, 32010));
    let known = eventually(WITHIN, || {
        let status: Status = client::get(agent.socket(), "/status").ok()?;
        (status.services == 11 && status.synced).then_some(status)
    });
    assert_eq!(known.expect("the new Service is served").problems, []);
    assert!(world.ask(prober, 32010, "/").contains("\"web-10\""));

    drop((idle, slow));
    let recovered = eventually(WITHIN, || {
        let metrics = world.ask(prober, PORTS[1], "/metrics");
        (value(&metrics, "sluice_server_connections ") <= 2).then_some(())
    });
    assert!(recovered.is_some(), "all places are free again");
}
