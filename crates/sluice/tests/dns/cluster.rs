//! A node with pods, the cluster's DNS on another node, and a server of the world outside: both ways to a name.
//!
//! ```text
//! pods of node-a ─ 169.254.20.10 ─▶ sluice proxy --dns ──────────────▶ upstream: sluice dns with hosts
//!       └───────── 10.96.0.10 ────▶ rules ─▶ central: sluice dns ──────▶   │
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use simple_dns::TYPE;
use sluice_lab::{Cluster, Netns, eventually};

use crate::common::{Agent, Files, SLUICE, WITHIN};
use crate::dns::client::{Answer, ask, ask_again};
use crate::dns::server::get;

/// The Service of the cluster's DNS: by the rules to `central`.
pub(crate) const CLUSTER_IP: &str = "10.96.0.10";

/// The agent of the node.
pub(crate) const NODE_LOCAL: &str = "169.254.20.10";
pub(crate) const NODE_LOCAL_V6: &str = "fd00:169:254:20::10";

/// Runs a program whose `/etc/resolv.conf` is `$0`.
const WITH_RESOLV_CONF: &str =
    r#"mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec "$@""#;

/// A cluster that answers.
pub(crate) struct World {
    // Dropped first: processes end before their namespaces and files.
    upstream: Option<Agent>,
    central: Option<Agent>,
    agent: Option<Agent>,
    pub(crate) cluster: Cluster,
    pub(crate) files: Files,
}

impl World {
    /// Pods of node-a with the rest of their `spec`; `None`: no Pod object of the node has the address. `outside` has
    /// the names that only the upstream knows, as in `/etc/hosts`.
    pub(crate) fn new(pods: &[(&str, Option<&str>)], manifests: &str, outside: &str) -> Self {
        let mut builder = Cluster::builder().node("node-a").node("node-b");
        for (name, spec) in pods {
            builder = if spec.is_some_and(|it| it.contains("hostNetwork: true")) {
                builder.host_pod(name, "node-a")
            } else {
                builder.pod(name, "node-a")
            };
        }
        let builder = builder.pod("central", "node-b").client("upstream");
        let cluster = builder.build().unwrap();
        let files = Files::new();
        files.write("objects.yaml", manifests);
        let mut world = Self {
            upstream: None,
            central: None,
            agent: None,
            cluster,
            files,
        };
        world.write_pods(pods);
        let nothing = "template ANY ANY {\nrcode NXDOMAIN\nauthority \". 60 IN SOA a.test. b.test. 1 2 3 4 60\"\n}\n";
        let corefile = format!(
            ".:53 {{\nprometheus 127.0.0.1:9153\nhosts {{\n{outside}\nfallthrough\n}}\nforward . 127.0.0.1:5300\n}}\n\
             .:5300 {{\nbind 127.0.0.1\n{nothing}}}\n"
        );
        world.upstream = Some(world.serve(world.upstream(), "upstream.conf", &corefile));
        world.write_central("");
        let central = world.cluster.pod("central").netns();
        world.central = Some(world.serve_file(central, "central.conf"));
        world.agent = Some(Agent::run(&world.files, world.proxy()));
        for server in [CLUSTER_IP, NODE_LOCAL] {
            let name = "kubernetes.default.svc.cluster.local";
            let pod = world.cluster.pod(pods[0].0).netns();
            world.until(pod, server, name, TYPE::A, &["10.96.0.1"]);
        }
        world
    }

    pub(crate) fn upstream(&self) -> &Netns {
        self.cluster.client("upstream").netns()
    }

    /// Nobody listens there any more.
    pub(crate) fn end_upstream(&mut self) {
        self.upstream = None;
    }

    pub(crate) fn upstream_ip(&self) -> IpAddr {
        self.cluster.client("upstream").ipv4().into()
    }

    /// A DNS server in a namespace, which serves a Corefile.
    pub(crate) fn serve(&self, netns: &Netns, file: &str, corefile: &str) -> Agent {
        fs::write(self.files.0.path().join(file), corefile).unwrap();
        self.serve_file(netns, file)
    }

    fn serve_file(&self, netns: &Netns, file: &str) -> Agent {
        let mut command = netns.command(SLUICE, &["dns", "--conf"]);
        command.arg(self.files.0.path().join(file));
        command.arg("--manifests").arg(self.files.manifests());
        Agent(command.spawn().unwrap())
    }

    /// The Corefile of the cluster's DNS: kubeadm's, and these blocks.
    pub(crate) fn write_central(&self, blocks: &str) {
        let upstream = self.upstream_ip();
        let text = format!(
            "{blocks}\n.:53 {{\nerrors\nkubernetes cluster.local in-addr.arpa ip6.arpa {{\npods insecure\n\
             fallthrough in-addr.arpa ip6.arpa\nttl 30\n}}\nforward . {upstream}\nloop\nreload\nloadbalance\n}}\n"
        );
        let draft = self.files.0.path().join("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.files.0.path().join("central.conf")).unwrap();
    }

    /// Starts the agent anew, with a Corefile.
    pub(crate) fn restart_agent(&mut self, corefile: &str) {
        self.agent = None;
        let path = self.files.0.path().join("agent.conf");
        fs::write(&path, corefile).unwrap();
        let mut command = self.proxy();
        command.arg("--dns-corefile").arg(path);
        self.agent = Some(Agent::run(&self.files, command));
    }

    /// The agent of node-a. The node's resolver is the upstream.
    fn proxy(&self) -> Command {
        let text = format!("nameserver {}\nsearch corp.test\n", self.upstream_ip());
        let node = self.cluster.node("node-a").netns();
        let mut command = self.with_resolv_conf(node, &text, &[SLUICE, "proxy", "--dns"]);
        command.args(["--hostname-override=node-a", "--cluster-cidr"]);
        command.args(["10.244.0.0/16,fd00:10:244::/48", "--manifests"]);
        command.arg(self.files.manifests());
        command.arg("--socket").arg(self.files.socket());
        command
    }

    fn write_pods(&self, pods: &[(&str, Option<&str>)]) {
        let central = self.cluster.pod("central").ipv4();
        let ports = "ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]";
        let mut all = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: kube-dns, namespace: kube-system}}\n\
             spec: {{clusterIP: {CLUSTER_IP}, {ports}}}\n---\n\
             apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata: {{name: kube-dns-a, namespace: kube-system, \
             labels: {{kubernetes.io/service-name: kube-dns}}}}\nendpoints: [{{addresses: [{central}]}}]\n{ports}\n"
        );
        for (name, spec) in pods {
            let Some(spec) = spec else { continue };
            let pod = self.cluster.pod(name);
            let (v4, v6) = (pod.ipv4(), pod.ipv6());
            all += &format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: e2e}}\n\
                 spec: {{nodeName: node-a, containers: [{{name: a, image: a}}], {spec}}}\n\
                 status: {{phase: Running, podIP: {v4}, podIPs: [{{ip: {v4}}}, {{ip: \"{v6}\"}}]}}\n"
            );
        }
        self.files.write("pods.yaml", &all);
    }

    /// A program in a namespace whose `/etc/resolv.conf` has this text.
    pub(crate) fn with_resolv_conf(&self, netns: &Netns, text: &str, program: &[&str]) -> Command {
        let file = tempfile::NamedTempFile::new_in(self.files.0.path()).unwrap();
        fs::write(&file, text).unwrap();
        let (_, path) = file.keep().unwrap();
        let mut command = netns.command("unshare", &["--mount", "sh", "-c", WITH_RESOLV_CONF]);
        command.arg(path).args(program);
        command
    }

    /// The addresses that glibc's resolver finds in a pod, both families; none when there is no such name.
    pub(crate) fn resolve(&self, pod: &str, resolv_conf: &str, name: &str) -> BTreeSet<String> {
        let netns = self.cluster.pod(pod).netns();
        let mut command = self.with_resolv_conf(netns, resolv_conf, &["getent", "ahosts", name]);
        let output = command.output().unwrap();
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(2), "{name}: {output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let addresses = said.lines().filter_map(|it| it.split(' ').next());
        addresses.map(str::to_owned).collect()
    }

    /// Asks from a namespace until something comes back.
    #[track_caller]
    pub(crate) fn ask(&self, from: &Netns, server: &str, name: &str, kind: TYPE) -> Answer {
        let server = address(server);
        from.run(|| ask_again(server, name, kind))
    }

    /// Asks until the answer is as wanted.
    #[track_caller]
    pub(crate) fn until(
        &self,
        from: &Netns,
        server: &str,
        name: &str,
        kind: TYPE,
        wanted: &[&str],
    ) {
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = from.run(|| ask(address(server), name, kind));
            (last.as_ref()?.records == wanted).then_some(())
        });
        assert!(found.is_some(), "{name} {kind:?} at {server}: {last:?}");
    }

    /// Queries that came to the agent so far.
    pub(crate) fn queries(&self) -> u64 {
        let node = self.cluster.node("node-a").netns();
        let metrics = node.run(|| get("127.0.0.1:10249".parse().unwrap(), "/metrics"));
        let metrics = metrics.unwrap().1;
        let counts = metrics
            .lines()
            .filter(|it| it.starts_with("coredns_dns_requests_total{"));
        let counts = counts.map(|it| it.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counts.sum()
    }
}

/// Where the server at an address listens.
pub(crate) fn address(server: &str) -> SocketAddr {
    SocketAddr::new(server.parse().unwrap(), 53)
}

/// What kubelet writes for a pod of `e2e` that uses the cluster's DNS, on a node whose search path is `corp.test`.
pub(crate) fn cluster_first(server: &str, more: &str) -> String {
    format!(
        "nameserver {server}\nsearch e2e.svc.cluster.local svc.cluster.local cluster.local corp.test{more}\n\
         options ndots:5\n"
    )
}
