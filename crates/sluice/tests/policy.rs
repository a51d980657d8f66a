//! Network policies beside the rules of Services, in every mode that this kernel has. Needs root.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use sluice_lab::{
    Attach, Client, Cluster, Netns, Pod, Probe, Protocol, Server, Session, eventually,
    require_netns,
};

use crate::common::{Agent, Files, SLUICE, WITHIN, get};

const VIP: [&str; 2] = ["10.96.0.80", "fd00:10:96::80"];
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_249);
const NODE_PORT: u16 = 30_080;

/// A node with two servers and a client pod, another node with a client pod, and a machine outside.
struct Bed {
    cluster: Cluster,
    files: Files,
    _servers: Vec<Server>,
}

impl Bed {
    fn new() -> Self {
        Self::attached(Attach::Routed)
    }

    fn attached(attach: Attach) -> Self {
        let builder = Cluster::builder()
            .attach(attach)
            .node("node-a")
            .node("node-b")
            .client("outside");
        let builder = builder
            .pod("web", "node-a")
            .pod("near", "node-a")
            .pod("far", "node-b");
        let cluster = builder.build().expect("root");
        let servers = ["web", "near", "far"].map(|name| {
            let pod = cluster.pod(name);
            Server::start(pod.netns(), name, 8080, Protocol::Tcp).expect("the port is free")
        });
        let bed = Self {
            cluster,
            files: Files::new(),
            _servers: servers.into(),
        };
        let pods = ["web", "near", "far"].map(|it| bed.pod(it, it)).concat();
        bed.files.write("pods.yaml", &pods);
        bed.files.write("service.yaml", &bed.service());
        bed
    }

    fn pod(&self, name: &str, app: &str) -> String {
        let pod = self.cluster.pod(name);
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, labels: {{app: {app}}}}}\n\
             spec: {{nodeName: {}, containers: [{{name: c, image: i}}]}}\n\
             status: {{podIPs: [{{ip: {}}}, {{ip: '{}'}}]}}\n",
            pod.node(),
            pod.ipv4(),
            pod.ipv6()
        )
    }

    /// A Service whose only endpoint is web.
    fn service(&self) -> String {
        let web = self.cluster.pod("web");
        let slice = |family: &str, address: IpAddr| {
            format!(
                "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: {family}\n\
                 metadata: {{name: web-{}, labels: {{kubernetes.io/service-name: web}}}}\n\
                 ports: [{{port: 8080}}]\nendpoints: [{{addresses: ['{address}'], nodeName: node-a}}]\n",
                family.to_lowercase()
            )
        };
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec:\n  type: NodePort\n  \
             clusterIPs: [{}, '{}']\n  ports: [{{port: 80, targetPort: 8080, nodePort: {NODE_PORT}}}]\n{}{}",
            VIP[0],
            VIP[1],
            slice("IPv4", web.ipv4().into()),
            slice("IPv6", web.ipv6().into())
        )
    }

    fn run(&self, mode: &str) -> Agent {
        let node = self.cluster.node("node-a");
        let mut proxy = self.files.proxy(node.netns());
        proxy.args(["--network-policy", "--proxy-mode", mode]);
        Agent::run(&self.files, proxy)
    }

    fn policy(&self, spec: &str) {
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: web}}\nspec: {spec}\n"
        );
        self.files.write("policy.yaml", &text);
    }

    /// Waits for a section of the status about policies.
    #[track_caller]
    fn await_policies(&self, what: &str, wanted: impl Fn(&serde_json::Value) -> bool) {
        let has = |it: &serde_json::Value| it.get("network_policy").is_some_and(&wanted);
        self.files.await_status_as(what, has);
    }

    /// `sluice explain` from a pod has these words.
    #[track_caller]
    fn explain(&self, from: &str, to: SocketAddr, words: &[&str]) {
        let source = self.of_pod(from)[usize::from(to.is_ipv6())].to_string();
        let mut command = Command::new(SLUICE);
        command.args(["explain", &source, &to.to_string(), "--socket"]);
        let output = command.arg(self.files.socket()).output();
        let output = output.expect("it was built");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(words.iter().all(|it| text.contains(it)), "{output:?}");
    }

    fn of_pod(&self, name: &str) -> [IpAddr; 2] {
        let pod: &Pod = self.cluster.pod(name);
        [pod.ipv4().into(), pod.ipv6().into()]
    }

    fn netns(&self, name: &str) -> &Netns {
        match name {
            "outside" => self.outside().netns(),
            "node" => self.cluster.node("node-a").netns(),
            pod => self.cluster.pod(pod).netns(),
        }
    }

    fn outside(&self) -> &Client {
        self.cluster.client("outside")
    }

    /// Waits until web answers this end, or does not, at all of these targets.
    #[track_caller]
    fn check(&self, from: &str, targets: &[[SocketAddr; 2]], is_allowed: bool) {
        for target in targets.iter().flatten() {
            // What is dropped gets no answer, however long it waits.
            let wait = if is_allowed { 1_000 } else { 250 };
            let probe = Probe::tcp(*target).timeout(Duration::from_millis(wait));
            let mut last = None;
            let found = eventually(WITHIN, || {
                let outcome = probe.from(self.netns(from));
                let is_it = outcome.name().is_some() == is_allowed;
                last = Some(outcome);
                is_it.then_some(())
            });
            assert!(
                found.is_some(),
                "{from} to {target}, allowed: {is_allowed}: {last:?}"
            );
        }
    }

    fn vip() -> [SocketAddr; 2] {
        VIP.map(|it| SocketAddr::new(it.parse().expect("an address"), 80))
    }

    fn direct(&self, pod: &str) -> [SocketAddr; 2] {
        self.of_pod(pod).map(|it| SocketAddr::new(it, 8080))
    }

    fn node_port(&self) -> [SocketAddr; 2] {
        let node = self.cluster.node("node-a");
        [node.ipv4().into(), node.ipv6().into()].map(|it: IpAddr| SocketAddr::new(it, NODE_PORT))
    }
}

fn policies_hold(mode: &str) {
    require_netns!();
    let bed = Bed::new();
    let (vip, web, node_port) = (Bed::vip(), bed.direct("web"), bed.node_port());
    bed.policy("{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: []}");
    let agent = bed.run(mode);
    // What is isolated is reached by nobody but its node and itself, whatever the address.
    bed.check("near", &[vip, web], false);
    bed.check("far", &[web], false);
    let isolated = "isolated by NetworkPolicy default/web, no rule of which matches";
    bed.explain("near", vip[0], &["drop to", isolated]);
    bed.explain("near", web[1], &["drop to", isolated]);
    bed.check("outside", &[web, node_port], false);
    bed.check("node", &[vip, web], true);
    bed.check("web", &[vip], true);
    // Only what the policy names. The destination is the pod, whatever address the client asked for.
    bed.policy(
        "{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: near}}}], \
         ports: [{port: 8080}]}]}",
    );
    bed.check("near", &[vip, web], true);
    let allowed = "allowed by spec.ingress[0] of NetworkPolicy default/web";
    bed.explain("near", vip[1], &["allow to", allowed]);
    bed.check("far", &[web], false);
    bed.check("outside", &[node_port], false);
    // A label is enough.
    let pods = [
        bed.pod("web", "web"),
        bed.pod("near", "other"),
        bed.pod("far", "near"),
    ];
    bed.files.write("pods.yaml", &pods.concat());
    bed.check("near", &[vip, web], false);
    bed.check("far", &[web], true);
    // Nothing opens while no agent runs.
    drop(agent);
    bed.check("near", &[web], false);
    bed.check("far", &[web], true);
    let _agent = bed.run(mode);
    bed.check("near", &[vip, web], false);
    bed.check("far", &[web], true);
    // Another program opens everything: the kernel tells.
    let node = bed.cluster.node("node-a").netns();
    let mut nft = node.command("nft", &["delete", "table", "ip", "sluice-policy"]);
    assert!(nft.status().expect("nft is there").success());
    bed.await_policies("who did it", |it| {
        let change = it["last_change"].as_str().unwrap_or_default();
        it["repairs"] == 1 && change.starts_with("nft (pid")
    });
    bed.check("near", &[vip, web], false);
    let page = get(node, METRICS, "/metrics", WITHIN).expect("an agent shows metrics");
    for line in [
        "sluice_network_policy_in_force 1",
        "sluice_network_policy_repairs_total 1",
        "sluice_network_policy_isolated_pod_addresses 2",
        "sluice_network_policy_pod_addresses 4",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}: {page}");
    }
    // Whom a pod may connect to: a Service is its endpoints.
    bed.policy(
        "{podSelector: {matchLabels: {app: other}}, policyTypes: [Egress], \
         egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}",
    );
    bed.check("near", &[vip, web], true);
    bed.check("near", &[bed.direct("far")], false);
    bed.check("outside", &[web, node_port], true);
    std::fs::remove_file(bed.files.manifests().join("policy.yaml")).expect("it is there");
    bed.check("near", &[bed.direct("far"), web], true);
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Programs and maps that an agent pinned would outlive the namespace.
        let node = self.cluster.node("node-a").netns();
        let _ = node.command(SLUICE, &["cleanup"]).output();
    }
}

/// Rules that nobody keeps up stay, and are named.
#[test]
fn rules_of_an_earlier_agent_are_named() {
    require_netns!();
    let bed = Bed::new();
    bed.policy("{podSelector: {}, policyTypes: [Ingress]}");
    let agent = bed.run("nftables");
    bed.check("near", &[bed.direct("web")], false);
    drop(agent);
    let node = bed.cluster.node("node-a").netns();
    let _agent = Agent::run(&bed.files, bed.files.proxy(node));
    let status = bed
        .files
        .await_status("the tables", |it| it.problems.len() == 2);
    for (problem, family) in status.problems.iter().zip(["ip", "ip6"]) {
        let start = format!("table {family} sluice-policy of an earlier agent is in force");
        assert!(problem.message.starts_with(&start), "{problem:?}");
    }
    bed.check("near", &[bed.direct("web")], false);
}

/// The first packet after the start that `sluice policy watch` shows with these flags.
#[track_caller]
fn watched(bed: &Bed, flags: &[&str]) -> serde_json::Value {
    let mut command = Command::new("timeout");
    command.arg(WITHIN.as_secs().to_string()).arg(SLUICE);
    command.args(["policy", "watch", "--recent", "--count=1", "-o=json"]);
    command.args(flags).arg("--socket").arg(bed.files.socket());
    let output = command.output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{flags:?}: {output:?}"))
}

/// Audit drops nothing, and tells what enforcing then drops.
fn audit_and_drops_are_told(mode: &str) {
    require_netns!();
    let bed = Bed::new();
    let policy = |mode: &str| {
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
             metadata: {{name: web, annotations: {{sluice.dev/policy-mode: {mode}}}}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, \
             ingress: [{{from: [{{podSelector: {{matchLabels: {{app: near}}}}}}]}}]}}\n"
        );
        bed.files.write("policy.yaml", &text);
    };
    policy("audit");
    let agent = bed.run(mode);
    let (is_in_force, text) = wait(&bed, &["web"]);
    assert!(is_in_force, "{text}");
    bed.check("near", &[Bed::vip()], true);
    bed.check("far", &[bed.direct("web")], true);
    bed.check("outside", &[bed.node_port()], true);
    let check = |drop: &serde_json::Value, outcome: &str| {
        assert_eq!(drop["outcome"], outcome, "{drop}");
        assert_eq!(drop["direction"], "ingress", "{drop}");
        assert_eq!(drop["source"]["pods"][0], "default/far", "{drop}");
        assert_eq!(drop["destination"]["pods"][0], "default/web", "{drop}");
        assert_eq!(drop["port"], 8080, "{drop}");
        assert_eq!(drop["policies"][0], "NetworkPolicy default/web", "{drop}");
    };
    check(&watched(&bed, &["--pod=default/far"]), "audited");
    let to = bed.direct("web")[0];
    let would = "would be dropped, if NetworkPolicy default/web were not in audit mode";
    bed.explain("far", to, &["allow to", would]);
    policy("enforce");
    bed.check("far", &[bed.direct("web")], false);
    let flags = ["--pod=default/far", "--outcome=dropped"];
    check(&watched(&bed, &flags), "dropped");
    bed.check("near", &[Bed::vip()], true);
    let node = bed.cluster.node("node-a").netns();
    let page = get(node, METRICS, "/metrics", WITHIN).expect("an agent shows metrics");
    for outcome in ["audited", "dropped"] {
        for (name, before, after) in [
            ("packets", "", ""),
            ("reports", r#"namespace="default","#, ""),
            (
                "policy_reports",
                "",
                r#",policy="NetworkPolicy default/web""#,
            ),
        ] {
            let start = format!(
                r#"sluice_network_policy_{name}_total{{direction="ingress",{before}outcome="{outcome}"{after}}} "#
            );
            let value = page.lines().find_map(|it| it.strip_prefix(&start));
            let count: Option<u64> = value.and_then(|it| it.parse().ok());
            assert!(count.is_some_and(|it| it > 0), "{start}: {page}");
        }
    }
    drop(agent);
}

/// What `sluice policy diff` says about a cluster without policies, on node-a.
#[track_caller]
fn difference(bed: &Bed, spec: &str, flags: &[&str]) -> String {
    let file = bed.files.0.path().join("new.yaml");
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
         metadata: {{name: web, namespace: default}}\nspec: {spec}\n"
    );
    std::fs::write(&file, text).expect("writable");
    let node = bed.cluster.node("node-a").netns();
    let mut command = node.command(SLUICE, &["policy", "diff", "--manifests"]);
    command.arg(bed.files.manifests()).arg("-f").arg(&file);
    let output = command.args(flags).output().expect("it was built");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_matrix_shows_who_talks_to_whom() {
    require_netns!();
    let bed = Bed::new();
    bed.policy("{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: near}}}], ports: [{port: 8080}]}]}");
    let matrix = |flags: &[&str]| {
        let mut command = Command::new(SLUICE);
        command
            .args(["policy", "matrix"])
            .args(flags)
            .arg("--manifests");
        let output = command.arg(bed.files.manifests()).output();
        let output = output.expect("it was built");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(matrix(&[]), "FROM     default\ndefault  some\n");
    let lines = matrix(&["-n", "default"]);
    for line in [
        "default/near to default/web: tcp/8080",
        "default/far to default/web: nothing",
        "default/web to default/far: everything",
    ] {
        assert!(lines.lines().any(|it| it == line), "{line}: {lines}");
    }
    assert_eq!(matrix(&["-n", "elsewhere"]), "");
}

#[test]
fn a_difference_is_told_before_it_is_made() {
    require_netns!();
    let bed = Bed::new();
    let spec = "{podSelector: {matchLabels: {app: web}}, \
                ingress: [{from: [{podSelector: {matchLabels: {app: near}}}], ports: [{port: 8080}]}]}";
    let why = "dropped: isolated by NetworkPolicy default/web, no rule of which matches";
    let expected = format!(
        "default/far to default/web\n  - tcp, udp, sctp, other protocols\n    {why}\n\
         default/near to default/web\n  - tcp/0-8079, tcp/8081-65535, udp, sctp, other protocols\n    {why}\n"
    );
    assert_eq!(difference(&bed, spec, &[]), expected);
    // Nobody tracks connections on this node before an agent runs there.
    let _agent = bed.run("nftables");
    bed.check("far", &[bed.direct("web")], true);
    bed.check("near", &[Bed::vip()], true);
    let text = difference(&bed, spec, &["--connections", "-o=json"]);
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["changes"].as_array().map(Vec::len), Some(2), "{text}");
    let connections = found["connections"]
        .as_array()
        .expect("they were asked for");
    for address in bed.of_pod("web") {
        let to = format!("default/web ({address})");
        let is_it = |it: &&serde_json::Value| it["to"] == *to && it["port"] == "tcp/8080";
        let found: Vec<_> = connections.iter().filter(is_it).collect();
        let is_of_far = |it: &&serde_json::Value| {
            let from = it["from"].as_str().unwrap_or_default();
            from.starts_with("default/far (")
        };
        assert!(!found.is_empty() && found.iter().all(is_of_far), "{text}");
    }
}

/// What `sluice policy wait` says, and whether the policy is in force.
fn wait(bed: &Bed, words: &[&str]) -> (bool, String) {
    let mut command = Command::new(SLUICE);
    command.args(["policy", "wait"]).args(words).arg("--socket");
    let output = command.arg(bed.files.socket()).output();
    let output = output.expect("it was built");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Once it returns, the first packet finds the policy.
#[test]
fn a_policy_is_waited_for() {
    require_netns!();
    let bed = Bed::new();
    let _agent = bed.run("nftables");
    bed.check("near", &[bed.direct("web")], true);
    let (is_in_force, text) = wait(&bed, &["web", "--timeout", "0s"]);
    let why = "NetworkPolicy default/web is not in force after 0ns: ";
    assert!(!is_in_force && text.contains(why), "{text}");
    assert!(text.contains("the agent knows no such policy"), "{text}");
    let write = |version: u32, ingress: &str| {
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
             metadata: {{name: web, resourceVersion: '{version}'}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, ingress: {ingress}}}\n"
        );
        bed.files.write("policy.yaml", &text);
        let version = version.to_string();
        let (is_in_force, text) = wait(&bed, &["web", "--resource-version", &version, "-o=json"]);
        assert!(is_in_force, "{text}");
        let answers: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answers[0]["addresses"], 2, "{text}");
        assert_eq!(answers[0]["version"], *version, "{text}");
    };
    let reaches = || {
        let outcomes = bed.direct("web").map(|target| {
            let probe = Probe::tcp(target).timeout(Duration::from_millis(250));
            probe.from(bed.netns("near")).name().is_some()
        });
        assert_eq!(outcomes[0], outcomes[1], "IPv4 and IPv6");
        outcomes[0]
    };
    write(9, "[]");
    assert!(!reaches());
    write(10, "[{}]");
    assert!(reaches());
    let (is_in_force, text) = wait(&bed, &["web", "--resource-version=11", "--timeout=0s"]);
    let why = "the agent knows resourceVersion 10, and 11 is awaited";
    assert!(!is_in_force && text.contains(why), "{text}");
}

/// Nobody waits for an agent that will never enforce the policy.
#[test]
fn without_policies_nothing_is_waited_for() {
    require_netns!();
    let bed = Bed::new();
    let node = bed.cluster.node("node-a").netns();
    let _agent = Agent::run(&bed.files, bed.files.proxy(node));
    let found = eventually(WITHIN, || bed.files.status());
    assert!(found.is_some(), "the agent answers");
    let (is_in_force, text) = wait(&bed, &["web", "--timeout=1h"]);
    let why = "this agent enforces no network policies: start it with --network-policy";
    assert!(!is_in_force && text.contains(why), "{text}");
}

/// A client's datagram to a server, which then sends to the client.
struct Datagrams {
    client: UdpSocket,
    server: UdpSocket,
    to: SocketAddr,
    sent: u8,
}

impl Datagrams {
    fn open(bed: &Bed, from: &str, to: &str) -> Self {
        let bind = |pod: &str| {
            let address = SocketAddr::new(bed.of_pod(pod)[0], 0);
            let socket = bed.netns(pod).run(|| UdpSocket::bind(address));
            let socket = socket.expect("a free port");
            let timeout = Some(Duration::from_millis(500));
            socket.set_read_timeout(timeout).expect("not zero");
            socket
        };
        let (client, server) = (bind(from), bind(to));
        let server_address = server.local_addr().expect("it is bound");
        client
            .send_to(&[0], server_address)
            .expect("there is a route");
        let (_, to) = server
            .recv_from(&mut [0])
            .expect("nothing is forbidden yet");
        Self {
            client,
            server,
            to,
            sent: 0,
        }
    }

    /// Whether the client gets the next datagram of the server.
    fn arrive(&mut self) -> bool {
        self.sent = self.sent.wrapping_add(1);
        self.server
            .send_to(&[self.sent], self.to)
            .expect("there is a route");
        let mut got = [0];
        // Earlier ones may still be waiting.
        while self.client.recv(&mut got).is_ok() {
            if got[0] == self.sent {
                return true;
            }
        }
        false
    }
}

/// Connections that are open when a policy begins to forbid them.
fn open_connections_end(mode: &str) {
    require_netns!();
    let bed = Bed::new();
    let policy = |annotation: &str| {
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
             metadata: {{name: web, annotations: {{sluice.dev/policy-connections: {annotation}}}}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, \
             ingress: [{{from: [{{podSelector: {{matchLabels: {{app: near}}}}}}]}}]}}\n"
        );
        bed.files.write("policy.yaml", &text);
        let (is_in_force, text) = wait(&bed, &["web"]);
        assert!(is_in_force, "{text}");
    };
    let agent = bed.run(mode);
    bed.check("near", &[Bed::vip()], true);
    let open = |from: &str, to: SocketAddr| {
        Session::connect(bed.netns(from), to).expect("nothing is forbidden yet")
    };
    let mut allowed = [Bed::vip()[0], bed.direct("web")[1]].map(|it| open("near", it));
    let mut forbidden = bed.direct("web").map(|it| open("far", it));
    let mut datagrams = Datagrams::open(&bed, "far", "web");
    policy("keep");
    bed.check("far", &[bed.direct("web")], false);
    for session in allowed.iter_mut().chain(&mut forbidden) {
        session.ping().expect("an open connection is kept");
    }
    assert!(datagrams.arrive(), "an open connection is kept");
    // The rules are no others: the agent walks once something is written.
    std::fs::remove_file(bed.files.manifests().join("policy.yaml")).expect("it is there");
    bed.check("far", &[bed.direct("web")], true);
    policy("cut");
    for session in &mut forbidden {
        let ended = eventually(WITHIN, || session.ping().err());
        assert!(ended.is_some(), "the connection goes on");
    }
    // Nobody forbids the server to send: it may not begin the connection again.
    let ended = eventually(WITHIN, || (!datagrams.arrive()).then_some(()));
    assert!(ended.is_some(), "the server's datagrams still arrive");
    assert!(!datagrams.arrive(), "they arrive again");
    for session in &mut allowed {
        session.ping().expect("it is allowed");
    }
    drop(agent);
}

#[test]
fn open_connections_in_nftables() {
    open_connections_end("nftables");
}

#[test]
fn open_connections_in_ebpf() {
    open_connections_end("ebpf");
}

#[test]
fn audit_in_nftables() {
    audit_and_drops_are_told("nftables");
}

#[test]
fn audit_in_ebpf() {
    audit_and_drops_are_told("ebpf");
}

#[test]
fn nftables() {
    policies_hold("nftables");
}

#[test]
fn iptables() {
    policies_hold("iptables");
}

#[test]
fn ebpf() {
    policies_hold("ebpf");
}

/// Pods of one bridge: packets between them pass the rules where the kernel hands them to netfilter, and where it does not, the
/// agent says so.
#[test]
fn pods_on_a_bridge_are_covered_or_named() {
    require_netns!();
    let bed = Bed::attached(Attach::Bridged);
    bed.policy("{podSelector: {matchLabels: {app: web}}, ingress: []}");
    let agent = bed.run("nftables");
    let web = bed.direct("web");
    bed.check("near", &[web], false);
    bed.check("far", &[web], false);
    let has_issue = |words: &str| {
        bed.await_policies(words, |it| {
            let issues = it["issues"].as_array().into_iter().flatten();
            let mut issues = issues.filter_map(|it| it.as_str());
            match words {
                "" => issues.next().is_none(),
                words => issues.any(|it| it.contains(words)),
            }
        });
    };
    has_issue("");
    drop(agent);
    for call in ["iptables", "ip6tables"] {
        let key = format!("net.bridge.bridge-nf-call-{call}");
        let node = bed.cluster.node("node-a");
        node.netns().sysctl(&key, "0").expect("writable");
    }
    let _agent = bed.run("nftables");
    bed.check("near", &[web], true);
    bed.check("far", &[web], false);
    has_issue("between pods on the bridge cni0: net.bridge.bridge-nf-call-iptables is 0");
    has_issue("net.bridge.bridge-nf-call-ip6tables is 0");
}

/// Nobody knows the last good version of a file that was broken before the agent began.
#[test]
fn a_policy_that_cannot_be_read_isolates() {
    require_netns!();
    let bed = Bed::new();
    // Another project's kind of this name is none of ours.
    let text = "apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {name: theirs}\nspec: {ingress: []}\n";
    bed.files.write("theirs.yaml", text);
    let _agent = bed.run("nftables");
    bed.check("near", &[bed.direct("web")], true);
    bed.policy("{podSelector: {matchLabels: {app: web}}, ingress: [], ingress: [{}]}");
    bed.check("near", &[bed.direct("web")], false);
    bed.check("web", &[bed.direct("near")], false);
    let closed = "the policy isolates all pods of its namespace and allows nothing";
    bed.files.await_status("what it does", |it| {
        it.problems.iter().any(|it| it.message.ends_with(closed))
    });
}
