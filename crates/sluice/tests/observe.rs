//! What an operator sees of a running agent: its log, metrics and status. Needs root.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;

use sluice_lab::{Cluster, Netns, Probe, eventually, require_netns};

use crate::common::{Agent, Files, WITHIN};

const METRICS: &str = "127.0.0.1:10249";

/// An agent in a network namespace, with its log.
struct Observed<'a> {
    netns: &'a Netns,
    files: Files,
    _agent: Agent,
}

impl<'a> Observed<'a> {
    /// Runs with these manifests until the rules are written.
    fn start(netns: &'a Netns, manifests: &[(&str, String)]) -> Self {
        let files = Files::new();
        for (name, text) in manifests {
            files.write(name, text);
        }
        let mut command = files.proxy(netns);
        command.arg("--conntrack-max-per-core=0");
        command.stderr(File::create(files.0.path().join("log")).unwrap());
        let agent = Agent(command.spawn().unwrap());
        files.await_status("synced", |it| it.synced);
        Self {
            netns,
            files,
            _agent: agent,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.files.0.path().join("log")).unwrap()
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
    let agent = Observed::start(node, &manifests);
    agent.until_logged("first sync services=1 service_ports=1 without_endpoints=0");
    agent.until_logged("(--external-ip-allow)");
    assert!(!agent.log().contains("default/web"), "{}", agent.log());
    let count = "sluice_service_ports_without_endpoints{ip_family=\"IPv4\"}";
    assert_eq!(agent.metric(count), Some(0.0));
    assert_eq!(agent.metric(&named("web")), None);

    agent
        .files
        .write("slice.yaml", &slice("web", &["10.244.0.8", "10.244.0.9"]));
    agent.until_logged("default/web:http endpoints 2, 1 replaced family=IPv4");
    agent.files.write("slice.yaml", &slice("web", &[]));
    agent.until_logged("default/web:http endpoints 2 -> 0 family=IPv4");
    agent.until_metric(&named("web"), |it| it == Some(1.0));
    assert_eq!(agent.metric(count), Some(1.0));
    assert_eq!(agent.files.status().unwrap().without_endpoints, 1);
    let rejected = "sluice_rejected_packets_total{ip_family=\"IPv4\",reason=\"no_endpoints\"}";
    assert_eq!(agent.metric(rejected), Some(0.0));
    let _ = Probe::tcp("10.96.0.10:80".parse().unwrap()).from(client);
    agent.until_metric(rejected, |it| it > Some(0.0));

    agent
        .files
        .write("slice.yaml", &slice("web", &["10.244.0.9"]));
    agent.until_metric(&named("web"), |it| it.is_none());
    fs::remove_file(agent.files.manifests().join("web.yaml")).unwrap();
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
    let agent = Observed::start(node, &manifests);
    assert!(agent.log().contains("sandboxed"), "{}", agent.log());
    assert!(agent.metric("sluice_conntrack_entries_limit") > Some(0.0));
    assert!(agent.metric("sluice_conntrack_entries").is_some());
    let drops = "sluice_conntrack_failures_total{reason=\"drop\"}";
    assert_eq!(agent.metric(drops), Some(0.0));
    let forwarding = "sluice_forwarding{ip_family=\"IPv4\"}";
    assert_eq!(agent.metric(forwarding), Some(1.0));
    let off = || agent.files.status().unwrap().proxy.forwarding_off;
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
