//! The agent on a real node: namespaces, packets, rules, signals. Needs root.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_agent::ServiceConnections;
use sluice_lab::{Cluster, Netns, Probe, Protocol, Server, eventually, require_netns};

use crate::common::{Agent, Files, SLUICE, WITHIN};

/// One Service for UDP, by ClusterIP and NodePort.
const DNS: &str = "
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  ports: [{name: dns, protocol: UDP, port: 53, targetPort: 5353, nodePort: 30053}]
";

fn slice(addresses: &[&str]) -> String {
    let endpoints = addresses.iter().map(|it| format!("{{addresses: [{it}]}}"));
    let endpoints = endpoints.collect::<Vec<_>>().join(", ");
    format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: dns-1, namespace: default, labels: {{kubernetes.io/service-name: dns}}}}
addressType: IPv4
ports: [{{name: dns, protocol: UDP, port: 5353}}]
endpoints: [{endpoints}]
"
    )
}

/// Sends a signal and waits for the end; the exit code.
fn end(mut agent: Agent, signal: Signal) -> Option<i32> {
    let pid = Pid::from_raw(i32::try_from(agent.0.id()).expect("a process id"));
    kill(pid, signal).expect("it runs");
    agent.0.wait().expect("our child").code()
}

fn run(netns: &Netns, program: &str, args: &[&str]) -> Output {
    let output = netns.command(program, args).output();
    let output = output.unwrap_or_else(|error| panic!("run {program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    output
}

fn rules(netns: &Netns) -> String {
    let output = run(netns, "nft", &["list", "ruleset"]);
    String::from_utf8(output.stdout).expect("text")
}

fn lone_node() -> Netns {
    let netns = Netns::new("node").expect("permitted");
    run(&netns, "ip", &["link", "set", "lo", "up"]);
    netns
}

fn cluster() -> Cluster {
    let builder = Cluster::builder().node("node-a").client("client");
    let builder = builder.pod("one", "node-a").pod("two", "node-a");
    builder.build().expect("a cluster")
}

#[test]
fn udp_clients_follow_when_their_endpoint_goes() {
    require_netns!();
    let cluster = cluster();
    let (one, two) = (cluster.pod("one"), cluster.pod("two"));
    let serve = |pod: &sluice_lab::Pod| {
        Server::start(pod.netns(), pod.name(), 5353, Protocol::Udp).expect("a free port")
    };
    let _servers = [serve(one), serve(two)];
    let (ip_one, ip_two) = (one.ipv4().to_string(), two.ipv4().to_string());
    let node = cluster.node("node-a");
    let files = Files::new();
    files.write("dns.yaml", DNS);
    files.write("slice.yaml", &slice(&[&ip_one]));
    let _agent = Agent::run(&files, files.proxy(node.netns()));

    let virtual_ip: SocketAddr = "10.96.0.10:53".parse().expect("an address");
    let node_port = SocketAddr::new(node.ipv4().into(), 30053);
    let client = cluster.client("client").netns();
    let ask = |target| Probe::udp(target).source_port(4711).from(client);
    // One flow each, always from the same source port.
    for target in [virtual_ip, node_port] {
        let answer = ask(target);
        assert_eq!(answer.name(), Some("one"), "{target}: {answer}");
    }
    files.write("slice.yaml", &slice(&[&ip_two]));
    for target in [virtual_ip, node_port] {
        let mut last = None;
        let moved = eventually(WITHIN, || {
            let answer = last.insert(ask(target));
            (answer.name() == Some("two")).then_some(())
        });
        assert!(moved.is_some(), "{target}: {last:?}");
    }
    files.await_status("two flows deleted", |it| it.conntrack_deleted >= 2);

    // Nobody serves any more, then somebody does again.
    files.write("slice.yaml", &slice(&[]));
    files.await_status("no endpoints", |it| it.synced && it.endpoints == 0);
    let silent = eventually(WITHIN, || ask(virtual_ip).name().is_none().then_some(()));
    assert!(
        silent.is_some(),
        "its flow still leads to an endpoint that is gone"
    );
    files.write("slice.yaml", &slice(&[&ip_one]));
    let mut last = None;
    let back = eventually(WITHIN, || {
        let answer = last.insert(ask(virtual_ip));
        (answer.name() == Some("one")).then_some(())
    });
    assert!(back.is_some(), "{last:?}");
}

#[test]
fn connections_are_counted_on_request_and_across_restarts() {
    require_netns!();
    let cluster = cluster();
    let one = cluster.pod("one");
    let _server = Server::start(one.netns(), "one", 5353, Protocol::Udp).expect("a free port");
    let node = cluster.node("node-a");
    let files = Files::new();
    files.write("dns.yaml", DNS);
    files.write("slice.yaml", &slice(&[&one.ipv4().to_string()]));
    let start = |flags: &[&str]| {
        let agent = files.proxy(node.netns()).args(flags).spawn();
        let agent = Agent(agent.expect("it was built"));
        files.await_status("synced", |it| it.synced && it.agent.pid == agent.0.id());
        agent
    };
    let connect = |times: u32| {
        let targets = [
            "10.96.0.10:53".parse().expect("an address"),
            SocketAddr::new(node.ipv4().into(), 30053),
        ];
        for target in targets {
            for _ in 0..times {
                let answer = Probe::udp(target).from(cluster.client("client").netns());
                assert_eq!(answer.name(), Some("one"), "{target}: {answer}");
            }
        }
    };
    let ask = |more: &[&str]| {
        let mut status = Command::new(SLUICE);
        status.args(["status", "--connections", "--socket"]);
        let output = status.arg(files.socket()).args(more).output();
        output.expect("it was built")
    };
    let report = || -> Option<ServiceConnections> {
        let output = ask(&["-o", "json"]);
        let mut all: Vec<ServiceConnections> = serde_json::from_slice(&output.stdout).ok()?;
        assert!(all.len() <= 1, "{all:#?}");
        all.pop()
    };

    let agent = start(&[]);
    let output = ask(&[]);
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).expect("text");
    assert!(err.contains("--count-connections"), "{err}");
    let counts_elements = |listing: &str| listing.lines().any(|it| it.trim() == "counter");
    assert!(!counts_elements(&rules(node.netns())));
    end(agent, Signal::SIGTERM);

    let agent = start(&["--count-connections"]);
    let before = eventually(WITHIN, &report).expect("a first reading");
    connect(3);
    let mut last = None;
    let counted = eventually(WITHIN, || {
        last = report();
        last.clone()
            .filter(|it| it.connections == before.connections + 6)
    });
    let counted = counted.unwrap_or_else(|| panic!("{last:#?}"));
    assert_eq!((&*counted.service, &*counted.protocol), ("dns", "udp"));
    assert_eq!(counted.endpoints.len(), 1);
    assert_eq!(
        counted.endpoints[0].endpoint,
        format!("{}:5353", one.ipv4())
    );
    let table = String::from_utf8(ask(&[]).stdout).expect("text");
    assert!(table.contains("default/dns:dns  udp"), "{table}");
    end(agent, Signal::SIGTERM);

    // While nobody looks the kernel counts on; that was before the next agent's time.
    connect(1);
    let listing = rules(node.netns());
    assert!(listing.contains("counter packets 4 "), "{listing}");
    let _agent = start(&["--count-connections"]);
    let after = eventually(WITHIN, &report).expect("a first reading");
    assert_eq!(after.connections, 0);
    assert_eq!(rules(node.netns()), listing, "its tables were adopted");
}

#[test]
fn foreign_changes_are_repaired() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    files.write("dns.yaml", DNS);
    files.write("slice.yaml", &slice(&["10.244.0.7"]));
    let _agent = Agent::run(&files, files.proxy(&netns));
    let written = rules(&netns);
    assert!(written.contains("10.244.0.7"), "{written}");
    let repairs = [
        vec!["flush", "ruleset"],
        vec!["delete", "table", "ip6", "sluice"],
        vec!["add", "chain", "ip", "sluice", "stranger"],
    ];
    for (count, change) in (1..).zip(repairs) {
        run(&netns, "nft", &change);
        let status = files.await_status("repaired", |it| it.repairs >= count && it.synced);
        assert_eq!(status.failures, 0, "{status:#?}");
        assert_eq!(sorted(&rules(&netns)), sorted(&written), "after {change:?}");
    }
    // Tables of others are none of our business.
    run(&netns, "nft", &["add", "table", "ip", "other"]);
    run(&netns, "nft", &["delete", "table", "ip", "other"]);
    files.write("slice.yaml", &slice(&["10.244.0.8"]));
    let status = files.await_status("the change", |it| {
        it.last_sync
            .as_ref()
            .is_some_and(|it| !it.full && it.added + it.replaced > 0)
    });
    assert_eq!(status.repairs, 3, "our own writes are no drift");
}

/// Elements of a map have no order of their own.
fn sorted(rules: &str) -> Vec<&str> {
    let words = rules.split([' ', '\t', '\n', ',']);
    let mut words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
    words.sort_unstable();
    words
}

#[test]
fn rules_outlive_the_agent_and_the_next_one_adopts_them() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    files.write("dns.yaml", DNS);
    files.write("slice.yaml", &slice(&["10.244.0.7", "10.244.0.8"]));
    let agent = Agent::run(&files, files.proxy(&netns));
    let written = rules(&netns);
    assert_eq!(end(agent, Signal::SIGTERM), Some(0));
    assert_eq!(rules(&netns), written);
    assert!(!files.socket().exists(), "a clean end leaves no socket");

    let agent = Agent::run(&files, files.proxy(&netns));
    let last = files.status().and_then(|it| it.proxy.last_sync);
    let last = last.expect("it has synced");
    assert!(last.full);
    assert_eq!((last.added, last.replaced, last.deleted), (0, 0, 0));
    assert_eq!(end(agent, Signal::SIGKILL), None);
    assert!(files.socket().exists(), "nobody could remove it");

    let agent = Agent::run(&files, files.proxy(&netns));
    assert_eq!(end(agent, Signal::SIGINT), Some(0));
    assert_eq!(rules(&netns), written);
}

#[test]
fn a_log_that_nobody_reads_is_no_reason_to_stop() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    files.write("dns.yaml", DNS);
    let mut child = files.proxy(&netns);
    let child = child.stderr(Stdio::piped()).spawn();
    let mut agent = Agent(child.expect("it was built"));
    files.await_status("synced", |it| it.synced);
    drop(agent.0.stderr.take());
    for address in ["10.244.0.7", "10.244.0.8"] {
        files.write("slice.yaml", &slice(&[address]));
        let written = eventually(WITHIN, || rules(&netns).contains(address).then_some(()));
        assert!(written.is_some(), "{}", rules(&netns));
    }
    assert_eq!(end(agent, Signal::SIGTERM), Some(0));
}

#[test]
fn one_agent_per_node() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    let agent = Agent::run(&files, files.proxy(&netns));
    let second = files.proxy(&netns).output().expect("it was built");
    assert_eq!(second.status.code(), Some(1));
    let err = String::from_utf8(second.stderr).expect("text");
    let pid = agent.0.id();
    let expected = format!("sluice: another sluice is running (pid {pid})");
    assert!(err.starts_with(&expected), "{err}");
    // With files of its own it is told the same: rules belong to the network namespace.
    let third = Files::new().proxy(&netns).output().expect("it was built");
    assert_eq!(third.status.code(), Some(1));
    let err = String::from_utf8(third.stderr).expect("text");
    let expected = "sluice: another sluice is running in this network namespace";
    assert!(err.starts_with(expected), "{err}");
    assert!(files.status().is_some(), "the first goes on");
}

/// Asks for `/healthz` inside a namespace; `None` when nobody listens.
fn get(netns: &Netns, address: &str) -> Option<String> {
    netns.run(|| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    })
}

#[test]
fn health_check_node_ports_follow_the_endpoints() {
    require_netns!();
    let netns = lone_node();
    run(
        &netns,
        "ip",
        &["address", "add", "192.0.2.5/32", "dev", "lo"],
    );
    let files = Files::new();
    let service = "
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  externalTrafficPolicy: Local
  healthCheckNodePort: 32123
  ports: [{name: dns, protocol: UDP, port: 53, targetPort: 5353, nodePort: 30053}]
";
    let node = "
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.0.2.5}]}
";
    files.write("node.yaml", node);
    files.write("dns.yaml", service);
    let _agent = Agent::run(&files, files.proxy(&netns));
    let said = |what: &str, part: &str| {
        let found = eventually(WITHIN, || {
            get(&netns, "192.0.2.5:32123").filter(|it| it.contains(part))
        });
        found.unwrap_or_else(|| panic!("{what}"))
    };
    let answer = said("nobody here", "\"localEndpoints\": 0");
    assert!(answer.starts_with("HTTP/1.0 503"), "{answer}");
    assert_eq!(get(&netns, "127.0.0.1:32123"), None, "on no other address");
    let here = slice(&["10.0.0.1", "10.0.0.2"]).replace("}]\n", ", nodeName: node-a}]\n");
    files.write("slice.yaml", &here);
    let answer = said("one is here", "X-Load-Balancing-Endpoint-Weight: 1");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    files.write("dns.yaml", &service.replace("32123", "32124"));
    let moved = eventually(WITHIN, || get(&netns, "192.0.2.5:32124"));
    assert!(moved.is_some(), "another port");
    assert_eq!(get(&netns, "192.0.2.5:32123"), None);
}

#[test]
fn the_health_server_and_the_status_tell_of_a_broken_manifest() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    files.write("dns.yaml", DNS);
    files.write("broken.yaml", "kind: [");
    let _agent = Agent::run(&files, files.proxy(&netns));
    let answer = get(&netns, "127.0.0.1:10256").expect("it listens");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert!(answer.contains("\"healthy\":true"), "{answer}");

    let status = files.status().expect("it answers");
    assert_eq!(
        (&*status.agent.node, &*status.agent.mode),
        ("node-a", "nftables")
    );
    assert_eq!((status.services, status.service_ports), (1, 1));
    assert_eq!(status.problems.len(), 1, "{status:#?}");
    let mode = |path: PathBuf| fs::metadata(path).expect("it exists").permissions().mode();
    assert_eq!(mode(files.socket()) & 0o777, 0o600);

    let mut table = Command::new(SLUICE);
    let table = table.args(["status", "--socket"]).arg(files.socket());
    let table = table.output().expect("it was built");
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(table.contains("broken.yaml"), "{table}");
    assert!(table.contains("services           1\n"), "{table}");
}

#[test]
fn cleanup_removes_every_trace_and_nothing_else() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    files.write("dns.yaml", DNS);
    files.write("slice.yaml", &slice(&["10.244.0.7"]));
    let agent = Agent::run(&files, files.proxy(&netns));
    let mut early = netns.command(SLUICE, &["cleanup", "--socket"]);
    let early = early.arg(files.socket()).output().expect("it was built");
    assert_eq!(early.status.code(), Some(1));
    let err = String::from_utf8(early.stderr).expect("text");
    assert!(err.contains("stop the agent first"), "{err}");
    end(agent, Signal::SIGTERM);
    run(&netns, "nft", &["add", "table", "ip", "other"]);
    run(&netns, "nft", &["add", "table", "ip6", "kube-proxy"]);
    run(&netns, SLUICE, &["cleanup"]);
    let left = rules(&netns);
    assert!(!left.contains("sluice"), "{left}");
    assert!(left.contains("table ip other") && left.contains("table ip6 kube-proxy"));
    run(&netns, SLUICE, &["cleanup", "--kube-proxy"]);
    let left = rules(&netns);
    assert!(!left.contains("kube-proxy") && left.contains("table ip other"));
    run(&netns, SLUICE, &["cleanup"]);
}

#[test]
fn kube_proxys_tables_go_after_the_first_sync() {
    require_netns!();
    let netns = lone_node();
    run(&netns, "nft", &["add", "table", "ip", "kube-proxy"]);
    run(&netns, "nft", &["add", "table", "ip6", "kube-proxy"]);
    let files = Files::new();
    let _agent = Agent::run(&files, files.proxy(&netns));
    let gone = eventually(WITHIN, || {
        (!rules(&netns).contains("kube-proxy")).then_some(())
    });
    assert!(gone.is_some(), "{}", rules(&netns));
    assert!(rules(&netns).contains("table ip sluice"));
}

#[test]
fn without_the_privilege_it_says_so_in_one_line() {
    require_netns!();
    let files = Files::new();
    // Nobody may look into the folder of the one who builds.
    let program = files.0.path().join("sluice");
    fs::copy(SLUICE, &program).expect("enough space");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(files.0.path(), open).expect("our own folder");
    for command in [&["proxy", "--manifests", "/"][..], &["cleanup"]] {
        let mut run = Command::new(&program);
        run.args(command).uid(65534).gid(65534).stdin(Stdio::null());
        let output = run.output().expect("it is executable for everybody");
        assert_eq!(output.status.code(), Some(1));
        let err = String::from_utf8(output.stderr).expect("text");
        assert_eq!(
            err,
            "sluice: missing capability CAP_NET_ADMIN: run as root, or as a service that is given \
             it (AmbientCapabilities of systemd)\n"
        );
    }
}

#[test]
fn a_changed_configuration_ends_the_agent_and_leaves_the_rules() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    let config = files.0.path().join("config.conf");
    let write = |rest: &str| {
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration";
        fs::write(&config, format!("{head}\nmode: nftables\n{rest}\n")).expect("writable");
    };
    write("hostnameOverride: node-b");
    let mut command = files.proxy(&netns);
    command.arg("--config").arg(&config).stderr(Stdio::piped());
    let mut agent = Agent(command.spawn().expect("it was built"));
    files.await_status("synced", |it| it.synced && it.agent.pid == agent.0.id());
    let before = rules(&netns);
    write("hostnameOverride: [");
    write("hostnameOverride: node-b # as before");
    write("metricsBindAddress: 127.0.0.1:1");
    let ended = eventually(WITHIN, || agent.0.try_wait().expect("a child"));
    assert_eq!(ended.and_then(|it| it.code()), Some(1));
    let mut err = String::new();
    let mut stderr = agent.0.stderr.take().expect("piped");
    stderr.read_to_string(&mut err).expect("text");
    let expected = "the configuration has changed: metricsBindAddress: start again";
    assert!(err.contains(expected), "{err}");
    assert_eq!(rules(&netns), before);
}

/// What the machine is set up for at start, and what the rules are written for.
#[test]
fn a_changed_configuration_is_in_force_as_a_whole() {
    require_netns!();
    let netns = lone_node();
    let files = Files::new();
    let config = files.0.path().join("config.conf");
    let write = |addresses: &str, liberal: bool| {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
             mode: iptables\nnodePortAddresses: [{addresses}]\n\
             conntrack: {{maxPerCore: 0, tcpBeLiberal: {liberal}}}\n"
        );
        fs::write(&config, text).expect("writable");
    };
    let start = || {
        let mut command = files.proxy(&netns);
        command.arg("--config").arg(&config).stderr(Stdio::piped());
        let agent = Agent(command.spawn().expect("it was built"));
        files.await_status("synced", |it| it.synced && it.agent.pid == agent.0.id());
        agent
    };
    let ends_for = |mut agent: Agent, field: &str| {
        let ended = eventually(WITHIN, || agent.0.try_wait().expect("a child"));
        assert_eq!(ended.and_then(|it| it.code()), Some(1), "{field}");
        let mut err = String::new();
        let mut stderr = agent.0.stderr.take().expect("piped");
        stderr.read_to_string(&mut err).expect("text");
        let expected = format!("the configuration has changed: {field}: start again");
        assert!(err.contains(&expected), "{err}");
    };
    let drops_invalid = || {
        let output = run(&netns, "iptables-save", &["-t", "filter"]);
        String::from_utf8_lossy(&output.stdout).contains("--ctstate INVALID")
    };
    let routes_loopback = || {
        let path = "/proc/sys/net/ipv4/conf/all/route_localnet";
        (run(&netns, "cat", &[path]).stdout == b"1\n").then_some(())
    };
    write("10.9.0.0/16", false);
    let agent = start();
    assert!(routes_loopback().is_none() && drops_invalid());
    write("", false);
    ends_for(agent, "nodePortAddresses");
    let agent = start();
    eventually(WITHIN, routes_loopback).expect("the sysctl is set");
    write("", true);
    ends_for(agent, "conntrack.tcpBeLiberal");
    let agent = start();
    assert!(!drops_invalid());
    drop(agent);
    // Somebody else has set it since the rules were written.
    let set = |value| {
        let setting = format!("net.netfilter.nf_conntrack_tcp_be_liberal={value}");
        run(&netns, "sysctl", &["-qw", &setting]);
    };
    set(0);
    write("", false);
    let agent = start();
    assert!(drops_invalid());
    set(1);
    write("", true);
    ends_for(agent, "conntrack.tcpBeLiberal");
}

/// Only values that belong to the network namespace.
#[test]
fn init_only_sets_connection_tracking() {
    require_netns!();
    let netns = lone_node();
    let flags = "proxy --init-only --conntrack-max-per-core=0 --conntrack-tcp-be-liberal \
                 --conntrack-tcp-timeout-established=1234s --conntrack-udp-timeout=56s";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    run(&netns, SLUICE, &flags);
    for (name, expected) in [
        ("tcp_timeout_established", "1234"),
        ("tcp_timeout_close_wait", "3600"),
        ("tcp_be_liberal", "1"),
        ("udp_timeout", "56"),
    ] {
        let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
        let value = run(&netns, "cat", &[&path]).stdout;
        assert_eq!(String::from_utf8_lossy(&value).trim(), expected, "{name}");
    }
}
