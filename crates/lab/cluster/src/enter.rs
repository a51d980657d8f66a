//! Enters the namespaces of a lab, and of a machine in it.

mod confined;
mod mounts;
mod pids;
mod root;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{chroot, fchdir, sethostname, setsid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use pids::Pids;

use crate::entry::{Confined, Entry, Mount};
use crate::images;
use crate::lab_dir::LabDir;
use crate::launch::Program;
use crate::names::{machine_of_pod, netns_name};
use crate::process::Identity;
use crate::record::Record;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The command of [`Inside::become_program`].
const WORD: &str = "inside";

/// Timeout of the start of a container whose mounts are entered.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a process in a machine sees: its network namespace, hostname, `/run/sluice`, `/etc/resolv.conf` and volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// The name of the network namespace.
    pub netns: String,
    pub hostname: String,
    /// The folder that is mounted at `/run/sluice`, for the agent's socket and locks.
    pub run: Option<PathBuf>,
    /// The file that is mounted at `/etc/resolv.conf`; `None` leaves that of this machine.
    pub resolv_conf: Option<PathBuf>,
    pub mounts: Vec<Mount>,
    /// A root and processes of its own; `None` sees those of the lab.
    pub confined: Option<Confined>,
    /// A process of the container. While it runs, its mounts count: a file that was mounted may be gone since.
    pub process: Option<Identity>,
    /// Where programs are searched; `None`: where this process does.
    pub path: Option<String>,
    /// The terminal that the program controls, as the leader of a session; it is its standard input already.
    pub terminal: Option<PathBuf>,
    /// Whether the program is killed when the thread that started it ends.
    pub ends_with_parent: bool,
}

impl Inside {
    /// What a container of a pod sees, and the variables of its environment; `process` is the one that runs.
    #[must_use]
    pub fn of_container(
        lab_dir: &LabDir,
        pod: &Value,
        container: &str,
    ) -> (Self, Vec<(String, String)>) {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let name = text(&pod["metadata"]["name"]);
        let uid = text(&pod["metadata"]["uid"]);
        let of_host = pod["spec"]["hostNetwork"] == true;
        let node = pod["spec"]["nodeName"].as_str().filter(|_| of_host);
        let machine = node.map_or_else(|| machine_of_pod(&name, &uid), str::to_owned);
        let entry = lab_dir.inside(&uid, container);
        let path = images::path_of(&entry, image_of(pod, container));
        let hostname = hostname(node, pod["spec"]["hostname"].as_str(), &name);
        let Entry {
            mounts,
            variables,
            confined,
        } = entry;
        let inside = Self {
            netns: netns_name(&machine),
            hostname,
            resolv_conf: Some(lab_dir.resolv_conf(&uid)),
            mounts,
            confined,
            process: Record::process(lab_dir, &uid, container),
            path: Some(path),
            ..Self::default()
        };
        (inside, variables)
    }

    /// The command line that runs `program` in the machine. For a process of the lab.
    #[must_use]
    pub fn command(&self, lab: Program<'_>, program: &Path) -> Command {
        let mut command = lab.command(WORD);
        let machine = serde_json::to_string(self).expect("names and paths become JSON");
        command.arg(machine).arg("--").arg(program);
        command
    }

    /// Gives a command in a container the environment that a container runtime gives it: `variables` are the Pod's. Nothing
    /// of this process's own is in it, which whoever started the lab has set.
    pub fn set_environment(
        &self,
        command: &mut Command,
        variables: &[(String, String)],
        has_terminal: bool,
    ) {
        let is_root = self.confined.as_ref().is_none_or(|it| it.user == 0);
        command.env_clear();
        command.env("HOME", if is_root { "/root" } else { "/" });
        command.env("HOSTNAME", &self.hostname);
        if has_terminal {
            command.env("TERM", "xterm");
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        // The Pod's own is in it.
        command.env("PATH", self.path.as_deref().unwrap_or(images::DEFAULT));
    }

    /// Replaces this process by `program` in the machine; `sluice lab inside`. Returns only on failure.
    ///
    /// # Errors
    ///
    /// The machine is gone, or the program cannot be run.
    pub fn become_program(&self, program: &[String]) -> anyhow::Error {
        let Err(error) = self.become_or_fail(program) else {
            return anyhow::anyhow!("no program");
        };
        error
    }

    fn become_or_fail(&self, program: &[String]) -> anyhow::Result<()> {
        if self.ends_with_parent {
            set_pdeathsig(Signal::SIGKILL).context("follow the parent")?;
        }
        if let Some(terminal) = &self.terminal {
            setsid().context("make a session")?;
            // The first terminal that the leader of a session opens is the one that it controls.
            let opened = File::options().read(true).write(true).open(terminal);
            opened.with_context(|| terminal.display().to_string())?;
        }
        let path = Path::new("/run/netns").join(&self.netns);
        let netns = File::open(&path).with_context(|| path.display().to_string())?;
        setns(&netns, CloneFlags::CLONE_NEWNET).context("enter the network namespace")?;
        let process = self.process.as_ref().filter(|it| it.is_running());
        if !process.map_or(Ok(false), follow)? {
            self.make_mounts()?;
        }
        if let Some(confined) = &self.confined {
            let users = sluice_lab::owner(&netns).context("find the users of the network")?;
            confined.become_user(&users)?;
        }
        if self.ends_with_parent {
            // The kernel forgets it where the user changes.
            set_pdeathsig(Signal::SIGKILL).context("follow the parent")?;
        }
        let Some((name, arguments)) = program.split_first() else {
            bail!("name a program after --");
        };
        let of_this_process = || {
            let path = std::env::var("PATH").ok().filter(|it| !it.is_empty());
            images::path("", path.as_deref(), &images::of_sluice())
        };
        let path = self.path.clone().unwrap_or_else(of_this_process);
        sluice_lab::default_signals().context("reset signals")?;
        let error = Command::new(name).args(arguments).env("PATH", path).exec();
        Err(error).with_context(|| name.clone())
    }

    fn make_mounts(&self) -> anyhow::Result<()> {
        let flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC;
        unshare(flags).context("make a mount namespace")?;
        sethostname(&self.hostname).context("set the host name")?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .context("make the mounts private")?;
        if let Some(confined) = &self.confined {
            return root::make(self, confined);
        }
        if let Some(run) = &self.run {
            fs::create_dir_all("/run/sluice").context("/run/sluice")?;
            mount(Some(run), "/run/sluice", none, MsFlags::MS_BIND, none)
                .with_context(|| format!("mount {} at /run/sluice", run.display()))?;
        }
        if let Some(file) = &self.resolv_conf {
            // `/etc/resolv.conf` is often a symbolic link, and one to `/run` leads nowhere in a lab.
            if let Ok(target) = fs::canonicalize(RESOLV_CONF) {
                mount(Some(file), &target, none, MsFlags::MS_BIND, none)
                    .with_context(|| format!("mount {} at {RESOLV_CONF}", file.display()))?;
            }
        }
        mounts::make(&self.mounts, Vec::new())
    }
}

/// Waits until a process of [`Inside::command`] has made the root and the mounts of its program. Blocks.
pub(crate) fn wait_for_mounts(process: &Identity) -> anyhow::Result<()> {
    let is_made = || (!is_entering(process)).then_some(());
    let made = sluice_lab::eventually(PATIENCE, is_made);
    made.context("the container does not start")
}

/// Enters the mounts and the host name of another process in a machine. Returns `false` when that process has made none yet.
fn follow(process: &Identity) -> anyhow::Result<bool> {
    let open = |pid: &str, kind: &str| {
        let path = format!("/proc/{pid}/ns/{kind}");
        File::open(&path).with_context(|| path.clone())
    };
    let pid = process.pid().to_string();
    wait_for_mounts(process)?;
    let (names, mounts) = (open(&pid, "uts")?, open(&pid, "mnt")?);
    let ipc = open(&pid, "ipc")?;
    if mounts.metadata()?.ino() == open("self", "mnt")?.metadata()?.ino() {
        return Ok(false);
    }
    setns(names, CloneFlags::CLONE_NEWUTS).context("enter the host name")?;
    setns(ipc, CloneFlags::CLONE_NEWIPC).context("enter the shared memory")?;
    setns(mounts, CloneFlags::CLONE_NEWNS).context("enter the mounts")?;
    Ok(true)
}

/// Whether a process still makes what it will see.
fn is_entering(process: &Identity) -> bool {
    let words = fs::read(format!("/proc/{}/cmdline", process.pid())).unwrap_or_default();
    if words.is_empty() {
        // For a moment of execve(2) a process has none; one that has ended has none any more.
        return process.is_running();
    }
    let mut words = words.split(|it| *it == 0).skip(1);
    words.next() == Some(b"lab") && words.next() == Some(WORD.as_bytes())
}

/// The hostname of a pod: that of its `node` if it has its network, or the one that it asks for, or its name.
pub(crate) fn hostname(node: Option<&str>, named: Option<&str>, pod: &str) -> String {
    let named = named.filter(|it| !it.is_empty());
    let name = node.or(named).unwrap_or(pod);
    // The kernel's limit.
    name.chars().take(63).collect()
}

/// The image of a container of any kind.
fn image_of<'a>(pod: &'a Value, container: &str) -> &'a str {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let all = lists.iter().filter_map(|it| pod["spec"][*it].as_array());
    let found = all.flatten().find(|it| it["name"] == container);
    found
        .and_then(|it| it["image"].as_str())
        .unwrap_or_default()
}

/// Runs the command of a machine in the lab's namespaces from outside, on this process's terminal. This process stays in the lab's
/// namespaces.
///
/// # Errors
///
/// The lab does not run, or belongs to another user.
pub fn run(lab_dir: &LabDir, inside: &Inside, command: &mut Command) -> anyhow::Result<ExitStatus> {
    join(lab_dir)?;
    Pids::of(inside)
        .enter()
        .context("enter the processes of the container")?;
    let name = command.get_program().display().to_string();
    let mut child = command.spawn().with_context(|| name.clone())?;
    // Ctrl-C at the terminal goes to the command.
    let mut terminal = SigSet::empty();
    terminal.add(Signal::SIGINT);
    terminal.add(Signal::SIGQUIT);
    terminal.thread_block().context("block signals")?;
    child.wait().context(name)
}

/// Moves this process into the namespaces of a lab; its children are processes of the lab.
///
/// # Errors
///
/// The lab does not run, or belongs to another user.
pub fn join(lab_dir: &LabDir) -> anyhow::Result<()> {
    let unprivileged = lab_dir.settings()?.unprivileged;
    let init = lab_dir.running()?;
    let mut kinds = vec![
        ("pid", CloneFlags::CLONE_NEWPID),
        ("net", CloneFlags::CLONE_NEWNET),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ];
    if unprivileged {
        kinds.insert(0, ("user", CloneFlags::CLONE_NEWUSER));
    }
    // Open all files first: after the mount namespace is entered, `/proc` is that of the lab.
    let mut files = Vec::new();
    for (name, kind) in kinds {
        let path = format!("/proc/{init}/ns/{name}");
        let file = File::open(&path);
        files.push((
            file.with_context(|| format!("enter the lab: {path}"))?,
            kind,
        ));
    }
    let root = format!("/proc/{init}/root");
    let root = File::open(&root).with_context(|| format!("enter the lab: {root}"))?;
    for (file, kind) in files {
        setns(file, kind).context("enter the lab's namespaces")?;
    }
    // Set the root to that of the mount namespace: a process under chroot(2) would keep another one.
    fchdir(&root)
        .and_then(|()| chroot("."))
        .context("enter the lab's root")
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_container_sees_nothing_of_who_started_the_lab() {
        let inside = Inside {
            hostname: "web-0".to_owned(),
            path: Some("/a:/b".to_owned()),
            ..Inside::default()
        };
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let seen = |variables: &[(String, String)], has_terminal: bool| {
            // The tests' own environment is not empty.
            assert!(std::env::vars_os().count() > 0);
            let mut command = Command::new("/usr/bin/env");
            command.env("MARK", "1");
            inside.set_environment(&mut command, variables, has_terminal);
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines.join(" ")
        };
        assert_eq!(seen(&[], false), "HOME=/root HOSTNAME=web-0 PATH=/a:/b");
        assert_eq!(
            seen(&[own("A", "b"), own("HOME", "/x"), own("PATH", "/b")], true),
            "A=b HOME=/x HOSTNAME=web-0 PATH=/a:/b TERM=xterm"
        );
    }

    #[test]
    fn a_process_is_entering_until_it_becomes_its_program() {
        let dir = tempfile::tempdir().unwrap();
        // What `/proc` shows of it are the words of `sluice lab inside`.
        fs::write(dir.path().join("lab"), "read it; exec sleep 60").unwrap();
        let mut bash = Command::new("bash");
        let bash = bash.args(["lab", WORD]).current_dir(&dir);
        let mut child = bash.stdin(Stdio::piped()).spawn().unwrap();
        let process = Identity::of(child.id()).unwrap();
        assert!(is_entering(&process));
        drop(child.stdin.take());
        wait_for_mounts(&process).unwrap();
        let program = fs::read_link(format!("/proc/{}/exe", process.pid()));
        assert!(program.unwrap().ends_with("sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
