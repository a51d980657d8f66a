//! What `sluice cleanup` finds, leaves and puts back. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_dns_agent::local_dns::{DNS_PORT, LocalDns};
use sluice_lab::{Netns, eventually, require_netns};
use sluice_node::client;
use sluice_plan::settings::{LocalDetector, NodeDns};
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(20);

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

const LOCALNET: &str = "net.ipv4.conf.all.route_localnet";
const UDP: &str = "net.netfilter.nf_conntrack_udp_timeout";

/// A node, and the folder of its agent.
struct Node {
    netns: Netns,
    folder: TempDir,
}

impl Node {
    fn new() -> Self {
        let netns = Netns::new("cleanup").unwrap();
        let up = netns.command("ip", &["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        Self { netns, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> String {
        self.path("run/sluice.sock").display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.netns.command(SLUICE, arguments).output().unwrap()
    }

    /// Runs an agent in the iptables mode until it has set the sysctls, and more while `during` runs.
    #[track_caller]
    fn agent(&self, more: &[&str], during: impl FnOnce()) {
        let manifests = self.path("manifests").display().to_string();
        let socket = self.socket();
        let mut command = self
            .netns
            .command(SLUICE, &["proxy", "--proxy-mode=iptables"]);
        command.args(["--hostname-override=node-a", "--conntrack-max-per-core=0"]);
        command.args([
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ]);
        command.args(["--manifests", &manifests, "--socket", &socket]);
        let agent = Running(command.args(more).stderr(Stdio::null()).spawn().unwrap());
        let synced = || client::is_synced(socket.as_ref()).then_some(());
        eventually(WITHIN, synced).expect("it syncs");
        let set = || (self.sysctl(LOCALNET) == "1").then_some(());
        eventually(WITHIN, set).expect("the sysctl is set");
        during();
        agent.end();
    }

    /// What a cleanup prints that succeeds.
    #[track_caller]
    fn cleanup(&self, more: &[&str]) -> String {
        let socket = self.socket();
        let output = self.run(&[&["cleanup", "--socket", &socket], more].concat());
        let problem = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*problem), (Some(0), ""));
        String::from_utf8(output.stdout).unwrap()
    }

    fn sysctl(&self, name: &str) -> String {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let value = self.netns.run(|| fs::read_to_string(path).unwrap());
        value.trim().to_owned()
    }

    fn sysctls(&self) -> BTreeMap<&'static str, String> {
        let names = [LOCALNET, UDP].into_iter();
        names.map(|it| (it, self.sysctl(it))).collect()
    }
}

/// Killed when dropped.
struct Running(Child);

impl Running {
    fn end(mut self) {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_is_found_whatever_its_socket() {
    require_netns!();
    let node = Node::new();
    node.agent(&[], || {
        let elsewhere = node.path("elsewhere.sock").display().to_string();
        let commands = [&["cleanup", "--socket", &elsewhere][..], &["proxy", "--cleanup", "--socket", &elsewhere]];
        // Each waits five seconds for an agent that ends.
        let outputs = thread::scope(|scope| {
            let running = commands.map(|it| scope.spawn(|| node.run(it)));
            running.map(|it| it.join().unwrap())
        });
        for output in outputs {
            let problem = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{problem}");
            let expected = "sluice: stop the agent first, or it puts the rules back: another sluice is \
                            running in this network namespace";
            assert!(problem.starts_with(expected), "{problem}");
            assert_eq!(output.stdout, b"", "nothing is removed");
        }
    });
}

#[test]
fn sysctls_are_left_and_named_or_put_back() {
    require_netns!();
    let node = Node::new();
    let before = node.sysctls();
    node.agent(&["--conntrack-udp-timeout=47s"], || {});
    // The first old value counts.
    node.agent(&["--conntrack-udp-timeout=48s"], || {});
    let after = node.sysctls();
    assert_eq!([&*after[LOCALNET], &*after[UDP]], ["1", "48"]);
    let said = node.cleanup(&[]);
    let old = &before[UDP];
    for expected in [
        "iptables chains of table ip nat\n".to_owned(),
        "left chain KUBE-FIREWALL of table ip filter: the kubelet has the same rule".to_owned(),
        format!(
            "left sysctl {LOCALNET} = 1: --restore-sysctls sets it to 0, the value before Sluice\n"
        ),
        format!(
            "left sysctl {UDP} = 48: --restore-sysctls sets it to {old}, the value before Sluice\n"
        ),
    ] {
        assert!(said.contains(&expected), "no {expected:?} in\n{said}");
    }
    assert_eq!(node.sysctls(), after);

    node.netns.sysctl(UDP, "99").unwrap();
    let said = node.cleanup(&["--restore-sysctls"]);
    let restored = format!("restored sysctl {LOCALNET} = 0, which was 1\n");
    let foreign = format!("left sysctl {UDP} = 99: another program set it after the agent's 48\n");
    assert!(
        said.contains(&restored) && said.contains(&foreign),
        "{said}"
    );
    assert_eq!(node.sysctl(LOCALNET), "0");
    let file = node.path("run/sluice.sysctls");
    assert!(!file.exists());
    let said = node.cleanup(&["--restore-sysctls"]);
    let expected = format!("left all sysctls: {}, where", file.display());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn cleanup_names_the_rules_of_a_kube_proxy_and_removes_them_on_request() {
    require_netns!();
    let node = Node::new();
    let batch = "add table ip kube-proxy\n\
                 add table ip nat\nadd chain ip nat KUBE-SERVICES\n\
                 add table ip6 mangle\nadd chain ip6 mangle KUBE-KUBELET-CANARY\n\
                 add chain ip6 mangle KUBE-PROXY-CANARY\n";
    let rules = node.path("rules");
    fs::write(&rules, batch).unwrap();
    let path = rules.display().to_string();
    assert!(
        node.netns
            .command("nft", &["-f", &path])
            .status()
            .unwrap()
            .success()
    );
    node.netns.sysctl(LOCALNET, "1").unwrap();
    let said = node.cleanup(&[]);
    let expected = "left table ip kube-proxy: it is kube-proxy's; --kube-proxy removes it
left chain KUBE-KUBELET-CANARY of table ip6 mangle: it is the kubelet's
left chains of kube-proxy of table ip nat, ip6 mangle: nothing shows that Sluice made them; --kube-proxy removes them
left sysctl net.ipv4.conf.all.route_localnet = 1: nothing shows that Sluice set it; the kubelet and kube-proxy do so, too
";
    assert_eq!(said, expected);
    let said = node.cleanup(&["--kube-proxy"]);
    assert!(
        !said.contains("left table ip kube-proxy") && !said.contains("left chains"),
        "{said}"
    );
    assert!(said.contains("left chain KUBE-KUBELET-CANARY"), "{said}");
}

#[test]
fn a_file_that_no_agent_wrote_is_named_and_the_rules_go() {
    require_netns!();
    let node = Node::new();
    node.agent(&[], || {});
    let file = node.path("run/sluice.sysctls");
    fs::write(&file, "/etc/passwd 0 1\n").unwrap();
    for more in [&[][..], &["--restore-sysctls"]] {
        let socket = node.socket();
        let output = node.run(&[&["cleanup", "--socket", &socket], more].concat());
        let problem = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{problem}");
        let expected = format!(
            "sluice: {}: line 1: expected the path of a sysctl",
            file.display()
        );
        assert!(problem.starts_with(&expected), "{problem}");
    }
    assert!(file.exists());
    let rules = node
        .netns
        .command("nft", &["list", "ruleset"])
        .output()
        .unwrap();
    let rules = String::from_utf8(rules.stdout).unwrap();
    assert!(!rules.contains("KUBE-SERVICES"), "{rules}");
}

/// The init container or `ExecStartPre=` sets the sysctls as root, and the agent is another user.
#[test]
fn what_init_only_changed_is_put_back() {
    require_netns!();
    let node = Node::new();
    let before = node.sysctls();
    let socket = node.socket();
    let flags = [
        "proxy",
        "--init-only",
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
    ];
    let udp = ["--conntrack-udp-timeout=47s", "--socket", &socket];
    let output = node.run(&[&flags[..], &udp].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(node.sysctl(UDP), "47");
    let said = node.cleanup(&["--restore-sysctls"]);
    assert_eq!(said.matches("restored sysctl").count(), 4, "{said}");
    assert_eq!(node.sysctls(), before);
}

/// They stay when the agent ends: pods go on asking there.
#[test]
fn addresses_of_the_dns_server_are_removed_and_others_stay() {
    require_netns!();
    let node = Node::new();
    let dns = NodeDns::usual();
    node.netns.run(|| {
        drop(LocalDns::open(&dns, &LocalDetector::None, DNS_PORT).unwrap());
    });
    let other = ["address", "add", "192.0.2.1/32", "dev", "lo"];
    let added = node.netns.command("ip", &other).status().unwrap();
    assert!(added.success());
    let socket = node.socket();
    let output = node.run(&["cleanup", "--socket", &socket]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    for address in dns.served() {
        let line = format!("removed address {address} of the DNS server on lo\n");
        assert!(said.contains(&line), "{said}");
    }
    let left = node
        .netns
        .run(|| sluice_node::node::addresses("kube-ipvs0").unwrap());
    let expected = ["127.0.0.1", "192.0.2.1", "::1"].map(|it| it.parse().unwrap());
    assert_eq!(left, expected.into_iter().collect());
}
