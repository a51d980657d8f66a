//! A node with two pods that serve, a client, perhaps an agent, perhaps what kube-proxy left.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::{
    Cluster, Hammer, Netns, Probe, Protocol, Server, Session, eventually, write_program,
};

use crate::takeover::kube_proxy::{NODE_PORT, POD_PORT, PORT, Services};

pub(crate) const SOON: Duration = Duration::from_secs(60);
const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
/// For a probe on a busy machine.
const PATIENT: Duration = Duration::from_secs(5);
const PODS: [&str; 2] = ["web-1", "web-2"];

/// What the log says when somebody else has changed our rules.
pub(crate) const DRIFT: &str = "another program had changed our rules";

/// How kube-proxy's rules got into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Chains of `iptables-nft` or `iptables-legacy`.
    Iptables(&'static str),
    /// Tables of its own.
    Nftables,
}

pub(crate) struct World {
    pub(crate) v4: Services,
    pub(crate) v6: Services,
    pub(crate) cluster: Cluster,
    agent: Option<Child>,
    used_ebpf: bool,
    _servers: Vec<Server>,
    scratch: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut builder = Cluster::builder().node("node-a").pod("shell", "node-a");
        for pod in PODS {
            builder = builder.pod(pod, "node-a");
        }
        let cluster = builder.build().unwrap();
        let servers = PODS.map(|pod| {
            Server::start(cluster.pod(pod).netns(), pod, POD_PORT, Protocol::Tcp).unwrap()
        });
        let services = |net: &str, pods| Services {
            web: format!("{net}a").parse().unwrap(),
            sticky: format!("{net}b").parse().unwrap(),
            dead: format!("{net}c").parse().unwrap(),
            pods,
        };
        let v4 = Services {
            web: [10, 96, 0, 10].into(),
            sticky: [10, 96, 0, 11].into(),
            dead: [10, 96, 0, 12].into(),
            pods: PODS.map(|it| cluster.pod(it).ipv4().into()),
        };
        let v6 = services("fd00:10:96::", PODS.map(|it| cluster.pod(it).ipv6().into()));
        let world = Self {
            v4,
            v6,
            cluster,
            agent: None,
            used_ebpf: false,
            _servers: servers.into(),
            scratch: tempfile::tempdir().unwrap(),
        };
        world.write_manifests();
        world
    }

    fn write_manifests(&self) {
        fs::create_dir(self.manifests()).unwrap();
        let (v4, v6) = (&self.v4, &self.v6);
        let mut text = String::new();
        for (name, ips, more) in [
            ("web", [v4.web, v6.web], format!(", nodePort: {NODE_PORT}")),
            ("sticky", [v4.sticky, v6.sticky], String::new()),
            ("dead", [v4.dead, v6.dead], String::new()),
        ] {
            let [four, six] = ips;
            let kind = if more.is_empty() {
                "ClusterIP"
            } else {
                "NodePort"
            };
            text += &format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\n\
                 spec: {{type: {kind}, clusterIP: {four}, clusterIPs: [{four}, \"{six}\"], \
                 ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, \
                 ports: [{{port: {PORT}{more}}}]}}\n---\n"
            );
        }
        for name in ["web", "sticky"] {
            for (family, pods) in [("IPv4", v4.pods), ("IPv6", v6.pods)] {
                let [one, two] = pods;
                let slice = format!("{name}-{}", family.to_lowercase());
                text += &format!(
                    "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: \
                     {slice}, namespace: default, labels: {{kubernetes.io/service-name: {name}}}}}\n\
                     addressType: {family}\nports: [{{name: \"\", port: {POD_PORT}}}]\n\
                     endpoints: [{{addresses: [\"{one}\"]}}, {{addresses: [\"{two}\"]}}]\n---\n"
                );
            }
        }
        fs::write(self.manifests().join("all.yaml"), text).unwrap();
    }

    /// From here on no Service has an endpoint.
    pub(crate) fn lose_endpoints(&self) {
        let file = self.manifests().join("all.yaml");
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(|it| {
            if it.starts_with("endpoints:") {
                "endpoints: []"
            } else {
                it
            }
        });
        let lines: Vec<&str> = lines.collect();
        fs::write(file, lines.join("\n")).unwrap();
    }

    fn manifests(&self) -> PathBuf {
        self.scratch.path().join("manifests")
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("sluice.sock")
    }

    pub(crate) fn node(&self) -> &Netns {
        self.cluster.node("node-a").netns()
    }

    pub(crate) fn shell(&self) -> &Netns {
        self.cluster.pod("shell").netns()
    }

    pub(crate) fn families(&self) -> [&Services; 2] {
        [&self.v4, &self.v6]
    }

    /// Runs a program on the node, feeds it `input`, returns what it printed.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let mut command = self.node().command(program, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {problem}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn install(&self, mode: Mode) {
        for services in self.families() {
            match mode {
                Mode::Iptables(flavour) => {
                    let program = format!("{}-{flavour}-restore", services.program());
                    self.run(&program, &["--noflush"], &services.iptables());
                }
                Mode::Nftables => {
                    self.run("nft", &["-f", "-"], &services.nftables());
                }
            }
        }
    }

    /// Installs the rules, sets and virtual servers of ipvs mode, with iptables-nft.
    pub(crate) fn install_ipvs(&self) {
        self.run("ip", &["link", "add", "kube-ipvs0", "type", "dummy"], "");
        self.run("ip", &["link", "set", "kube-ipvs0", "up"], "");
        self.run("sysctl", &["-w", "net.ipv4.vs.conntrack=1"], "");
        let node = self.cluster.node("node-a");
        for (services, ip) in [
            (&self.v4, node.ipv4().into()),
            (&self.v6, node.ipv6().into()),
        ] {
            let web = services.web.to_string();
            let nodad: &[&str] = if services.is_v6() { &["nodad"] } else { &[] };
            let address = ["addr", "add", &web, "dev", "kube-ipvs0"];
            self.run("ip", &[&address, nodad].concat(), "");
            self.run("ipset", &["restore"], &services.ipsets());
            self.run("ipvsadm", &["--restore"], &services.virtual_servers(ip));
            let program = format!("{}-nft-restore", services.program());
            self.run(&program, &["--noflush"], &services.ipvs_iptables());
        }
    }

    /// Installs rules of others; kube-proxy's come after.
    pub(crate) fn install_neighbours(&self, flavour: &str) {
        for services in self.families() {
            let program = format!("{}-{flavour}-restore", services.program());
            self.run(&program, &["--noflush"], &services.neighbours());
        }
    }

    /// All rules of iptables in a flavour, without what counts or tells the time.
    pub(crate) fn saved(&self, flavour: &str) -> String {
        let all = self.families().map(|services| {
            let program = format!("{}-{flavour}-save", services.program());
            self.run(&program, &[], "")
        });
        let lines = all.iter().flat_map(|it| it.lines());
        let lines = lines.filter(|it| !it.starts_with('#'));
        let lines = lines.map(|it| it.split(" [").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn tables(&self) -> String {
        self.run("nft", &["list", "tables"], "")
    }

    /// Whether anything that kube-proxy installed is there.
    pub(crate) fn has_kube_proxy(&self, mode: Mode) -> bool {
        match mode {
            Mode::Iptables(flavour) => self.saved(flavour).contains("KUBE-SVC-"),
            Mode::Nftables => self.tables().contains("kube-proxy"),
        }
    }

    /// Whether the interface of ipvs mode is there.
    pub(crate) fn has_ipvs(&self) -> bool {
        self.run("ip", &["-o", "link"], "").contains("kube-ipvs0")
    }

    pub(crate) fn start(&mut self) {
        self.start_in("nftables");
    }

    /// Starts an agent in this mode, with a log of its own.
    pub(crate) fn start_in(&mut self, mode: &str) {
        self.start_with(mode, &[]);
    }

    /// The same with more flags.
    pub(crate) fn start_with(&mut self, mode: &str, flags: &[&str]) {
        self.used_ebpf |= mode == "ebpf";
        let log = File::create(self.scratch.path().join("log")).unwrap();
        let (manifests, socket) = (self.manifests(), self.socket());
        let mut command = self
            .node()
            .command(SLUICE, &["proxy", "--hostname-override=node-a"]);
        command.args([
            "--proxy-mode",
            mode,
            "--healthz-bind-address",
            "",
            "--manifests",
        ]);
        command
            .arg(manifests)
            .arg("--socket")
            .arg(socket)
            .args(flags);
        let programs = [self.programs()].into_iter();
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(programs.chain(env::split_paths(&path)));
        command.env("PATH", path.unwrap());
        let child = command.stderr(log).stdout(Stdio::null()).spawn();
        self.agent = Some(child.unwrap());
    }

    /// Where the agent looks for programs first.
    fn programs(&self) -> PathBuf {
        self.scratch.path().join("programs")
    }

    /// From now on `ip6tables` says its version and does nothing else, until
    /// [`mend_ip6tables`](Self::mend_ip6tables).
    pub(crate) fn break_ip6tables(&self, flavour: &str) {
        let name = format!("ip6tables-{flavour}-restore");
        let (folder, program) = (self.programs(), self.programs().join(&name));
        fs::create_dir_all(&folder).unwrap();
        let broken = self.broken().display().to_string();
        let check = format!("test -e {broken} && test \"$1\" != --version");
        let rest = format!("PATH=${{PATH#*:}} exec {name} \"$@\"");
        let script = format!("{check} && {{ echo no memory >&2; exit 4; }}\n{rest}");
        write_program(&program, &script).unwrap();
        fs::write(self.broken(), "").unwrap();
    }

    pub(crate) fn mend_ip6tables(&self) {
        fs::remove_file(self.broken()).unwrap();
    }

    /// A folder that hides all programs for legacy tables from who looks there first.
    pub(crate) fn without_legacy_programs(&self) -> PathBuf {
        let folder = self.programs();
        fs::create_dir_all(&folder).unwrap();
        for name in ["iptables-legacy-restore", "iptables-restore"] {
            let program = folder.join(name);
            write_program(&program, "echo 'iptables v1.8.9 (nf_tables)'").unwrap();
        }
        folder
    }

    fn broken(&self) -> PathBuf {
        self.scratch.path().join("broken")
    }

    /// Ends the agent as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            kill(Pid::from_raw(agent.id().cast_signed()), Signal::SIGTERM).unwrap();
            agent.wait().unwrap();
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// Waits until the agent has logged this.
    #[track_caller]
    pub(crate) fn until_logged(&self, text: &str) {
        let logged = || self.log().contains(text).then_some(());
        if eventually(SOON, logged).is_none() {
            panic!("no {text:?} in the log:\n{}", self.log());
        }
    }

    /// The same, with connections to the Service all the while, each of which is answered. Slower
    /// than hammers, for a machine that these would keep from its work.
    #[track_caller]
    pub(crate) fn answers_until_logged(&self, text: &str) {
        let logged = || {
            self.answers();
            self.log().contains(text).then_some(())
        };
        if eventually(SOON, logged).is_none() {
            panic!("no {text:?} in the log:\n{}", self.log());
        }
    }

    /// A new connection of each family is answered.
    #[track_caller]
    pub(crate) fn answers(&self) {
        for services in self.families() {
            let probe = Probe::tcp(SocketAddr::new(services.web, PORT)).timeout(PATIENT);
            let outcome = probe.from(self.shell());
            assert!(outcome.name().is_some(), "{outcome}: {}", self.log());
        }
    }

    /// A counter without labels, as the agent shows it.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.node().run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:10249").unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            page
        });
        let mut lines = page.lines().filter_map(|it| it.split_once(' '));
        let found = lines.find(|(it, _)| *it == name);
        found.unwrap_or_else(|| panic!("{page}")).1.parse().unwrap()
    }

    /// `sluice` with arguments on the node, run by somebody with this `PATH`.
    pub(crate) fn sluice(&self, arguments: &[&str], path: Option<&str>) -> Output {
        let socket = self.socket();
        self.node().run(|| {
            let mut command = Command::new(SLUICE);
            command.args(arguments).arg("--socket").arg(socket);
            path.iter().for_each(|it| {
                command.env("PATH", it);
            });
            command.output().unwrap()
        })
    }

    /// A command that asks the agent, on the node.
    pub(crate) fn question(&self, arguments: &[&str]) -> Command {
        let mut command = self.node().command(SLUICE, arguments);
        command.arg("--socket").arg(self.socket());
        command
    }

    pub(crate) fn sessions(&self) -> [Session; 2] {
        self.families().map(|it| {
            let target = SocketAddr::new(it.web, PORT);
            Session::connect(self.shell(), target).unwrap()
        })
    }

    pub(crate) fn hammers(&self) -> [Hammer; 2] {
        let hammers = self.families().map(|it| {
            let probe = Probe::tcp(SocketAddr::new(it.web, PORT)).timeout(PATIENT);
            Hammer::start(self.shell(), probe).unwrap()
        });
        more(&hammers, 30);
        hammers
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        // Pinned programs and maps would outlive the namespace.
        if self.used_ebpf {
            self.sluice(&["cleanup"], None);
        }
    }
}

/// Waits for this many further connections of each.
#[track_caller]
pub(crate) fn more(hammers: &[Hammer], count: u64) {
    for hammer in hammers {
        let until = hammer.attempts() + count;
        let reached = || (hammer.attempts() >= until).then_some(());
        eventually(SOON, reached).expect("connections go on");
    }
}

#[track_caller]
pub(crate) fn unhurt(hammers: impl IntoIterator<Item = Hammer>) {
    for hammer in hammers {
        let report = hammer.stop();
        assert!(report.failures.is_empty(), "{report}");
    }
}
