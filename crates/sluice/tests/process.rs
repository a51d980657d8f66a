//! What the agent's process and the programs that it starts may do. Needs root.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_agent::status::Status;
use sluice_lab::{Netns, eventually, require_netns, write_program};
use sluice_node::client;
use tempfile::TempDir;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(20);

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

const NONE: &str = "0000000000000000";
/// `CAP_NET_ADMIN` and `CAP_NET_RAW`.
const FOR_IPTABLES: u64 = 0x3000;

/// An ordinary user.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
/// The capabilities that a service manager gives.
const AMBIENT: [&str; 2] = [
    "--inh-caps=+net_admin,+net_raw",
    "--ambient-caps=+net_admin,+net_raw",
];

/// A network namespace, and a folder that everybody can read and write.
struct Machine {
    netns: Netns,
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let netns = Netns::new("node").unwrap();
        let up = netns.command("ip", &["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        // For those who may not look into the folder of the one who builds.
        fs::copy(SLUICE, folder.path().join("sluice")).unwrap();
        Self { netns, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sluice by `setpriv` with these options.
    fn sluice(&self, privileges: &[&str]) -> Command {
        let mut command = self.netns.command("setpriv", privileges);
        command.arg("--").arg(self.path("sluice"));
        command
    }

    /// An agent in the iptables mode, with a PATH of stand-ins and a kubeconfig with a plugin.
    fn agent(&self, privileges: &[&str]) -> Command {
        let mut command = self.sluice(privileges);
        command.args([
            "proxy",
            "--hostname-override=node-a",
            "--proxy-mode=iptables",
        ]);
        // What takes root.
        command.args([
            "--iptables-localhost-nodeports=false",
            "--conntrack-max-per-core=0",
        ]);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command.arg("--socket").arg(self.path("run/sluice.sock"));
        command.env("PATH", self.iptables());
        command
    }

    /// A program that writes its own `/proc/PID/status` to the file of this name first.
    fn program(&self, path: &str, record: &str, shell: &str) {
        let record = self.path(record);
        let record = record.display();
        let shell = format!(
            "cat /proc/$$/status >{record}.$$ && mv {record}.$$ {record} 2>/dev/null\n{shell}"
        );
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        write_program(&self.path(path), &shell).unwrap();
    }

    /// Stand-ins of the iptables programs that record their privileges; their PATH.
    fn iptables(&self) -> String {
        for program in ["iptables", "ip6tables"] {
            for verb in ["save", "restore"] {
                let name = format!("{program}-nft-{verb}");
                let run = format!("exec /usr/sbin/{name} \"$@\"");
                self.program(&format!("bin/{name}"), "iptables", &run);
            }
        }
        format!("{}:/usr/sbin:/usr/bin:/bin", self.path("bin").display())
    }

    /// A kubeconfig of a server that nobody answers for, with a plugin that records its privileges.
    fn kubeconfig(&self) -> PathBuf {
        let credential = "{\"apiVersion\": \"client.authentication.k8s.io/v1\", \
                          \"kind\": \"ExecCredential\", \"status\": {\"token\": \"t\"}}";
        self.program("get-token", "plugin", &format!("echo '{credential}'"));
        let text = "
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: robot}}]
clusters: [{name: here, cluster: {server: 'http://127.0.0.1:1'}}]
users:
- name: robot
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./get-token, interactiveMode: Never}
";
        let path = self.path("kubeconfig");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// What a program recorded, by name; waits for it.
    #[track_caller]
    fn recorded(&self, record: &str) -> BTreeMap<String, String> {
        let text = eventually(WITHIN, || fs::read_to_string(self.path(record)).ok());
        let text = text.unwrap_or_else(|| panic!("{record} was not run"));
        let fields = text.lines().filter_map(|it| it.split_once(":\t"));
        fields.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }
}

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whoever asks what the agent does, and whoever ends it, does not wait for a program.
#[test]
fn a_program_that_hangs_holds_up_neither_answers_nor_the_end() {
    require_netns!();
    let machine = Machine::new();
    let path = machine.iptables();
    let hang = machine.path("hang");
    for program in ["iptables", "ip6tables"] {
        let name = format!("{program}-nft-restore");
        let hang = format!("[ -e {} ] && exec sleep 1000", hang.display());
        let run = format!("{hang}\nexec /usr/sbin/{name} \"$@\"");
        machine.program(&format!("bin/{name}"), "iptables", &run);
    }
    let manifests = machine.path("manifests");
    fs::create_dir(&manifests).unwrap();
    let add = |name: &str, ip: &str| {
        let service = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: default}}, \
             spec: {{clusterIP: {ip}, ports: [{{port: 80}}]}}}}"
        );
        fs::write(manifests.join(format!("{name}.yaml")), service).unwrap();
    };
    add("web", "10.96.0.10");
    let socket = machine.path("run/sluice.sock");
    let mut command = machine.sluice(&[]);
    command.args([
        "proxy",
        "--hostname-override=node-a",
        "--proxy-mode=iptables",
    ]);
    command.arg("--iptables-localhost-nodeports=false");
    command.arg("--manifests").arg(&manifests);
    command.arg("--socket").arg(&socket).env("PATH", path);
    let mut agent = Running(command.spawn().unwrap());
    let synced = eventually(WITHIN, || client::is_synced(&socket).then_some(()));
    assert_eq!(synced, Some(()));
    fs::write(&hang, "").unwrap();
    add("other", "10.96.0.11");
    let status = || client::get::<Status>(&socket, "/status").ok();
    let busy = eventually(WITHIN, || status().filter(|it| it.agent.busy.is_some()));
    let busy = busy.expect("it says what it waits for");
    let what = busy.agent.busy.clone().unwrap_or_default();
    assert!(what.contains("tables-nft-restore --noflush"), "{what}");
    assert!(!busy.synced);
    kill(Pid::from_raw(agent.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    let ended = eventually(WITHIN, || agent.0.try_wait().unwrap());
    assert_eq!(ended.and_then(|it| it.code()), Some(0));
}

#[test]
fn plugins_have_no_capability_and_the_iptables_programs_have_theirs() {
    require_netns!();
    let service = [&NOBODY[..], &AMBIENT[..]].concat();
    for privileges in [&[][..], &service] {
        let machine = Machine::new();
        let _agent = Running(machine.agent(privileges).spawn().unwrap());
        let plugin = machine.recorded("plugin");
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(plugin[set], NONE, "{set}: {plugin:#?}");
        }
        let programs = machine.recorded("iptables");
        let has = u64::from_str_radix(&programs["CapEff"], 16).unwrap();
        assert_eq!(has & FOR_IPTABLES, FOR_IPTABLES, "{programs:#?}");
    }
}

/// The programs of PATH and the plugin would be run, as the test above shows.
#[test]
fn with_capabilities_of_its_file_it_runs_nothing_of_its_starter() {
    require_netns!();
    let machine = Machine::new();
    let mut setcap = Command::new("setcap");
    setcap.arg("cap_net_admin+ep").arg(machine.path("sluice"));
    assert!(setcap.status().unwrap().success());
    let output = machine.agent(&NOBODY).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("user \"robot\" names a program for its credentials"),
        "{errors}"
    );
    for record in ["iptables", "plugin"] {
        assert!(!machine.path(record).exists(), "{record} was run");
    }
}

/// A Service of this name.
fn service(name: &str, cluster_ip: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default}}
spec: {{clusterIP: {cluster_ip}, ports: [{{port: 80}}]}}
"
    )
}

/// An agent with a folder, and its log.
struct Agent {
    process: Running,
    machine: Machine,
}

impl Agent {
    fn start(sandbox: &str, elsewhere: &Path) -> Self {
        let machine = Machine::new();
        let manifests = machine.path("manifests");
        fs::create_dir(&manifests).unwrap();
        fs::write(elsewhere.join("early.yaml"), service("early", "10.96.0.1")).unwrap();
        symlink(elsewhere.join("early.yaml"), manifests.join("early.yaml")).unwrap();
        let mut command = machine.sluice(&[]);
        command.args(["proxy", "--hostname-override=node-a", sandbox]);
        command.arg("--manifests").arg(manifests);
        command.arg("--socket").arg(machine.path("run/sluice.sock"));
        let log = fs::File::create(machine.path("log")).unwrap();
        command.stderr(log.try_clone().unwrap()).stdout(log);
        let process = Running(command.stdin(Stdio::null()).spawn().unwrap());
        Self { process, machine }
    }

    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) {
        let socket = self.machine.path("run/sluice.sock");
        let mut last = None;
        let found = eventually(WITHIN, || {
            last = client::get::<Status>(&socket, "/status").ok();
            last.clone().filter(|it| wanted(it))
        });
        assert!(found.is_some(), "{what}: {last:#?}, {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.machine.path("log")).unwrap()
    }
}

#[test]
fn the_sandbox_leaves_manifests_wherever_they_are() {
    require_netns!();
    let (elsewhere, later) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let late = later.path().join("late.yaml");
    fs::write(&late, service("late", "10.96.0.2")).unwrap();
    for is_on in [true, false] {
        let flag = if is_on {
            "--sandbox=auto"
        } else {
            "--sandbox=off"
        };
        let agent = Agent::start(flag, elsewhere.path());
        agent.until("early", |it| it.synced && it.services == 1);
        let link = agent.machine.path("manifests/late.yaml");
        symlink(&late, link).unwrap();
        let status = format!("/proc/{}/status", agent.process.0.id());
        let status = fs::read_to_string(status).unwrap();
        assert_eq!(status.contains("Seccomp:\t2"), is_on, "{status}");
        agent.until("late", |it| it.services == 2);
        let manifests = agent.machine.path("manifests");
        fs::remove_dir_all(&manifests).unwrap();
        fs::create_dir(&manifests).unwrap();
        fs::write(manifests.join("b.yaml"), service("new", "10.96.0.3")).unwrap();
        agent.until("new", |it| it.services == 1 && it.problems.is_empty());
        // What cleans /run takes the socket and its lock, too.
        for file in ["run/sluice.sock", "run/sluice.lock"] {
            fs::remove_file(agent.machine.path(file)).unwrap();
        }
        agent.until("made again", |it| it.synced);
        let lock = agent.machine.path("run/sluice.lock");
        let pid = fs::read_to_string(lock).unwrap();
        assert_eq!(pid.trim(), agent.process.0.id().to_string());
        let log = agent.log();
        assert_eq!(log.contains("sandboxed"), is_on, "{log}");
        assert!(
            log.contains("the status socket or its lock was removed"),
            "{log}"
        );
    }
}

/// Without room for lock and socket the rules come all the same, and the socket as soon as there is room.
#[test]
fn rules_do_not_wait_for_room_in_run() {
    require_netns!();
    let agents = [("ro", "rw"), ("nr_inodes=1", "nr_inodes=100")].map(|(none, some)| {
        let machine = Machine::new();
        let (manifests, run) = (machine.path("manifests"), machine.path("run"));
        fs::create_dir(&manifests).unwrap();
        fs::create_dir(&run).unwrap();
        fs::write(manifests.join("web.yaml"), service("web", "10.96.0.10")).unwrap();
        let mount = format!("mount -t tmpfs -o {none},mode=755 none {}", run.display());
        let script = format!("{mount} && exec \"$0\" \"$@\"");
        let mut command = machine.netns.command("unshare", &["--mount", "sh", "-ec"]);
        command.arg(script).arg(machine.path("sluice"));
        command.args(["proxy", "--hostname-override=node-a"]);
        command.arg("--manifests").arg(manifests);
        command.arg("--socket").arg(run.join("sluice.sock"));
        let log = fs::File::create(machine.path("log")).unwrap();
        command.stderr(log.try_clone().unwrap()).stdout(log);
        let process = Running(command.stdin(Stdio::null()).spawn().unwrap());
        (Agent { process, machine }, some)
    });
    for (agent, some) in &agents {
        let written = eventually(WITHIN, || {
            let mut list = agent.machine.netns.command("nft", &["list", "ruleset"]);
            let rules = String::from_utf8(list.output().unwrap().stdout).unwrap();
            rules.contains("10.96.0.10").then_some(())
        });
        let log = agent.log();
        assert_eq!(written, Some(()), "{log}");
        assert!(log.contains("sluice.sock: cannot be made: "), "{log}");
        let pid = agent.process.0.id().to_string();
        let mut remount = Command::new("nsenter");
        remount.args(["-t", &pid, "-m", "mount", "-o"]);
        remount
            .arg(format!("remount,{some}"))
            .arg(agent.machine.path("run"));
        assert!(remount.status().unwrap().success());
    }
    for (agent, _) in agents {
        let run = agent.machine.path("run/sluice.sock");
        let socket = format!("/proc/{}/root{}", agent.process.0.id(), run.display());
        let socket = Path::new(&socket);
        let status = eventually(WITHIN, || {
            let status = client::get::<Status>(socket, "/status").ok();
            status.filter(|it| it.problems.is_empty())
        });
        assert!(status.is_some(), "{}", agent.log());
        assert!(socket.with_extension("lock").exists());
    }
}
