//! A node whose agent answers DNS, and the cluster's DNS elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use sluice_lab::{Cluster, Netns, eventually};

use crate::common::{Files, SLUICE, WITHIN};
use crate::dns::client::addresses;

/// Where the cluster's DNS Service is.
pub(crate) const CLUSTER_DNS: &str = "10.96.0.10";

/// The name that both know, and what each of them answers.
pub(crate) const WEB: &str = "web.default.svc.cluster.local";
pub(crate) const LOCAL: &str = "10.96.0.20";
pub(crate) const CENTRAL: &str = "192.0.2.78";

const PODS: &str = "10.244.0.0/16,fd00:10:244::/48";

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
        let kubernetes = "10.96.0.1 kubernetes.default.svc.cluster.local";
        let hosts = format!("hosts {{\n{CENTRAL} {WEB}\n{kubernetes}\n}}\n");
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

impl Drop for World {
    fn drop(&mut self) {
        // Pinned programs would outlive the namespace.
        let mut cleanup = self.node().command(SLUICE, &["cleanup", "--socket"]);
        let _ = cleanup.arg(self.files.socket()).output();
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
        files.write("web.yaml", &web(LOCAL));
        let world = Self {
            cluster,
            files,
            central,
        };
        world.write_corefile("");
        world
    }

    pub(crate) fn corefile(&self) -> PathBuf {
        self.files.0.path().join("Corefile")
    }

    /// The agent's Corefile, with more in its block.
    pub(crate) fn write_corefile(&self, more: &str) {
        let text =
            format!("cluster.local {{\nerrors\n{more}kubernetes cluster.local {{\nttl 5\n}}\n}}\n");
        let draft = self.files.0.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.corefile()).unwrap();
    }

    /// An agent of the folder.
    pub(crate) fn proxy(&self, mode: &str) -> Command {
        let mut command = self.without_dns(mode);
        command.args(["--dns", "--dns-cluster-ip", CLUSTER_DNS]);
        command.arg("--dns-corefile").arg(self.corefile());
        command
    }

    pub(crate) fn without_dns(&self, mode: &str) -> Command {
        let mut command = self.files.proxy(self.node());
        command.args(["--proxy-mode", mode, "--cluster-cidr", PODS]);
        command
    }

    /// An agent whose API server is not there.
    pub(crate) fn without_api_server(&self, mode: &str) -> Command {
        let flags = [
            "proxy",
            "--hostname-override=node-a",
            "--master=http://127.0.0.1:9",
            "--conntrack-max-per-core=0",
        ];
        let mut command = self.node().command(SLUICE, &flags);
        command.args(["--proxy-mode", mode, "--cluster-cidr", PODS]);
        command.args(["--dns", "--dns-cluster-ip", CLUSTER_DNS]);
        command.arg("--socket").arg(self.files.socket());
        command
    }

    pub(crate) fn node(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    pub(crate) fn client(&self) -> &Netns {
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

pub(crate) fn web(address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n\
         spec: {{clusterIP: {address}, ports: [{{port: 80}}]}}\n"
    )
}
