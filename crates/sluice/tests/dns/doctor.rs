//! What `sluice doctor` says of names, on nodes whose names work and on broken ones.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use simple_dns::TYPE;
use sluice_lab::{eventually, require_netns};
use sluice_model::DNS_ADDRESSES;

use crate::common::{Agent, SLUICE, WITHIN};
use crate::dns::client::ask;
use crate::dns::world::{CLUSTER_DNS, World};

const KUBERNETES: &str = "\
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
";

/// A node whose kubelet gives pods a nameserver, and the pods of the cluster's DNS a resolv.conf.
struct Node(World);

impl Node {
    fn new() -> Self {
        let world = World::new();
        world.files.write("kubernetes.yaml", KUBERNETES);
        let node = Self(world);
        node.kubelet(
            "169.254.20.10",
            "nameserver 192.0.2.1\nsearch example.org\n",
        );
        node
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.files.0.path().join(name)
    }

    fn kubelet(&self, server: &str, resolv_conf: &str) {
        let path = self.file("resolv.conf");
        fs::write(&path, resolv_conf).unwrap();
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             clusterDNS: [{server}]\nclusterDomain: cluster.local\nresolvConf: {}\n",
            path.display()
        );
        fs::write(self.file("kubelet.yaml"), config).unwrap();
    }

    fn doctor(&self, more: &[&str]) -> String {
        let netns = self.0.cluster.node("node-a").netns();
        let mut command = netns.command(SLUICE, &["doctor"]);
        command.arg("--socket").arg(self.0.files.socket());
        command
            .arg("--kubelet-config")
            .arg(self.file("kubelet.yaml"));
        let output = command.args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    /// The same with the objects of the manifests, where no agent runs.
    fn without_agent(&self) -> String {
        let folder = self.0.files.manifests();
        let folder = folder.to_str().unwrap();
        self.doctor(&["--manifests", folder, "--hostname-override", "node-a"])
    }

    /// Asks from the node until the cluster's DNS answers.
    fn await_central(&self) {
        let server = SocketAddr::new(CLUSTER_DNS.parse().unwrap(), 53);
        let netns = self.0.cluster.node("node-a").netns();
        let name = "kubernetes.default.svc.cluster.local";
        let found = eventually(WITHIN, || netns.run(|| ask(server, name, TYPE::A)));
        assert!(found.is_some());
    }
}

/// A line of the report begins so and has this in it.
#[track_caller]
fn says(report: &str, start: &str, what: &str) {
    let mut lines = report.lines().map(str::trim_start);
    let found = lines.any(|it| {
        let words: Vec<&str> = it.split_whitespace().collect();
        words.join(" ").starts_with(start) && it.contains(what)
    });
    assert!(found, "{start}: {what}?\n{report}");
}

#[test]
fn a_node_whose_names_are_answered_has_no_finding() {
    require_netns!();
    let node = Node::new();
    let _agent = Agent::run(&node.0.files, node.0.proxy("nftables"));
    let name = "web.default.svc.cluster.local";
    node.0.until(DNS_ADDRESSES[0], name, &["10.96.0.20"]);
    let report = node.doctor(&[]);
    let at = "kube-system/kube-dns is at 10.96.0.10, 1 ready endpoint";
    says(&report, "ok dns service", at);
    let local = "the agent gets the queries to 169.254.20.10, fd00:169:254:20::10, 10.96.0.10";
    says(&report, "ok node dns", local);
    says(&report, "ok nameserver", "pods ask 169.254.20.10");
    let servers = DNS_ADDRESSES.into_iter().map(Some);
    for server in servers
        .chain([CLUSTER_DNS.parse::<IpAddr>().ok()])
        .flatten()
    {
        let answer = format!("kubernetes.default.svc.cluster.local is 10.96.0.1, says {server}");
        says(&report, "ok dns", &answer);
    }
    says(&report, "ok upstreams", "resolv.conf: 192.0.2.1");
    says(&report, "ok search path", "up to 10 queries with ndots:5");
}

#[test]
fn a_broken_resolver_is_named() {
    require_netns!();
    let node = Node::new();
    let _agent = Agent::run(&node.0.files, node.0.proxy("nftables"));
    node.kubelet("10.96.0.99", "nameserver 127.0.0.53\n");
    let report = node.doctor(&[]);
    let wrong = "pods ask 10.96.0.99, which is neither a ClusterIP of kube-system/kube-dns";
    says(&report, "FAIL nameserver", wrong);
    says(
        &report,
        "FAIL upstreams",
        "nameserver 127.0.0.53 is the pod itself",
    );
    node.kubelet(CLUSTER_DNS, "nameserver 10.96.0.10\n");
    let report = node.doctor(&[]);
    says(&report, "ok nameserver", "pods ask 10.96.0.10");
    says(&report, "FAIL upstreams", "a loop");
    node.kubelet("", "");
    let report = node.doctor(&[]);
    says(&report, "FAIL nameserver", "clusterDNS is empty");
    says(&report, "WARN upstreams", "no nameserver");
    let report = node.doctor(&["--dns-service", "shop/dns"]);
    says(&report, "FAIL dns service", "there is no Service shop/dns");
}

/// Whoever answers wrongly is the one to look at: the agent where it answers on this node, else the cluster's pods.
#[test]
fn a_wrong_answer_leads_to_the_server_that_gave_it() {
    require_netns!();
    let mut node = Node::new();
    let of_node = node.0.proxy("nftables");
    node.0
        .write_corefile("template IN ANY default.svc.cluster.local {\nrcode NXDOMAIN\n}\n");
    let agent = Agent::run(&node.0.files, of_node);
    let hint_of = |report: &str, server: &str| {
        let mut lines = report
            .lines()
            .skip_while(|it| !(it.contains("FAIL  dns ") && it.contains(&format!(": {server} "))));
        lines
            .nth(1)
            .unwrap_or_else(|| panic!("{report}"))
            .trim()
            .to_owned()
    };
    let report = node.doctor(&["default/kubernetes", "--probe"]);
    let hint = hint_of(&report, "169.254.20.10");
    assert!(
        hint.contains("the DNS server of this node is the agent's"),
        "{report}"
    );
    drop(agent);
    node.0.central.stop();
    let of_cluster = node.0.without_dns("nftables");
    let _agent = Agent::run(&node.0.files, of_cluster);
    let report = node.doctor(&["default/kubernetes", "--probe"]);
    let hint = hint_of(&report, CLUSTER_DNS);
    assert!(
        hint.contains("sluice doctor kube-system/kube-dns --probe"),
        "{report}"
    );
}

#[test]
fn without_the_agent_the_cluster_answers() {
    require_netns!();
    let mut node = Node::new();
    let agent = Agent::run(&node.0.files, node.0.proxy("nftables"));
    let name = "web.default.svc.cluster.local";
    node.0.until(DNS_ADDRESSES[0], name, &["10.96.0.20"]);
    drop(agent);
    node.await_central();
    let report = node.without_agent();
    says(&report, "WARN node dns", "no agent with --dns answers at");
    says(&report, "ok dns", "says 169.254.20.10");
    says(&report, "ok dns", "says 10.96.0.10");
    node.0.central.stop();
    let report = node.without_agent();
    says(
        &report,
        "FAIL dns",
        "10.96.0.10 gives no answer: Connection refused",
    );
}
