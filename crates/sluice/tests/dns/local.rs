//! `sluice proxy --dns`: pods of a node and the DNS server in its agent.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use simple_dns::{RCODE, TYPE};
use sluice_lab::{Cluster, Netns, eventually, require_netns};
use sluice_plan::settings::DNS_ADDRESSES;

use crate::client::{Answer, addresses, ask};
use crate::common::{Agent, Files, SLUICE, WITHIN};

/// Where the cluster's DNS Service is.
pub(crate) const CLUSTER_DNS: &str = "10.96.0.10";

/// A node with a pod, and a pod on another node whose server is the cluster's DNS.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) files: Files,
    pub(crate) central: Central,
}

/// The cluster's DNS: `sluice dns` in a pod, which knows one name that no agent does.
pub(crate) struct Central {
    _files: Files,
    child: std::process::Child,
}

impl Central {
    fn start(netns: &Netns) -> Self {
        let files = Files::new();
        let corefile = files.0.path().join("Corefile");
        let hosts = "hosts {\n192.0.2.77 central.test\n192.0.2.78 web.default.svc.cluster.local\n\
             10.96.0.1 kubernetes.default.svc.cluster.local\n}\n";
        std::fs::write(&corefile, format!(".:53 {{\n{hosts}}}\n")).unwrap();
        let mut command = netns.command(SLUICE, &["dns", "--conf"]);
        let child = command.arg(&corefile).spawn().unwrap();
        Self {
            _files: files,
            child,
        }
    }
}

impl Central {
    pub(crate) fn stop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Central {
    fn drop(&mut self) {
        self.stop();
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let cluster = Cluster::builder()
            .node("node-a")
            .node("node-b")
            .pod("client", "node-a")
            .pod("central", "node-b")
            .build()
            .unwrap();
        let central = Central::start(cluster.pod("central").netns());
        let files = Files::new();
        let pod = cluster.pod("central");
        files.write(
            "dns.yaml",
            &format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: kube-dns, namespace: kube-system}}\n\
                 spec: {{clusterIP: {CLUSTER_DNS}, ports: [{{name: dns, port: 53, protocol: UDP}}, \
                 {{name: dns-tcp, port: 53}}]}}\n---\n\
                 apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
                 metadata: {{name: kube-dns-a, namespace: kube-system, \
                 labels: {{kubernetes.io/service-name: kube-dns}}}}\n\
                 endpoints: [{{addresses: [{}]}}]\n\
                 ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53}}]\n",
                pod.ipv4()
            ),
        );
        files.write("web.yaml", &web("10.96.0.20"));
        let corefile = "cluster.local {\nerrors\nkubernetes cluster.local {\nttl 5\n}\n}\n";
        std::fs::write(files.0.path().join("Corefile"), corefile).unwrap();
        Self {
            cluster,
            files,
            central,
        }
    }

    pub(crate) fn proxy(&self, mode: &str) -> Command {
        let mut command = self.files.proxy(self.cluster.node("node-a").netns());
        command.args([
            "--proxy-mode",
            mode,
            "--dns",
            "--dns-cluster-ip",
            CLUSTER_DNS,
        ]);
        command.args([
            "--cluster-cidr",
            "10.244.0.0/16,fd00:10:244::/48",
            "--dns-corefile",
        ]);
        command.arg(self.files.0.path().join("Corefile"));
        command
    }

    fn client(&self) -> &Netns {
        self.cluster.pod("client").netns()
    }

    /// Asks from the pod until the answer is as wanted.
    #[track_caller]
    pub(crate) fn until(&self, server: IpAddr, name: &str, wanted: &[&str]) {
        let server = SocketAddr::new(server, 53);
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = self.client().run(|| addresses(server, name));
            (last.as_ref()? == wanted).then_some(())
        });
        assert!(found.is_some(), "{name} at {server}: {last:?}");
    }
}

fn web(address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n\
         spec: {{clusterIP: {address}, ports: [{{port: 80}}]}}\n"
    )
}

#[test]
fn pods_are_answered_by_their_node_and_by_the_cluster_without_it() {
    require_netns!();
    let world = World::new();
    let cluster_dns: IpAddr = CLUSTER_DNS.parse().unwrap();
    let name = "web.default.svc.cluster.local";
    for mode in ["nftables", "iptables"] {
        let agent = Agent::run(&world.files, world.proxy(mode));
        for server in [DNS_ADDRESSES[0], DNS_ADDRESSES[1], cluster_dns] {
            world.until(server, name, &["10.96.0.20"]);
        }
        // The agent's socket is gone with it, and the cluster's DNS has another answer.
        drop(agent);
        for server in [DNS_ADDRESSES[0], cluster_dns] {
            world.until(server, name, &["192.0.2.78"]);
        }
    }
    drop(world.central);
}

#[test]
fn a_name_is_answered_as_its_object_changes() {
    require_netns!();
    let world = World::new();
    let _agent = Agent::run(&world.files, world.proxy("nftables"));
    let server = DNS_ADDRESSES[0];
    let name = "web.default.svc.cluster.local";
    world.until(server, name, &["10.96.0.20"]);
    world.files.write("web.yaml", &web("10.96.0.21"));
    world.until(server, name, &["10.96.0.21"]);
    let gone = "missing.default.svc.cluster.local";
    let server = SocketAddr::new(server, 53);
    let answer = world.client().run(|| ask(server, gone, TYPE::A));
    let nothing = Answer {
        code: RCODE::NameError,
        records: Vec::new(),
    };
    assert_eq!(answer, Some(nothing));
    let mut query = Command::new(SLUICE);
    query.args(["dns", "query", name, "--socket"]);
    let output = query.arg(world.files.socket()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("A 10.96.0.21\n    the ClusterIP of Service default/web"),
        "{said}"
    );
}
