//! The agent as a cluster sees it: an API server, a ConfigMap, probes, Events. Needs root.
//!
//! The API server is `sluice-miniapi` inside the node's namespace; packets are real.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sluice_agent::status::Status;
use sluice_lab::{
    Cluster, Netns, Pod, Probe, Protocol, Server, Session, eventually, require_netns,
};
use sluice_miniapi::{Fault, MiniApi, Options, Verb};
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(30);

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
const VIRTUAL_IP: &str = "10.96.0.10:80";
const POD_PORT: u16 = 8080;
const HEALTH_PORT: u16 = 31234;

/// What kubeadm writes, with the addresses of this cluster.
const CONFIG: &str = include_str!("../../config/tests/fixtures/kubeadm.yaml");

fn service(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "type": "ClusterIP",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    })
}

fn slice(service: &str, pods: &[&Pod]) -> Value {
    let endpoints = pods.iter().map(|it| {
        json!({"addresses": [it.ipv4()], "nodeName": "node-a",
            "conditions": {"ready": true, "serving": true, "terminating": false}})
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-1"), "namespace": "default",
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": POD_PORT, "protocol": "TCP"}],
        "endpoints": endpoints.collect::<Vec<_>>(),
    })
}

fn node(cluster: &Cluster) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [
            {"type": "InternalIP", "address": cluster.node("node-a").ipv4()}]},
    })
}

/// A node of a cluster with its API server, two pods that serve, and a client.
pub(crate) struct World {
    pub(crate) api: MiniApi,
    files: TempDir,
    _servers: Vec<Server>,
    cluster: Cluster,
}

impl World {
    pub(crate) fn new() -> Self {
        let builder = Cluster::builder().node("node-a").client("client");
        let builder = builder.pod("one", "node-a").pod("two", "node-a");
        let cluster = builder.build().unwrap();
        let serve = |pod: &str| {
            let netns = cluster.pod(pod).netns();
            Server::start(netns, pod, POD_PORT, Protocol::Tcp).unwrap()
        };
        let servers = vec![serve("one"), serve("two")];
        let options = Options {
            token: Some("secret".to_owned()),
            ..Options::default()
        };
        let netns = cluster.node("node-a").netns();
        let api = netns.run(|| MiniApi::start(options)).unwrap();
        api.put_all([
            node(&cluster),
            // A cluster has at least this one, so an empty list is asked for again with growing waits.
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
            service("kubernetes", "10.96.0.1"),
            service("web", "10.96.0.10"),
            slice("web", &[cluster.pod("one")]),
        ])
        .unwrap();
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("kubeconfig"), api.kubeconfig()).unwrap();
        Self {
            api,
            files,
            _servers: servers,
            cluster,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub(crate) fn netns(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    /// An agent, started as a DaemonSet starts kube-proxy.
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = self.netns().command(SLUICE, &["proxy"]);
        command.arg("--hostname-override=node-a");
        // These belong to the machine, not to the namespace.
        command.args(["--conntrack-max-per-core=0", "--oom-score-adj=0"]);
        command.arg("--socket").arg(self.path("sluice.sock"));
        command.args(flags);
        command
    }

    #[track_caller]
    pub(crate) fn start(&self, flags: &[&str]) -> Agent {
        let kubeconfig = self.path("kubeconfig");
        let mut command = self.command(flags);
        command.arg("--kubeconfig").arg(kubeconfig);
        self.run(command)
    }

    #[track_caller]
    fn run(&self, mut command: Command) -> Agent {
        let log = fs::File::create(self.path("log")).unwrap();
        let agent = Agent(command.stderr(log).spawn().unwrap());
        let pid = agent.0.id();
        self.until("synced", |it| it.synced && it.agent.pid == pid);
        agent
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn status(&self) -> Option<Status> {
        let mut command = Command::new(SLUICE);
        command.args(["status", "-o", "json", "--socket"]);
        let output = command.arg(self.path("sluice.sock")).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = self.status();
            last.clone().filter(|it| wanted(it))
        });
        found.unwrap_or_else(|| panic!("{what}: {last:#?}\n{}", self.log()))
    }

    fn ask(&self) -> Option<String> {
        let target: SocketAddr = VIRTUAL_IP.parse().unwrap();
        let answer = Probe::tcp(target).from(self.cluster.client("client").netns());
        answer.name().map(str::to_owned)
    }

    #[track_caller]
    fn until_served_by(&self, pod: &str) {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = self.ask();
            (last.as_deref() == Some(pod)).then_some(())
        });
        assert!(found.is_some(), "{last:?}\n{}", self.log());
    }

    /// An HTTP answer of a server on the node: status and body.
    fn get(&self, address: &str, path: &str) -> Option<(u16, String)> {
        self.get_as(address, path, "*/*")
    }

    fn get_as(&self, address: &str, path: &str, accept: &str) -> Option<(u16, String)> {
        self.netns().run(|| {
            let mut stream = TcpStream::connect(address).ok()?;
            stream.set_read_timeout(Some(WITHIN)).ok()?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: node\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
            )
            .ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            let code = head.split(' ').nth(1)?.parse().ok()?;
            Some((code, body.to_owned()))
        })
    }
}

/// A running agent, killed when dropped.
pub(crate) struct Agent(Child);

impl Agent {
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn services_of_an_api_server_are_served() {
    require_netns!();
    let world = World::new();
    let _agent = world.start(&[]);
    assert_eq!(world.ask().as_deref(), Some("one"), "{}", world.log());
    world
        .api
        .put(slice("web", &[world.cluster.pod("two")]))
        .unwrap();
    world.until_served_by("two");
    world.api.delete("Service", "default", "web").unwrap();
    world.until("the Service is gone", |it| it.services == 1 && it.synced);
    assert_eq!(world.ask(), None);
    let log = world.log();
    assert!(log.contains("Using nftables Proxier"), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}

/// Without an agent, as on a node that runs kube-proxy.
#[test]
fn the_tools_ask_an_api_server() {
    require_netns!();
    let world = World::new();
    let kubeconfig = world.path("kubeconfig");
    let run = |args: &[&str], code| {
        let mut command = world.netns().command(SLUICE, args);
        command.args(["--hostname-override=node-a", "--kubeconfig"]);
        let output = command.arg(&kubeconfig).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        text
    };
    let explained = run(&["explain", "node", "default/web"], 0);
    assert!(explained.contains("balance over 1 endpoint"), "{explained}");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shell", "namespace": "default"},
        "status": {"podIPs": [{"ip": "fd00::7"}, {"ip": "10.244.7.7"}]}});
    world.api.put(pod).unwrap();
    let of_pod = run(&["explain", "default/shell", "default/web"], 0);
    assert!(
        of_pod.starts_with("10.244.7.7 → 10.96.0.10:80/tcp"),
        "{of_pod}"
    );
    let by_name = run(&["explain", "default/shell", "web.default:80"], 0);
    let step = "web.default.svc.cluster.local. found\n    30 A 10.96.0.10\n";
    assert!(by_name.contains(step), "{by_name}");
    let packet = "10.244.7.7 → 10.96.0.10:80/tcp";
    assert!(by_name.contains(packet), "{by_name}");
    let unknown = run(&["explain", "default/nobody", "default/web"], 1);
    assert!(
        unknown.contains("find pod default/nobody: the server answered 404"),
        "{unknown}"
    );
    let rules = run(&["render"], 0);
    assert!(rules.contains("10.96.0.10"), "{rules}");
    // Nobody keeps the rules: that is what is wrong.
    let checked = run(&["doctor", "default/web"], 1);
    assert!(checked.contains("FAIL  proxy"), "{checked}");
    assert!(
        checked.contains("ok    endpoints   1 of 1 ready"),
        "{checked}"
    );
    world.api.stop().unwrap();
    let failed = run(&["explain", "node", "default/web"], 1);
    assert!(
        failed.contains("no complete list from the API server"),
        "{failed}"
    );
}

#[test]
fn the_node_without_pod_cidr_and_the_pages_of_a_sandboxed_agent() {
    require_netns!();
    let world = World::new();
    let _agent = world.start(&["--detect-local-mode=NodeCIDR"]);
    world.until("the pod CIDR is missing", |it| {
        it.issues.iter().any(|it| it.reason == "NoPodCIDR")
    });
    let log = world.log();
    assert!(
        log.contains("WARN") && log.contains("spec.podCIDRs"),
        "{log}"
    );
    assert!(
        log.contains("NodePorts do not answer on 127.0.0.1"),
        "{log}"
    );
    let mut node = node(&world.cluster);
    node["spec"] = json!({"podCIDRs": ["10.244.0.0/24"]});
    world.api.put(node).unwrap();
    world.until("the pod CIDR is there", |it| it.issues.is_empty());

    let ready = world.get("127.0.0.1:10256", "/readyz").unwrap();
    assert_eq!(ready.0, 200, "{}", ready.1);
    let pages = "127.0.0.1:10249";
    // The Event about the start is a request with a body and an answer with one.
    let metrics = eventually(WITHIN, || {
        let (_, metrics) = world.get(pages, "/metrics")?;
        let sizes = |it: &&str| it.starts_with("rest_client_response_size_bytes_count{");
        let is_there = metrics.lines().filter(sizes).any(|it| it.contains("POST"));
        is_there.then_some(metrics)
    });
    let metrics = metrics.expect("an Event is sent");
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|it| it.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
        value.rsplit(' ').next().unwrap().parse().unwrap()
    };
    for name in [
        "process_network_receive_bytes_total ",
        "process_network_transmit_bytes_total ",
        "process_virtual_memory_max_bytes ",
        "rest_client_rate_limiter_duration_seconds_count{",
        "rest_client_request_size_bytes_count{",
        "rest_client_response_size_bytes_count{",
        "rest_client_response_size_bytes_sum{",
        "kubernetes_feature_enabled{name=\"NFTablesProxyMode\",stage=\"\"}",
        "kubernetes_feature_enabled{name=\"ComponentStatusz\",stage=\"BETA\"}",
    ] {
        assert!(value(name) > 0.0, "{name}");
    }
    let (_, slis) = world.get(pages, "/metrics/slis").unwrap();
    assert!(slis.contains("\nprocess_start_time_seconds 1"), "{slis}");
    let as_kind = |path, kind| {
        let accept = format!("application/json;v=v1beta1;g=config.k8s.io;as={kind}");
        let (_, text) = world.get_as(pages, path, &accept).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["kind"], kind);
        object
    };
    let flags = as_kind("/flagz", "Flagz");
    assert_eq!(flags["flags"]["detect-local-mode"], "NodeCIDR", "{flags}");
    let status = as_kind("/statusz", "Statusz");
    assert_eq!(status["apiVersion"], "config.k8s.io/v1beta1");
    assert_eq!(status["emulationVersion"], "1.36");
    assert_eq!(world.get_as(pages, "/statusz", "image/png").unwrap().0, 406);
}

/// What a plan does not have: pods behind no Service, names of ports, containers that end again and again.
#[test]
fn the_tools_know_pods() {
    require_netns!();
    let world = World::new();
    let _agent = world.start(&[]);
    let run = |args: &[&str]| {
        let mut command = world.netns().command(SLUICE, args);
        let output = command
            .arg("--socket")
            .arg(world.path("sluice.sock"))
            .output();
        let output = output.unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let mut web = service("web", "10.96.0.10");
    web["spec"]["selector"] = json!({"app": "web"});
    web["spec"]["ports"][0]["targetPort"] = json!("htpp");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-b", "containers": [{"name": "main", "image": "any",
            "ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.244.7.7"}], "containerStatuses": [{
            "name": "main", "image": "any", "imageID": "", "ready": false, "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}});
    world.api.put_all([web, pod]).unwrap();
    let text = run(&["doctor", "default/web"]);
    for cause in [
        "targetPort htpp of port http: no container has a port of this name; did you mean http (8080/TCP)?",
        "pod/web-1: container main: CrashLoopBackOff, 4 restarts, last exit code 3 (Error)",
    ] {
        assert!(
            text.contains(&format!("FAIL  pods        {cause}")),
            "{text}"
        );
    }
    let of_pod = run(&["doctor", "default/web-1"]);
    let says = "default/web-1 is no Service, but a pod: Running, 10.244.7.7 on node-b";
    assert!(of_pod.contains(says), "{of_pod}");
    let from_pod = run(&["explain", "default/web-1", "default/web"]);
    assert!(
        from_pod.starts_with("10.244.7.7 → 10.96.0.10:80/tcp"),
        "{from_pod}"
    );
    let to_pod = run(&["explain", "node", "default/web-1"]);
    assert!(
        to_pod.contains("a pod has this name") && to_pod.contains("10.244.7.7:80"),
        "{to_pod}"
    );
    // Errors name what was typed, patterns find names in any namespace.
    for (args, says) in [
        (
            ["explain", "default/nobody", "default/web"],
            "default/nobody",
        ),
        (["explain", "node", "default/nothing"], "default/nothing"),
        (["doctor", "nothing", "-o=text"], "SERVICE \"nothing\""),
        (
            ["status", "--service", "web"],
            "\"web\" is no Service as NAMESPACE/NAME: did you mean default/web?",
        ),
        (["status", "--services", "we*"], "default/web"),
        (
            ["status", "--services", "none*"],
            "no Service fits \"none*\"",
        ),
        (
            ["status", "--service", "default/web"],
            "10.96.0.10:80/tcp (ClusterIP, policy Cluster): its endpoint",
        ),
    ] {
        let text = run(&args);
        assert!(text.contains(says), "{args:?}: {text}");
    }
}

#[test]
fn the_last_good_state_outlives_the_api_server() {
    require_netns!();
    let world = World::new();
    let agent = world.start(&[]);
    world.api.stop().unwrap();
    world.until("the loss is told", |it| !it.problems.is_empty());
    // Rules that may be old are the first that the tools say.
    for (tool, first) in [("doctor", "  WARN  source"), ("status", "stale")] {
        let mut command = world.netns().command(SLUICE, &[tool, "--socket"]);
        let output = command.arg(world.path("sluice.sock")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().skip(usize::from(tool == "doctor"));
        let line = lines.next().unwrap();
        assert!(
            line.starts_with(first) && line.contains("since 20"),
            "{text}"
        );
        assert!(line.contains("rules may be old"), "{text}");
    }
    assert_eq!(world.ask().as_deref(), Some("one"));
    // Whoever starts now finds no API server, and leaves the rules alone.
    assert_eq!(agent.end(Signal::SIGKILL), None);
    let mut command = world.command(&[]);
    command.arg("--kubeconfig").arg(world.path("kubeconfig"));
    let log = fs::File::create(world.path("log")).unwrap();
    let agent = Agent(command.stderr(log).spawn().unwrap());
    world.until("it waits", |it| {
        it.agent.pid == agent.0.id() && !it.source_synced
    });
    assert_eq!(world.ask().as_deref(), Some("one"));
    // It comes back, with a lie first: an empty list is no reason to delete anything.
    for list in ["services", "endpointslices"] {
        world
            .api
            .inject(Fault::EmptyList.on(Verb::Any, list).once());
    }
    world
        .api
        .put(slice("web", &[world.cluster.pod("two")]))
        .unwrap();
    world.api.start_again().unwrap();
    world.until("it works again", |it| it.synced && it.problems.is_empty());
    world.until_served_by("two");
}

/// As behind a load balancer without a server: the agent's watches are open, and quiet as on every good day.
#[test]
fn the_doctor_asks_an_api_server_that_accepts_and_says_nothing() {
    require_netns!();
    let world = World::new();
    let _agent = world.start(&[]);
    let doctor = |args: &[&str]| {
        let mut command = world.netns().command(SLUICE, &["doctor"]);
        command.args(args).arg("--socket");
        let output = command.arg(world.path("sluice.sock")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = doctor(&[]);
    assert!(!text.contains("  source "), "{text}");
    // Whoever must not ask has an answer, too.
    world.api.inject(Fault::Forbidden.on(Verb::Get, "/readyz"));
    let text = doctor(&[]);
    assert!(!text.contains("  source "), "{text}");
    world.api.clear_faults();
    world
        .api
        .inject(Fault::InternalError.on(Verb::Get, "/readyz"));
    let text = doctor(&[]);
    assert!(text.contains("the server answered 500"), "{text}");
    world.api.clear_faults();
    world.api.mute_connections().unwrap();
    for args in [&[][..], &["default/web"]] {
        let text = doctor(args);
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with("  WARN  source ")
                && line.contains(" stale from now on, rules may be old"),
            "{text}"
        );
        assert!(!text.contains("the rules match the source\n"), "{text}");
    }
}

#[test]
fn connections_survive_whatever_the_api_server_does() {
    require_netns!();
    let world = World::new();
    let _agent = world.start(&[]);
    let client = world.cluster.client("client").netns();
    let mut session = Session::connect(client, VIRTUAL_IP.parse().unwrap()).unwrap();
    for round in 0..2 {
        world.api.stop().unwrap();
        world.until("the loss is told", |it| !it.problems.is_empty());
        world.api.start_again().unwrap();
        world.until("it works again", |it| it.problems.is_empty());
        assert_eq!(world.ask().as_deref(), Some("one"), "round {round}");
    }
    assert!(session.ping().is_ok(), "an established connection broke");
}

#[test]
fn the_config_map_of_kubeadm_works_unchanged() {
    require_netns!();
    let world = World::new();
    // As a ConfigMap volume: `config.conf` leads through `..data`, which is swapped as one.
    let volume = world.path("volume");
    fs::create_dir(&volume).unwrap();
    let kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf";
    assert!(CONFIG.contains(kubeconfig));
    let ours = world.path("kubeconfig");
    // The one path that differs here, and what belongs to the machine and not to the namespace.
    let config = CONFIG
        .replace(kubeconfig, ours.to_str().unwrap())
        .replace("maxPerCore: null", "maxPerCore: 0")
        .replace("oomScoreAdj: null", "oomScoreAdj: 0");
    let swap = |name: &str, text: &str| {
        let folder = volume.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("config.conf"), text).unwrap();
        let draft = volume.join("..data_tmp");
        symlink(name, &draft).unwrap();
        fs::rename(draft, volume.join("..data")).unwrap();
    };
    swap("..first", &config);
    symlink("..data/config.conf", volume.join("config.conf")).unwrap();

    let kube_proxy = world.path("kube-proxy");
    fs::hard_link(SLUICE, &kube_proxy)
        .or_else(|_| fs::copy(SLUICE, &kube_proxy).map(drop))
        .unwrap();
    let file = volume.join("config.conf");
    let file = format!("--config={}", file.display());
    let flags = [&*file, "--hostname-override=node-a", "--socket"];
    let mut command = world.netns().command(kube_proxy.to_str().unwrap(), &flags);
    command.arg(world.path("sluice.sock"));
    let mut agent = world.run(command);
    assert_eq!(world.ask().as_deref(), Some("one"));
    let log = world.log();
    assert!(log.contains("Using nftables Proxier"), "{log}");
    assert!(!log.contains("WARN"), "{log}");
    let (code, mode) = world.get("127.0.0.1:10249", "/proxyMode").unwrap();
    assert_eq!((code, &*mode), (200, "nftables"));
    let (code, body) = world.get("127.0.0.1:10249", "/configz").unwrap();
    assert_eq!(code, 200);
    assert!(body.contains("KubeProxyConfiguration"), "{body}");
    let (_, metrics) = world.get("127.0.0.1:10249", "/metrics").unwrap();
    for name in [
        "kubeproxy_sync_proxy_rules_duration_seconds_count",
        "rest_client_requests_total",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    assert_eq!(world.get("127.0.0.1:10256", "/healthz").unwrap().0, 200);

    // What is safe to change is in force at once; the process goes on.
    let all = config.replace("masqueradeAll: false", "masqueradeAll: true");
    swap("..second", &all);
    let rules = || {
        let output = world.netns().command("nft", &["list", "ruleset"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let before = rules();
    let changed = eventually(WITHIN, || {
        world
            .log()
            .contains("the configuration has changed: in force")
            .then_some(())
    });
    assert!(changed.is_some(), "{}", world.log());
    let written = eventually(WITHIN, || (rules() != before).then_some(()));
    assert!(written.is_some(), "masquerading has not changed");
    assert!(agent.0.try_wait().unwrap().is_none(), "{}", world.log());

    // What is not ends the process with a line that says why.
    swap(
        "..third",
        &all.replace(
            "metricsBindAddress: \"\"",
            "metricsBindAddress: 127.0.0.1:1",
        ),
    );
    let ended = eventually(WITHIN, || agent.0.try_wait().unwrap());
    assert_eq!(ended.and_then(|it| it.code()), Some(1), "{}", world.log());
    let log = world.log();
    assert!(
        log.contains("the configuration has changed: metricsBindAddress"),
        "{log}"
    );
    assert_eq!(world.ask().as_deref(), Some("one"), "the rules stay");
}

#[test]
fn load_balancers_are_told_where_endpoints_are_and_when_the_node_leaves() {
    require_netns!();
    let world = World::new();
    let mut web = service("web", "10.96.0.10");
    web["spec"]["type"] = json!("LoadBalancer");
    web["spec"]["externalTrafficPolicy"] = json!("Local");
    web["spec"]["healthCheckNodePort"] = json!(HEALTH_PORT);
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    world.api.put(web).unwrap();
    let _agent = world.start(&["--nodeport-addresses=0.0.0.0/0"]);
    let check = format!("127.0.0.1:{HEALTH_PORT}");
    let until = |code: u16| {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = world.get(&check, "/");
            last.clone().filter(|it| it.0 == code)
        });
        found
            .unwrap_or_else(|| panic!("{last:?}\n{}", world.log()))
            .1
    };
    let body: Value = serde_json::from_str(&until(200)).unwrap();
    assert_eq!(body["localEndpoints"], 1);
    assert_eq!(
        body["service"],
        json!({"namespace": "default", "name": "web"})
    );
    world.api.put(slice("web", &[])).unwrap();
    until(503);
    world
        .api
        .put(slice("web", &[world.cluster.pod("one")]))
        .unwrap();
    until(200);

    // The autoscaler is about to remove the node: alive, but not eligible.
    let mut leaving = node(&world.cluster);
    leaving["spec"] = json!({"taints": [
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]});
    world.api.put(leaving).unwrap();
    let gone = eventually(WITHIN, || {
        world
            .get("127.0.0.1:10256", "/healthz")
            .filter(|it| it.0 == 503)
    });
    assert!(gone.is_some(), "{}", world.log());
    assert_eq!(world.get("127.0.0.1:10256", "/livez").unwrap().0, 200);
    world.api.delete("Service", "default", "web").unwrap();
    let closed = eventually(WITHIN, || world.get(&check, "/").is_none().then_some(()));
    assert!(closed.is_some(), "nobody asks about a Service that is gone");
}

#[test]
fn the_node_and_refused_services_have_events() {
    require_netns!();
    let world = World::new();
    // However old it is.
    let mut thief = service("thief", "10.96.0.66");
    thief["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    thief["spec"]["externalIPs"] = json!(["10.96.0.10"]);
    world.api.put(thief).unwrap();
    let mut odd = service("odd", "10.96.0.67");
    odd["spec"]["ports"][0]["port"] = json!(70_000);
    world.api.put(odd).unwrap();
    let _agent = world.start(&[]);
    let mut last = Vec::new();
    let found = eventually(WITHIN, || {
        last = world.api.events();
        let has = |kind: &str, name: &str, reason: &str| {
            last.iter().any(|it| {
                it["involvedObject"]["kind"] == kind
                    && it["involvedObject"]["name"] == name
                    && it["reason"] == reason
            })
        };
        let all = [
            has("Node", "node-a", "Starting"),
            has("Service", "thief", "ClusterIPTaken"),
            has("Service", "odd", "ServiceInvalid"),
        ];
        all.iter().all(|it| *it).then_some(())
    });
    assert!(found.is_some(), "{last:#?}\n{}", world.log());
    assert_eq!(world.ask().as_deref(), Some("one"));
}

#[test]
fn addresses_can_be_kept_from_the_authors_of_services() {
    require_netns!();
    let world = World::new();
    let own = world.cluster.node("node-a").ipv4();
    let mut greedy = service("greedy", "10.96.0.66");
    greedy["spec"]["externalIPs"] = json!(["192.0.2.1", "198.51.100.7", own]);
    world.api.put(greedy).unwrap();
    let agent = world.start(&[]);
    let status = world.until("all are served", |it| it.frontends == 6);
    let reasons: Vec<&str> = status.issues.iter().map(|it| &*it.reason).collect();
    assert_eq!(reasons, ["Shadows"], "an address of the node is no secret");
    assert_eq!(status.unprotected.len(), 2);
    assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    let allow = format!("--external-ip-allow=192.0.2.0/24,{own}/32");
    let _agent = world.start(&[&allow, "--refuse-shadowing-vips"]);
    let status = world.until("one is served", |it| it.frontends == 4);
    let mut reasons: Vec<&str> = status.issues.iter().map(|it| &*it.reason).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["ExternalIPNotAllowed", "Shadows"]);
    assert!(status.unprotected.is_empty());
}

#[test]
fn nothing_listens_but_what_kube_proxy_has() {
    require_netns!();
    let world = World::new();
    let agent = world.start(&[]);
    let output = world.netns().command("ss", &["-Hlntup"]).output().unwrap();
    let sockets = String::from_utf8(output.stdout).unwrap();
    let pid = format!("pid={},", agent.0.id());
    let ours = sockets.lines().filter(|it| it.contains(&pid));
    let mut ours: Vec<&str> = ours.filter_map(|it| it.split_whitespace().nth(4)).collect();
    ours.sort_unstable();
    assert_eq!(ours, ["*:10256", "127.0.0.1:10249"], "{sockets}");
}

#[test]
fn a_kubeconfig_that_is_wrong_is_told_in_one_line() {
    require_netns!();
    let world = World::new();
    let mut command = world.command(&["--kubeconfig=/nowhere/kubeconfig"]);
    let output = command.stdout(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("sluice: "), "{text}");
    assert!(last.contains("/nowhere/kubeconfig"), "{text}");
}
