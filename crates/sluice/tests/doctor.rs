//! Broken nodes, and whether `sluice doctor` names the cause. Needs root.

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use simple_dns::{CLASS, Packet, ResourceRecord, rdata};
use sluice_lab::{Attach, Cluster, Netns, Probe, Protocol, Server, eventually, require_netns};

use crate::common::{Agent, Files, SLUICE, WITHIN};

/// The Service's ClusterIP and port.
const WEB: &str = "10.96.0.1:80";

/// What the manifests say, and what differs from one that works.
struct Objects {
    /// More of `spec`, in YAML's short form.
    spec: &'static str,
    /// More of the object.
    status: &'static str,
    /// The port of the slice.
    port: u16,
    /// Whether the endpoints are ready.
    ready: bool,
}

const GOOD: Objects = Objects {
    spec: "",
    status: "",
    port: 8080,
    ready: true,
};

/// Two or more nodes with an agent on the first, and a Service over some pods.
struct World {
    cluster: Cluster,
    _servers: Vec<Server>,
    files: Files,
    _agent: Agent,
}

impl World {
    /// `pods` are names and nodes.
    fn new(attach: Attach, pods: &[(&str, &str)], objects: &Objects) -> Self {
        let mut builder = Cluster::builder().attach(attach).client("client");
        for name in ["node-a", "node-b", "node-c"] {
            builder = builder.node(name);
        }
        for (pod, node) in pods {
            builder = builder.pod(pod, node);
        }
        let cluster = builder.build().expect("a cluster");
        let serve = |(pod, _): &(&str, &str)| {
            let netns = cluster.pod(pod).netns();
            Server::start(netns, pod, 8080, Protocol::Tcp).expect("a free port")
        };
        let servers = pods.iter().map(serve).collect();
        let files = Files::new();
        files.write("web.yaml", &manifests(&cluster, pods, objects));
        let agent = Agent::run(&files, files.proxy(cluster.node("node-a").netns()));
        Self {
            cluster,
            _servers: servers,
            files,
            _agent: agent,
        }
    }

    fn node(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    /// What the doctor says on the node, and its exit code.
    fn doctor(&self, args: &[&str]) -> (String, Option<i32>) {
        let mut command = self.node().command(SLUICE, &["doctor", "default/web"]);
        command.args(args).arg("--socket").arg(self.files.socket());
        let output = command.output().expect("it was built");
        let text = String::from_utf8(output.stdout).expect("text");
        let errors = String::from_utf8_lossy(&output.stderr);
        (format!("{text}{errors}"), output.status.code())
    }

    /// The doctor finds a failure in this check, and the line says so.
    #[track_caller]
    fn names(&self, check: &str, cause: &str, args: &[&str]) {
        let (text, code) = self.doctor(args);
        let mut lines = text.lines().map(str::trim_start);
        let start = format!("FAIL  {check} ");
        let found = lines.any(|it| it.starts_with(&start) && it.contains(cause));
        assert!(found, "{check}: {cause}?\n{text}");
        assert_eq!(code, Some(1), "{text}");
    }

    /// Nothing is wrong for the doctor.
    #[track_caller]
    fn is_well(&self, args: &[&str]) {
        let (text, code) = self.doctor(args);
        assert!(!text.contains("FAIL"), "{text}");
        assert_eq!(code, Some(0), "{text}");
    }

    /// Whether a client gets an answer from the Service.
    fn answers(&self, client: &Netns, to: &str) -> bool {
        let to: SocketAddr = to.parse().expect("an address");
        Probe::tcp(to).from(client).name().is_some()
    }

    #[track_caller]
    fn run(&self, program: &str, args: &[&str]) {
        let output = self.node().command(program, args).output();
        let output = output.expect("it is installed");
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
    }
}

fn manifests(cluster: &Cluster, pods: &[(&str, &str)], objects: &Objects) -> String {
    let Objects {
        spec,
        status,
        port,
        ready,
    } = objects;
    let node_port = if spec.contains("type: ") {
        ", nodePort: 30080"
    } else {
        ""
    };
    let mut text = format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec: {{clusterIP: 10.96.0.1, ports: [{{name: http, port: 80{node_port}}}], {spec}}}
{status}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: default, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: http, protocol: TCP, port: {port}}}]
endpoints:
"
    );
    for (pod, node) in pods {
        let ip = cluster.pod(pod).ipv4();
        writeln!(
            text,
            "- {{addresses: [{ip}], nodeName: {node}, conditions: {{ready: {ready}}}, \
             targetRef: {{kind: Pod, name: {pod}}}}}"
        )
        .expect("a string");
    }
    text
}

/// The cluster's DNS, at a pod.
fn dns(pod: IpAddr) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec: {{clusterIP: 10.96.0.10, ports: [{{name: dns, port: 53, protocol: UDP}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: kube-dns-1, namespace: kube-system, labels: {{kubernetes.io/service-name: kube-dns}}}}
addressType: IPv4
ports: [{{name: dns, protocol: UDP, port: 53}}]
endpoints: [{{addresses: [{pod}], nodeName: node-b}}]
"
    )
}

/// Answers one query, whatever its name, with an address.
fn answer_once(socket: &UdpSocket, ip: [u8; 4]) {
    let mut buffer = [0; 512];
    let (length, client) = socket.recv_from(&mut buffer).expect("a query");
    let query = Packet::parse(&buffer[..length]).expect("a query");
    let name = query.questions[0].qname.clone();
    let mut reply = query.into_reply();
    let address = rdata::A {
        address: u32::from_be_bytes(ip),
    };
    let record = ResourceRecord::new(name, CLASS::IN, 5, rdata::RData::A(address));
    reply.answers.push(record);
    let reply = reply.build_bytes_vec().expect("it is short");
    socket.send_to(&reply, client).expect("a client that waits");
}

#[test]
fn the_cluster_dns_is_asked() {
    require_netns!();
    let world = far();
    let (text, _) = world.doctor(&["--probe"]);
    assert!(
        text.contains("no Service kube-system/kube-dns to ask"),
        "{text}"
    );
    let pod = world.cluster.pod("one");
    world.files.write("dns.yaml", &dns(pod.ipv4().into()));
    world
        .files
        .await_status("two Services", |it| it.synced && it.services == 2);
    world.names("dns", "Connection refused", &["--probe"]);
    let socket = pod
        .netns()
        .run(|| UdpSocket::bind("0.0.0.0:53").expect("a free port"));
    thread::scope(|scope| {
        scope.spawn(|| {
            answer_once(&socket, [10, 96, 0, 1]);
            answer_once(&socket, [10, 96, 0, 2]);
        });
        world.is_well(&["--probe"]);
        world.names("dns", "says 10.96.0.2 in place of 10.96.0.1", &["--probe"]);
    });
}

const NODE_PORT: &str = "type: NodePort";

fn far() -> World {
    World::new(
        Attach::Routed,
        &[("one", "node-b"), ("two", "node-c")],
        &Objects {
            spec: NODE_PORT,
            ..GOOD
        },
    )
}

#[test]
fn nothing_is_wrong() {
    require_netns!();
    let world = far();
    assert!(world.answers(world.node(), WEB));
    world.is_well(&[]);
    let max = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max");
    let max = max.expect("it is loaded");
    let (text, _) = world.doctor(&[]);
    let table = format!("of {} entries", max.trim());
    let is_read = |it: &str| it.contains("  conntrack ") && it.contains(&table);
    assert!(text.lines().any(is_read), "{text}");
    world.is_well(&["--probe"]);
    let mut command = Command::new(SLUICE);
    command.args(["doctor", "default/web", "-o", "json", "--socket"]);
    let output = command
        .arg(world.files.socket())
        .output()
        .expect("it was built");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["service"], "default/web");
    assert_eq!(report["findings"][0]["state"], "ok");
}

#[test]
fn both_families_of_a_service_are_dialled() {
    require_netns!();
    let world = World::new(
        Attach::Routed,
        &[("one", "node-b")],
        &Objects {
            spec: "clusterIPs: [10.96.0.1, 'fd00:10:96::1'], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack",
            ..GOOD
        },
    );
    let ip = world.cluster.pod("one").ipv6();
    let slice = format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-6, namespace: default, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv6
ports: [{{name: http, protocol: TCP, port: 8080}}]
endpoints: [{{addresses: ['{ip}'], nodeName: node-b, conditions: {{ready: true}}}}]
"
    );
    world.files.write("web-6.yaml", &slice);
    world
        .files
        .await_status("both families", |it| it.synced && it.endpoints == 2);
    let (text, _) = world.doctor(&["--probe"]);
    for address in ["10.96.0.1:80", "[fd00:10:96::1]:80"] {
        let named = format!("probe       ClusterIP at {address}/tcp answers");
        assert!(text.contains(&named), "{named}?\n{text}");
    }
}

#[test]
fn the_port_of_the_endpoint_is_wrong() {
    require_netns!();
    let objects = Objects { port: 9090, ..GOOD };
    let world = World::new(Attach::Routed, &[("one", "node-b")], &objects);
    assert!(!world.answers(world.node(), WEB));
    world.names(
        "probe",
        ":9090/tcp refuses: nothing listens there",
        &["--probe"],
    );
}

#[test]
fn no_endpoint_is_ready() {
    require_netns!();
    let objects = Objects {
        ready: false,
        ..GOOD
    };
    let world = World::new(Attach::Routed, &[("one", "node-b")], &objects);
    assert!(!world.answers(world.node(), WEB));
    world.names("endpoints", "0 of 1 ready; not ready: pod/one", &[]);
    world.names(
        "decision",
        "no endpoint anywhere answers (0 of 1 ready)",
        &[],
    );
}

#[test]
fn the_policy_is_local_and_no_endpoint_is_here() {
    require_netns!();
    let objects = Objects {
        spec: "type: NodePort, externalTrafficPolicy: Local",
        ..GOOD
    };
    let world = World::new(Attach::Routed, &[("one", "node-b")], &objects);
    let node_port = format!("{}:30080", world.cluster.node("node-a").ipv4());
    let client = world.cluster.client("client");
    assert!(!world.answers(client.netns(), &node_port));
    world.names(
        "decision",
        "no endpoint on this node answers (they are on node-b)",
        &[],
    );
}

#[test]
fn the_client_is_outside_the_source_ranges() {
    require_netns!();
    let objects = Objects {
        spec: "type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8]",
        status: "status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}",
        ..GOOD
    };
    let world = World::new(Attach::Routed, &[("one", "node-b")], &objects);
    let client = world.cluster.client("client");
    let node = world.cluster.node("node-a");
    let vip = "203.0.113.7/32".parse().expect("a prefix");
    client.route_via(vip, node).expect("a route");
    assert!(!world.answers(client.netns(), "203.0.113.7:80"));
    let from = client.ipv4().to_string();
    world.names(
        "decision",
        "outside loadBalancerSourceRanges: 10.0.0.0/8",
        &["--from", &from],
    );
    // Without a client it is no failure, and is said.
    let (text, _) = world.doctor(&[]);
    assert!(
        text.contains("clients must be inside loadBalancerSourceRanges"),
        "{text}"
    );
}

#[test]
fn somebody_deleted_the_table() {
    require_netns!();
    let mut world = far();
    // A running agent writes it again at once.
    world._agent.0.kill().expect("it runs");
    world._agent.0.wait().expect("it was started");
    let folder = world.files.manifests();
    let folder = folder.to_str().expect("text");
    let plan = ["--manifests", folder, "--hostname-override", "node-a"];
    let (text, _) = world.doctor(&plan);
    assert!(
        text.contains("rules       the kernel does what the plan says"),
        "{text}"
    );
    world.run("nft", &["delete table ip sluice"]);
    assert!(!world.answers(world.node(), WEB));
    world.names(
        "rules",
        "table ip sluice is not there: somebody deleted it, or no agent has written it",
        &plan,
    );
    world.run("nft", &["flush ruleset"]);
    world.names("rules", "this machine has no rules of Sluice", &plan);
}

#[test]
fn forwarding_is_off() {
    require_netns!();
    let world = far();
    world
        .node()
        .sysctl("net.ipv4.ip_forward", "0")
        .expect("writable");
    let node_port = format!("{}:30080", world.cluster.node("node-a").ipv4());
    assert!(!world.answers(world.cluster.client("client").netns(), &node_port));
    world.names("forwarding", "net.ipv4.ip_forward is 0", &[]);
}

#[test]
fn reverse_path_filtering_is_strict() {
    require_netns!();
    let world = far();
    let client = world.cluster.client("client");
    let node_port = format!("{}:30080", world.cluster.node("node-a").ipv4());
    assert!(world.answers(client.netns(), &node_port));
    // Packets to the client leave through another interface than its packets come in.
    let from = client.ipv4().to_string();
    world.run("ip", &["link", "add", "other", "type", "bridge"]);
    world.run("ip", &["link", "set", "other", "up"]);
    world.run(
        "ip",
        &["route", "add", &format!("{from}/32"), "dev", "other"],
    );
    world
        .node()
        .sysctl("net.ipv4.conf.eth0.rp_filter", "1")
        .expect("writable");
    assert!(!world.answers(client.netns(), &node_port));
    world.names("rp_filter", "leave through other", &["--from", &from]);
}

#[test]
fn the_route_to_a_node_is_missing() {
    require_netns!();
    let world = far();
    let lost = world.cluster.node("node-b").pod_cidr_v4().to_string();
    world.run("ip", &["route", "del", &lost]);
    world.names("routes", "go to the default gateway", &[]);
    world.run("ip", &["route", "add", "unreachable", &lost]);
    world.names("routes", "no route to 10.244.", &[]);
}

#[test]
fn bridged_packets_do_not_pass_netfilter() {
    require_netns!();
    let pods = [("one", "node-a"), ("two", "node-a")];
    let world = World::new(Attach::Bridged, &pods, &GOOD);
    let client = world.cluster.pod("one").netns();
    let all_answer = || (0..16).all(|_| world.answers(client, WEB));
    world.is_well(&["--probe"]);
    world
        .node()
        .sysctl("net.bridge.bridge-nf-call-iptables", "0")
        .expect("writable");
    assert!(!all_answer());
    world.names("bridge", "bridge-nf-call-iptables is 0", &[]);
}

/// Under the name of kube-proxy a program is one to the doctor, who then asks no agent.
#[test]
fn a_kube_proxy_keeps_the_rules() {
    require_netns!();
    let world = far();
    let folder = world.files.manifests();
    let source = ["--manifests", folder.to_str().expect("text")];
    let elsewhere = [
        "--socket",
        "/nonexistent/sluice.sock",
        "--hostname-override",
        "node-a",
    ];
    let doctor = |args: &[&str]| {
        let mut command = world.node().command(SLUICE, &["doctor", "default/web"]);
        let output = command
            .args(args)
            .args(elsewhere)
            .output()
            .expect("it was built");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = doctor(&source);
    assert!(text.contains("FAIL  proxy"), "{text}");
    let program = world.files.0.path().join("kube-proxy");
    fs::copy("/bin/sleep", &program).expect("there is room");
    let program = program.to_str().expect("text");
    let mut proxy = world
        .node()
        .command(program, &["60"])
        .spawn()
        .expect("a program");
    let mut text = String::new();
    let found = eventually(WITHIN, || {
        text = doctor(&source);
        text.contains("ok    proxy       kube-proxy runs here")
            .then_some(())
    });
    proxy.kill().expect("it runs");
    proxy.wait().expect("our child");
    assert!(found.is_some() && !text.contains("FAIL"), "{text}");
    // Without a source of Services it checks the machine.
    assert!(doctor(&[]).contains("skip  service"), "{text}");
}

#[test]
fn a_program_listens_on_the_node_port() {
    require_netns!();
    let world = far();
    let netns = world.node();
    let _listener = netns.run(|| TcpListener::bind("0.0.0.0:30080").expect("a free port"));
    let (text, code) = world.doctor(&[]);
    let found = text.lines().find(|it| it.contains("WARN  node ports"));
    let found = found.unwrap_or_default();
    assert!(
        found.contains(&format!("(pid {})", std::process::id())),
        "{text}"
    );
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn packets_do_not_fit_through_the_tunnel() {
    require_netns!();
    let world = far();
    let pods = world.cluster.node("node-b").pod_cidr_v4().to_string();
    // With `dev eth0` the kernel would refuse an MTU that is too large.
    let add = "link add tunnel mtu 1500 type vxlan id 7 remote 192.168.100.11 dstport 4789";
    world.run("ip", &add.split(' ').collect::<Vec<_>>());
    world.run("ip", &["link", "set", "tunnel", "up"]);
    world.run("ip", &["route", "replace", &pods, "dev", "tunnel"]);
    world.names(
        "mtu",
        "tunnel (vxlan) has 1500 bytes, eth0 below it has room for 1450",
        &[],
    );
    world.run("ip", &["link", "set", "tunnel", "mtu", "1450"]);
    let (text, _) = world.doctor(&[]);
    assert!(text.contains("ok    mtu"), "{text}");
}

#[test]
fn an_earlier_proxy_left_rules() {
    require_netns!();
    let world = far();
    let rules = "add table ip kube-proxy; add table ip nat; add chain ip nat KUBE-SERVICES";
    for sign in ["table ip kube-proxy", "KUBE-SERVICES"] {
        let is_found = || {
            // The agent removes what is there after its first sync, which may be now.
            world.run("nft", &[rules]);
            let (text, _) = world.doctor(&[]);
            let mut lines = text.lines();
            let found = lines.any(|it| it.contains("WARN  leftovers") && it.contains(sign));
            found.then_some(())
        };
        eventually(WITHIN, is_found).unwrap_or_else(|| panic!("{sign}: {}", world.doctor(&[]).0));
    }
}

#[test]
fn a_rule_of_another_program_drops() {
    require_netns!();
    let world = far();
    let guard = "table inet guard {
        chain work {
            tcp dport 8080 counter drop comment \"no web\"
        }
        chain out {
            type filter hook postrouting priority 50
            jump work
        }
    }";
    world.run("nft", &[guard]);
    assert!(!world.answers(world.node(), WEB));
    let (text, _) = world.doctor(&[]);
    let found = "inet guard work (handle 3 drops, \"no web\")";
    assert!(text.contains(found), "{text}");
    world.names(
        "trace",
        "dropped in postrouting by rule 3 of inet guard work",
        &["--probe"],
    );
}

#[test]
fn a_value_of_the_object_is_unknown() {
    require_netns!();
    let objects = Objects {
        spec: "internalTrafficPolicy: Nearby",
        ..GOOD
    };
    let world = World::new(Attach::Routed, &[("one", "node-b")], &objects);
    assert!(world.answers(world.node(), WEB));
    let (text, code) = world.doctor(&[]);
    assert!(text.contains("internalTrafficPolicy: \"Nearby\""), "{text}");
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn the_object_cannot_be_used() {
    require_netns!();
    let objects = Objects {
        spec: "healthCheckNodePort: 70000",
        ..GOOD
    };
    let world = World::new(Attach::Routed, &[("one", "node-b")], &objects);
    world.names("service", "web.yaml", &[]);
}

/// What `sluice` says on stdout and stderr.
fn ask(netns: &Netns, args: &[&str], world: &World) -> String {
    let mut command = netns.command(SLUICE, args);
    let output = command.arg("--socket").arg(world.files.socket()).output();
    let output = output.expect("it was built");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).expect("text")
}

/// As a debugger or an operator stops it: the kernel still accepts connections for the process.
#[test]
fn the_agent_is_stopped() {
    require_netns!();
    let world = far();
    let pid = world._agent.0.id();
    let agent = Pid::from_raw(pid.try_into().expect("a PID"));
    kill(agent, Signal::SIGSTOP).expect("our child");
    let says = format!("its process exists (pid {pid}) and is stopped");
    for args in [
        &["status"][..],
        &["status", "--services"],
        &["doctor", "default/web"],
    ] {
        let text = ask(world.node(), args, &world);
        assert!(text.contains(&says), "{args:?}: {text}");
    }
    let text = ask(world.node(), &["doctor"], &world);
    assert!(text.contains(&format!("kill -CONT {pid}")), "{text}");
    kill(agent, Signal::SIGCONT).expect("our child");
    world.is_well(&[]);
}

#[test]
fn the_doctor_is_in_another_network_namespace() {
    require_netns!();
    let world = far();
    let elsewhere = world.cluster.client("client").netns();
    let pid = world._agent.0.id();
    let text = ask(elsewhere, &["doctor", "default/web", "--probe"], &world);
    let says = format!("another network namespace than the agent (pid {pid})");
    assert!(
        text.contains("FAIL  namespace") && text.contains(&says),
        "{text}"
    );
    // Of the objects only, which are the same everywhere.
    assert!(
        text.contains("ok    endpoints") && !text.contains("  rules "),
        "{text}"
    );
    assert!(!text.contains("  probe "), "{text}");
    let text = ask(
        elsewhere,
        &["explain", "node", "default/web", "--live"],
        &world,
    );
    assert!(
        text.contains(&format!(
            "the agent (pid {pid}) is in another network namespace"
        )),
        "{text}"
    );
}

/// The doctor looks into the network namespace of a pod of this node.
#[test]
fn a_pod_of_this_node_shows_why_it_does_not_answer() {
    require_netns!();
    let objects = Objects { port: 9090, ..GOOD };
    let world = World::new(Attach::Routed, &[("one", "node-a")], &objects);
    let pod = world.cluster.pod("one");
    let probe = |cause: &str| world.names("probe", cause, &["--probe"]);
    probe("nothing listens there; the pod listens on 8080/tcp");
    let other = pod
        .netns()
        .run(|| UdpSocket::bind("0.0.0.0:9090").expect("a free port"));
    probe("nothing listens on 9090/tcp in the pod, but on 9090/udp");
    drop(other);
    let local = pod
        .netns()
        .run(|| TcpListener::bind("127.0.0.1:9090").expect("a free port"));
    probe("its server listens on 127.0.0.1:9090 only");
    drop(local);
    let _server = pod
        .netns()
        .run(|| TcpListener::bind("0.0.0.0:9090").expect("a free port"));
    world.is_well(&["--probe"]);

    let in_pod = |program: &str, args: &[&str]| {
        let output = pod
            .netns()
            .command(program, args)
            .output()
            .expect("it is installed");
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
    };
    let rules =
        "table inet fw { chain in { type filter hook input priority 0; tcp dport 9090 drop; }; }";
    in_pod("nft", &[rules]);
    probe("rules in the pod's network namespace drop or reject: inet fw in (handle 2 drops)");
    in_pod("nft", &["flush ruleset"]);
    world.is_well(&["--probe"]);

    in_pod("ip", &["link", "set", "eth0", "mtu", "1280"]);
    world.names("mtu", "packets of 1500 bytes to 10.244.", &["--probe"]);
    in_pod("ip", &["link", "set", "eth0", "mtu", "1500"]);
    world.is_well(&["--probe"]);

    let ip = pod.ipv4().to_string();
    let route = world
        .node()
        .command("ip", &["route", "get", &ip])
        .output()
        .expect("it is installed");
    let route = String::from_utf8(route.stdout).expect("text");
    let device = route
        .split("dev ")
        .nth(1)
        .and_then(|it| it.split(' ').next())
        .expect("a route");
    world.run(
        "ip",
        &[
            "neigh",
            "replace",
            &ip,
            "lladdr",
            "02:00:00:00:00:99",
            "dev",
            device,
            "nud",
            "permanent",
        ],
    );
    probe("has the MAC address 02:00:00:00:00:99, the pod has");
}

#[test]
fn the_machine_of_the_next_hop_is_gone() {
    require_netns!();
    let world = World::new(Attach::Routed, &[("one", "node-b")], &GOOD);
    let node = world.cluster.node("node-b");
    let down = node
        .netns()
        .command("ip", &["link", "set", "eth0", "down"])
        .output();
    assert!(down.expect("it is installed").status.success());
    world.run("ip", &["neigh", "flush", "dev", "eth0"]);
    let says = format!("no machine says that it is {} on eth0", node.ipv4());
    world.names("probe", &says, &["--probe"]);
}
