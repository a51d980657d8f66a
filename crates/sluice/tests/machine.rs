//! What the agent makes of the machine it runs on: its addresses, its privileges, its families.
//! Needs root.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use sluice_agent::status::Status;
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, eventually, require_netns};
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(20);

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

const NODE_PORT: u16 = 30080;
const POD_PORT: u16 = 8080;
const NOBODY: u32 = 65534;

/// `CAP_NET_ADMIN` as `/proc` shows a set.
const NET_ADMIN: &str = "0000000000001000";
const NONE: &str = "0000000000000000";

fn web(family: &str, cluster_ip: &str, endpoint: IpAddr) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web-{name}, namespace: default}}
spec:
  type: NodePort
  ipFamilies: [{family}]
  clusterIP: '{cluster_ip}'
  ports: [{{name: web, port: 80, targetPort: {POD_PORT}, nodePort: {NODE_PORT}}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-{name}, namespace: default, labels: {{kubernetes.io/service-name: web-{name}}}}}
addressType: {family}
ports: [{{name: web, port: {POD_PORT}}}]
endpoints: [{{addresses: ['{endpoint}']}}]
",
        name = family.to_lowercase(),
    )
}

/// An agent and its files; killed and removed when dropped.
struct Agent {
    child: Child,
    files: TempDir,
}

impl Agent {
    /// Runs until the rules of these manifests are written. `wrapper` comes before the program.
    #[track_caller]
    fn start(netns: &Netns, wrapper: &[&str], flags: &[&str], manifests: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = files.path();
        fs::write(path.join("web.yaml"), manifests).unwrap();
        // For those who may not look into the folder of the one who builds.
        let program = path.join("sluice");
        fs::copy(SLUICE, &program).unwrap();
        if !wrapper.is_empty() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Self::wrapped(netns, wrapper, &program);
        command.args(["proxy", "--hostname-override=node-a"]);
        command.args(flags);
        command.arg("--manifests").arg(path);
        command.arg("--socket").arg(path.join("sluice.sock"));
        let child = command.spawn().unwrap();
        let agent = Self { child, files };
        agent.until("synced", |it| it.synced);
        agent
    }

    fn wrapped(netns: &Netns, wrapper: &[&str], program: &Path) -> Command {
        match wrapper.split_first() {
            None => netns.command(program.to_str().unwrap(), &[]),
            Some((first, rest)) => {
                let mut command = netns.command(first, rest);
                command.arg(program);
                command
            }
        }
    }

    fn write(&self, name: &str, text: &str) {
        let draft = self.files.path().join("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.files.path().join(name)).unwrap();
    }

    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let mut last = None;
        let socket = self.files.path().join("sluice.sock");
        let found = eventually(WITHIN, || {
            let mut command = Command::new(SLUICE);
            command.args(["status", "-o", "json", "--socket"]);
            let output = command.arg(&socket).stderr(Stdio::null()).output().unwrap();
            last = serde_json::from_slice::<Status>(&output.stdout).ok();
            last.clone().filter(|it| wanted(it))
        });
        found.unwrap_or_else(|| panic!("{what}: {last:#?}"))
    }

    /// What `/proc` says under this name, of every thread.
    fn of_threads(&self, name: &str) -> BTreeSet<String> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let statuses = fs::read_dir(tasks).unwrap().map(|it| {
            let path = it.unwrap().path().join("status");
            fs::read_to_string(path).unwrap()
        });
        let values = statuses.map(|it| {
            let mut lines = it.lines().filter_map(|it| it.split_once(":\t"));
            lines.find(|it| it.0 == name).unwrap().1.to_owned()
        });
        values.collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn run(netns: &Netns, program: &str, args: &[&str]) -> Output {
    let output = netns.command(program, args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    output
}

fn rules(netns: &Netns) -> String {
    String::from_utf8(run(netns, "nft", &["list", "ruleset"]).stdout).unwrap()
}

fn lone_node() -> Netns {
    let netns = Netns::new("node").unwrap();
    run(&netns, "ip", &["link", "set", "lo", "up"]);
    netns
}

/// A node, its pod, and somebody outside.
struct World {
    cluster: Cluster,
    _server: Server,
}

impl World {
    fn new() -> Self {
        let builder = Cluster::builder().node("node-a").client("client");
        let cluster = builder.pod("one", "node-a").build().unwrap();
        let pod = cluster.pod("one");
        let server = Server::start(pod.netns(), "one", POD_PORT, Protocol::Tcp).unwrap();
        Self {
            cluster,
            _server: server,
        }
    }

    fn node(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    fn manifest(&self) -> String {
        web("IPv4", "10.96.0.10", self.cluster.pod("one").ipv4().into())
    }

    /// Whether the client gets an answer at the NodePort of this address in the end.
    #[track_caller]
    fn answers(&self, address: &str, expected: Option<&str>) {
        let target = SocketAddr::new(address.parse().unwrap(), NODE_PORT);
        let client = self.cluster.client("client").netns();
        let mut last = None;
        let found = eventually(WITHIN, || {
            let answer = last.insert(Probe::tcp(target).from(client));
            (answer.name() == expected).then_some(())
        });
        assert!(found.is_some(), "{target}: {last:?}, not {expected:?}");
    }
}

/// A start that must fail tells what is missing, and leaves no rule, sysctl, lock or folder behind.
#[test]
fn without_a_source_nothing_is_touched() {
    require_netns!();
    let netns = lone_node();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let config = path("config.conf");
    let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    fs::write(&config, head).unwrap();
    fs::write(path("garbage"), "{").unwrap();
    let timeout = || {
        let path = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
        netns.run(|| fs::read_to_string(path).ok())
    };
    let before = timeout();
    let in_pod = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
    for (flag, pod, code, parts) in [
        (
            "",
            "",
            2,
            &["--kubeconfig PATH", "--manifests DIR", "--master URL"][..],
        ),
        ("", "10.96.0.1", 1, &["the pod's service account"]),
        (
            &*format!("--config={config}"),
            "",
            1,
            &[&*config, "clientConnection.kubeconfig"],
        ),
        (
            &format!("--kubeconfig={}", path("none")),
            "",
            1,
            &["kubeconfig", "none"],
        ),
        (
            &format!("--kubeconfig={}", path("garbage")),
            "",
            1,
            &["kubeconfig", "garbage"],
        ),
        (
            &format!("--manifests={}", path("none")),
            "",
            1,
            &["--manifests", "none"],
        ),
        (
            &format!("--manifests={config}"),
            "",
            1,
            &["--manifests", "config.conf"],
        ),
    ] {
        let mut command = netns.command(SLUICE, &["proxy"]);
        command.args(Some(flag).filter(|it| !it.is_empty()));
        command.arg(format!("--socket={}", path("run/sluice.sock")));
        for name in in_pod {
            match pod {
                "" => command.env_remove(name),
                // A port that is none would be told first.
                _ => command.env(name, if name.ends_with("PORT") { "443" } else { pod }),
            };
        }
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{flag}: {said}");
        assert_eq!(said.lines().count(), 1, "{flag}: {said}");
        for part in parts {
            assert!(said.contains(part), "{flag}: {said}");
        }
        assert!(!folder.path().join("run").exists(), "{flag}");
        assert_eq!(
            (timeout(), rules(&netns)),
            (before.clone(), String::new()),
            "{flag}"
        );
    }
}

#[test]
fn the_primary_address_is_that_of_the_default_route_of_now() {
    require_netns!();
    let world = World::new();
    let node = world.cluster.node("node-a");
    let old = node.ipv4().to_string();
    let new = "192.0.2.77";
    let client = world.cluster.client("client");
    client
        .route_via("192.0.2.77/32".parse().unwrap(), node)
        .unwrap();
    let gateway = client.ipv4().to_string();
    let route = |source: &str| {
        let dev = ["dev", "eth0", "src", source];
        let words = [&["route", "replace", "default", "via", &gateway][..], &dev].concat();
        run(world.node(), "ip", &words);
    };
    route(&old);
    let _agent = Agent::start(world.node(), &[], &[], &world.manifest());
    world.answers(&old, Some("one"));

    // An address alone changes nothing; the route makes it the node's own.
    node.add_address(new.parse().unwrap()).unwrap();
    route(new);
    world.answers(new, Some("one"));
    world.answers(&old, None);
    run(world.node(), "ip", &["route", "del", "default"]);
    world.answers(new, Some("one"));
    route(&old);
    world.answers(&old, Some("one"));
    world.answers(new, None);
}

#[test]
fn node_ports_within_prefixes_follow_the_addresses() {
    require_netns!();
    let world = World::new();
    let node = world.cluster.node("node-a");
    let old = node.ipv4().to_string();
    let client = world.cluster.client("client");
    client
        .route_via("192.0.2.0/24".parse().unwrap(), node)
        .unwrap();
    let flags = ["--nodeport-addresses=192.0.2.0/24"];
    let _agent = Agent::start(world.node(), &[], &flags, &world.manifest());
    world.answers(&old, None);
    for address in ["192.0.2.77", "192.0.2.78"] {
        node.add_address(address.parse().unwrap()).unwrap();
        world.answers(address, Some("one"));
        let prefixed = format!("{address}/32");
        run(
            world.node(),
            "ip",
            &["address", "del", &prefixed, "dev", "eth0"],
        );
        world.answers(address, None);
    }
}

#[test]
fn every_thread_has_given_up_what_it_does_not_need() {
    require_netns!();
    let netns = lone_node();
    let agent = Agent::start(
        &netns,
        &[],
        &[],
        &web("IPv4", "10.96.0.10", [10, 244, 0, 7].into()),
    );
    for (set, expected) in [
        ("CapEff", NET_ADMIN),
        ("CapPrm", NET_ADMIN),
        // No program is run in this mode.
        ("CapInh", NONE),
        ("CapAmb", NONE),
        ("CapBnd", NET_ADMIN),
        ("NoNewPrivs", "1"),
        // `SECCOMP_MODE_FILTER`
        ("Seccomp", "2"),
    ] {
        assert_eq!(agent.of_threads(set), [expected.to_owned()].into(), "{set}");
    }
    works(&agent, &netns);
}

/// The profiler writes a temporary file.
#[test]
fn the_sandbox_lets_profiles_be_taken() {
    require_netns!();
    let netns = lone_node();
    let manifests = web("IPv4", "10.96.0.10", [10, 244, 0, 7].into());
    let _agent = Agent::start(&netns, &[], &["--profiling"], &manifests);
    let answer = netns.run(|| {
        let mut server = TcpStream::connect("127.0.0.1:10249").unwrap();
        let request = b"GET /debug/pprof/profile?seconds=1 HTTP/1.0\r\n\r\n";
        server.write_all(request).unwrap();
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    });
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

/// Takes in a change of its files, and repairs what others break.
#[track_caller]
fn works(agent: &Agent, netns: &Netns) {
    agent.write(
        "web.yaml",
        &web("IPv4", "10.96.0.10", [10, 244, 0, 8].into()),
    );
    let changed = eventually(WITHIN, || rules(netns).contains("10.244.0.8").then_some(()));
    assert!(changed.is_some(), "{}", rules(netns));
    run(netns, "nft", &["flush", "ruleset"]);
    let status = agent.until("repaired", |it| it.repairs == 1 && it.synced);
    assert_eq!(status.failures, 0, "{status:#?}");
    assert!(rules(netns).contains("10.244.0.8"), "{}", rules(netns));
}

#[test]
fn an_ordinary_user_with_the_one_capability_is_enough() {
    require_netns!();
    let netns = lone_node();
    let wrapper = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=+net_admin",
        "--ambient-caps=+net_admin",
        "--",
    ];
    let manifests = web("IPv4", "10.96.0.10", [10, 244, 0, 7].into());
    let agent = Agent::start(&netns, &wrapper, &[], &manifests);
    for (set, expected) in [
        ("CapEff", NET_ADMIN),
        ("CapPrm", NET_ADMIN),
        ("CapInh", NONE),
        ("CapAmb", NONE),
    ] {
        assert_eq!(agent.of_threads(set), [expected.to_owned()].into(), "{set}");
    }
    assert_eq!(agent.of_threads("NoNewPrivs"), ["1".to_owned()].into());
    let user = agent.of_threads("Uid");
    assert!(user.iter().all(|it| it.starts_with("65534")), "{user:?}");
    works(&agent, &netns);
}

#[test]
fn a_machine_without_ipv6_serves_ipv4() {
    require_netns!();
    let world = World::new();
    for key in ["all", "default"] {
        let key = format!("net.ipv6.conf.{key}.disable_ipv6");
        world.node().sysctl(&key, "1").unwrap();
    }
    let v6 = web("IPv6", "fd00:10:96::10", "fd00::7".parse().unwrap());
    let manifests = format!("{}---{v6}", world.manifest());
    let flags = ["--nodeport-addresses=0.0.0.0/0,::/0"];
    let agent = Agent::start(world.node(), &[], &flags, &manifests);
    let status = agent.until("synced", |it| it.synced && it.service_ports == 2);
    assert_eq!(
        (status.failures, status.refused.len()),
        (0, 0),
        "{status:#?}"
    );
    let address = world.cluster.node("node-a").ipv4().to_string();
    world.answers(&address, Some("one"));
    assert!(rules(world.node()).contains("fd00:10:96::10"));
}

/// NodePorts on 127.0.0.1 take a sysctl that would let other hosts reach what listens on loopback
/// alone (CVE-2020-8558). The rule against that is there before the sysctl.
#[test]
fn localhost_node_ports_are_guarded_against_other_hosts() {
    require_netns!();
    let builder = Cluster::builder().node("node-a").pod("web", "node-a");
    let cluster = builder.client("laptop").build().unwrap();
    let node = cluster.node("node-a").netns();
    let pod = cluster.pod("web");
    let _web = Server::start(pod.netns(), "web", POD_PORT, Protocol::Tcp).unwrap();
    let _private = Server::start(node, "private", 9000, Protocol::Tcp).unwrap();
    let manifests = web("IPv4", "10.96.0.10", pod.ipv4().into());
    let route_localnet = || {
        let path = "/proc/sys/net/ipv4/conf/all/route_localnet";
        node.run(|| fs::read_to_string(path).unwrap().trim() == "1")
    };
    let local = |port: u16| SocketAddr::new([127, 0, 0, 1].into(), port);
    let mode = ["--healthz-bind-address=", "--proxy-mode=iptables"];

    let without = [&mode[..], &["--iptables-localhost-nodeports=false"]].concat();
    let agent = Agent::start(node, &[], &without, &manifests);
    assert!(!agent.until("a status", |_| true).localhost_node_ports);
    assert!(!route_localnet());
    assert!(Probe::tcp(local(NODE_PORT)).from(node).name().is_none());
    drop(agent);

    let agent = Agent::start(node, &[], &mode, &manifests);
    assert!(agent.until("a status", |_| true).localhost_node_ports);
    eventually(WITHIN, || route_localnet().then_some(())).expect("the sysctl is set");
    let outcome = Probe::tcp(local(NODE_PORT)).from(node);
    assert_eq!(outcome.name(), Some("web"), "{outcome}");
    // A client that sends what is for loopback to the node, as one on the same network may.
    let laptop = cluster.client("laptop").netns();
    laptop
        .sysctl("net.ipv4.conf.all.route_localnet", "1")
        .unwrap();
    let gateway = cluster.node("node-a").ipv4().to_string();
    for arguments in [
        &["addr", "flush", "dev", "lo"][..],
        &["route", "add", "127.0.0.0/8", "via", &gateway],
    ] {
        let status = laptop.command("ip", arguments).status().unwrap();
        assert!(status.success(), "ip {arguments:?}");
    }
    let intruder = || {
        Probe::tcp(local(9000))
            .timeout(Duration::from_secs(2))
            .from(laptop)
    };
    let outcome = intruder();
    assert!(outcome.name().is_none(), "{outcome}");
    let flushed = node
        .command("iptables", &["-F", "KUBE-FIREWALL"])
        .status()
        .unwrap();
    assert!(flushed.success());
    let outcome = intruder();
    assert_eq!(
        outcome.name(),
        Some("private"),
        "without the rule: {outcome}"
    );
}

/// What an agent in a container that cannot write sysctls needs before it starts.
#[test]
fn init_only_guards_loopback_before_it_lets_it_out() {
    require_netns!();
    let netns = lone_node();
    let kubelet = ["-t", "filter", "-N", "KUBE-FIREWALL"];
    run(&netns, "iptables", &kubelet);
    run(&netns, "iptables", &["-A", "KUBE-FIREWALL", "-j", "RETURN"]);
    let route_localnet = || {
        let path = "/proc/sys/net/ipv4/conf/all/route_localnet";
        netns.run(|| fs::read_to_string(path).unwrap().trim() == "1")
    };
    let init = |more: &[&str]| {
        let flags = "proxy --init-only --conntrack-max-per-core=0 --proxy-mode=iptables";
        let flags: Vec<&str> = flags.split(' ').chain(more.iter().copied()).collect();
        run(&netns, SLUICE, &flags);
    };
    let saved = || {
        let output = run(&netns, "iptables-save", &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        let rules = text.lines().filter(|it| it.starts_with("-A"));
        rules.map(str::to_owned).collect::<Vec<_>>()
    };
    init(&["--iptables-localhost-nodeports=false"]);
    assert!(!route_localnet());
    let before = saved();
    init(&[]);
    assert!(route_localnet());
    let guard = "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \"block \
                 incoming localnet connections\" -m conntrack ! --ctstate \
                 RELATED,ESTABLISHED,DNAT -j DROP";
    let jumps = ["INPUT", "OUTPUT"].map(|it| format!("-A {it} -j KUBE-FIREWALL"));
    let added: BTreeSet<String> = jumps.into_iter().chain([guard.to_owned()]).collect();
    let after = saved();
    let kept: Vec<&String> = after.iter().filter(|it| !added.contains(*it)).collect();
    assert_eq!(kept, before.iter().collect::<Vec<_>>());
    assert_eq!(after.len(), before.len() + added.len(), "{after:#?}");
    init(&[]);
    assert_eq!(saved(), after);
}
