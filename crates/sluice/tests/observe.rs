//! What an operator sees of a running agent: its log, metrics and status. Needs root.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use sluice_lab::{Cluster, Netns, Probe, eventually, require_netns};
use sluice_node::client;
use sluice_node::status::Status;
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(20);

const METRICS: &str = "127.0.0.1:10249";

/// An agent in a network namespace; killed when dropped.
struct Agent<'a> {
    netns: &'a Netns,
    folder: TempDir,
    process: Child,
}

impl<'a> Agent<'a> {
    fn start(netns: &'a Netns, manifests: &[(&str, String)], flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        for (name, text) in manifests {
            fs::write(folder.path().join("manifests").join(name), text).unwrap();
        }
        let sluice = env!("CARGO_BIN_EXE_sluice");
        let mut command: Command = netns.command(sluice, &["proxy", "--hostname-override=node-a"]);
        command
            .arg("--manifests")
            .arg(folder.path().join("manifests"));
        command
            .arg("--socket")
            .arg(folder.path().join("run/sluice.sock"));
        command.args(["--conntrack-max-per-core=0"]).args(flags);
        command.stderr(File::create(folder.path().join("log")).unwrap());
        let process = command.spawn().unwrap();
        let agent = Self {
            netns,
            folder,
            process,
        };
        agent.until("synced", || agent.status().filter(|it| it.synced));
        agent
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a manifest in one step.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("draft"), text).unwrap();
        fs::rename(self.path("draft"), self.path("manifests").join(name)).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn status(&self) -> Option<Status> {
        client::get(&self.path("run/sluice.sock"), "/status").ok()
    }

    fn metrics(&self) -> String {
        self.netns.run(|| {
            let mut stream = TcpStream::connect(METRICS).unwrap();
            let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    }

    /// The value of a series; `None` without the series.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics();
        let mut lines = text.lines();
        let value = lines.find_map(|it| it.strip_prefix(series)?.strip_prefix(' '));
        value.map(|it| it.parse().unwrap())
    }

    #[track_caller]
    fn until<T>(&self, what: &str, found: impl FnMut() -> Option<T>) -> T {
        let found = eventually(WITHIN, found);
        found.unwrap_or_else(|| panic!("{what}: {}", self.log()))
    }

    #[track_caller]
    fn until_logged(&self, text: &str) {
        self.until(text, || self.log().contains(text).then_some(()));
    }

    #[track_caller]
    fn until_metric(&self, series: &str, wanted: impl Fn(Option<f64>) -> bool) {
        self.until(series, || wanted(self.metric(series)).then_some(()));
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn service(name: &str, ip: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default}}
spec: {{clusterIP: {ip}, ports: [{{name: http, port: 80}}]}}
---
"
    )
}

fn slice(name: &str, endpoints: &[&str]) -> String {
    let endpoints = endpoints.iter().map(|it| format!("{{addresses: [{it}]}}"));
    let endpoints = endpoints.collect::<Vec<_>>().join(", ");
    format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, namespace: default, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints: [{endpoints}]
"
    )
}

/// The named series of `default/NAME:http`.
fn named(name: &str) -> String {
    format!(
        "sluice_service_without_endpoints_info{{ip_family=\"IPv4\",namespace=\"default\",\
         port=\"http\",protocol=\"tcp\",service=\"{name}\"}}"
    )
}

#[test]
fn a_service_that_loses_its_endpoints_is_named_and_its_clients_are_counted() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").client("client");
    let cluster = cluster.build().unwrap();
    let node = cluster.node("node-a").netns();
    let client = cluster.client("client").netns();
    let manifests = [
        ("web.yaml", service("web", "10.96.0.10")),
        ("slice.yaml", slice("web", &["10.244.0.7", "10.244.0.8"])),
    ];
    let agent = Agent::start(node, &manifests, &[]);
    agent.until_logged("first sync services=1 service_ports=1 without_endpoints=0");
    agent.until_logged("(--external-ip-allow)");
    assert!(!agent.log().contains("default/web"), "{}", agent.log());
    let count = "sluice_service_ports_without_endpoints{ip_family=\"IPv4\"}";
    assert_eq!(agent.metric(count), Some(0.0));
    assert_eq!(agent.metric(&named("web")), None);

    agent.write("slice.yaml", &slice("web", &["10.244.0.8", "10.244.0.9"]));
    agent.until_logged("default/web:http endpoints 2, 1 replaced family=IPv4");
    agent.write("slice.yaml", &slice("web", &[]));
    agent.until_logged("default/web:http endpoints 2 -> 0 family=IPv4");
    agent.until_metric(&named("web"), |it| it == Some(1.0));
    assert_eq!(agent.metric(count), Some(1.0));
    let rejected = "sluice_rejected_packets_total{ip_family=\"IPv4\",reason=\"no_endpoints\"}";
    assert_eq!(agent.metric(rejected), Some(0.0));
    let _ = Probe::tcp("10.96.0.10:80".parse().unwrap()).from(client);
    agent.until_metric(rejected, |it| it > Some(0.0));

    agent.write("slice.yaml", &slice("web", &["10.244.0.9"]));
    agent.until_metric(&named("web"), |it| it.is_none());
    fs::remove_file(agent.path("manifests/web.yaml")).unwrap();
    agent.until_logged("default/web:http removed family=IPv4");
}

/// In the sandbox.
#[test]
fn forwarding_and_connection_tracking_are_watched() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").build().unwrap();
    let node = cluster.node("node-a").netns();
    let sysctl = |value: &str| {
        let path = "/proc/sys/net/ipv4/ip_forward";
        node.run(|| fs::write(path, value)).unwrap();
    };
    sysctl("1");
    let manifests = [("web.yaml", service("web", "10.96.0.10"))];
    let agent = Agent::start(node, &manifests, &[]);
    assert!(agent.log().contains("sandboxed"), "{}", agent.log());
    assert!(agent.metric("sluice_conntrack_entries_limit") > Some(0.0));
    assert!(agent.metric("sluice_conntrack_entries").is_some());
    let drops = "sluice_conntrack_failures_total{reason=\"drop\"}";
    assert_eq!(agent.metric(drops), Some(0.0));
    let forwarding = "sluice_forwarding{ip_family=\"IPv4\"}";
    assert_eq!(agent.metric(forwarding), Some(1.0));
    let off = || agent.status().unwrap().forwarding_off;
    assert!(off().is_empty());

    sysctl("0");
    assert_eq!(agent.metric(forwarding), Some(0.0));
    assert_eq!(off(), ["net.ipv4.ip_forward"]);
    agent.until_logged("sysctl net.ipv4.ip_forward was set to 0");
    sysctl("1");
    agent.until_logged("sysctl net.ipv4.ip_forward is 1 again");
    assert!(off().is_empty());
    assert_eq!(agent.log().matches("was set to 0").count(), 1);
}
