//! Starts the processes of a lab.
//!
//! ```text
//! sluice lab up ─▶ supervise: new namespaces, the API's port ─▶ init: process 1 ─▶ serve: all the work
//!                  (ends at once)                               (starts it again when it is killed)
//! ```
//!
//! Process 1 of a pid namespace takes all others with it, however it ends, and with them the mounts and network
//! namespaces: a lab leaves nothing but its folder. `serve` finds pods and agents as an earlier one left them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{getgid, getuid, setsid};

use sluice_reconcile::Waits;

use crate::host_resolver;
use crate::lab_dir::{LABS, LabDir};
use crate::process::Identity;

/// A server that ends sooner than this has failed to start.
const SHORT: Duration = Duration::from_secs(2);

/// Most failed starts in a row of a server that has never run: `sluice lab up` tells why.
const ATTEMPTS: u32 = 5;

/// First back-off after a failed start; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Variables that the lab's processes take over from `sluice lab up`: pods see these processes, and so their environment.
const KEPT: [&str; 9] = [
    LABS,
    "PATH",
    "HOME",
    "TZ",
    "TZDIR",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "RUST_BACKTRACE",
    "XTABLES_LIBDIR",
];

/// The program of a lab's processes: all are commands of `sluice lab`.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub path: &'a Path,
    pub lab_dir: &'a LabDir,
}

impl Program<'_> {
    /// The command `sluice lab WORD --name NAME`.
    #[must_use]
    pub fn command(&self, word: &str) -> Command {
        let mut command = Command::new(self.path);
        command.args(["lab", word, "--name", self.lab_dir.name()]);
        command.env(LABS, self.lab_dir.dir().parent().unwrap_or(Path::new("/")));
        command
    }

    /// Starts the lab's processes. They write to the lab's log, and outlive this process.
    ///
    /// # Errors
    ///
    /// The kernel refuses the namespaces: the message says what to do.
    pub fn launch(&self) -> anyhow::Result<()> {
        let log = log(self.lab_dir)?;
        let mut supervise = self.command("supervise");
        for (name, _) in std::env::vars_os() {
            if KEPT.iter().all(|it| name != *it) {
                supervise.env_remove(name);
            }
        }
        supervise.stdin(Stdio::null()).stdout(Stdio::null());
        let output = supervise.stderr(Stdio::piped()).output();
        let output = output.with_context(|| self.path.display().to_string())?;
        drop(log);
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().trim_start_matches("sluice: "))
    }

    /// Makes the namespaces and starts process 1 in them; `sluice lab supervise`.
    ///
    /// # Errors
    ///
    /// The kernel refuses, or the port is in use.
    pub fn supervise(&self) -> anyhow::Result<()> {
        let mut settings = self.lab_dir.settings()?;
        // A new session, so that Ctrl-C at the terminal of `up` does not reach the lab.
        setsid().context("make a session")?;
        // `up` blocks signals until then.
        SigSet::all().thread_unblock().context("unblock signals")?;
        // Bind before the namespaces change: the port is the machine's.
        let address = (Ipv4Addr::LOCALHOST, settings.port);
        // The port of a lab that was killed may be in use now: the lab gets another port and another kubeconfig.
        let listener = TcpListener::bind(address)
            .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .context("listen on 127.0.0.1")?;
        settings.port = listener.local_addr()?.port();
        self.lab_dir.write_settings(&settings)?;
        let resolver = settings.asks_host().then(host_resolver::connect);
        let resolver = resolver.transpose().context("--dns-upstream host")?;
        isolate(settings.unprivileged)?;
        let log = log(self.lab_dir)?;
        let out = match resolver {
            Some(socket) => OwnedFd::from(socket),
            None => log.try_clone()?.into(),
        };
        let init = self
            .command("init")
            .stdin(OwnedFd::from(listener))
            .stdout(out)
            .stderr(log)
            .spawn()
            .context("start the lab's first process")?;
        let identity = Identity::of(init.id()).context("the lab's first process ended at once")?;
        self.lab_dir.write_init(&identity)
    }

    /// Process 1 of the lab: restarts `serve` when it ends, and reaps orphans; `sluice lab init`. The lab ends when
    /// this returns. A lab that was served once is never given up: its disk may be full, and have room later.
    ///
    /// # Errors
    ///
    /// A mount is refused, or the first server fails to start several times in a row.
    pub fn init(&self) -> anyhow::Result<()> {
        prepare_mounts()?;
        let mut pauses = Waits::new(FIRST_PAUSE, LONGEST_PAUSE);
        let (mut attempts, mut has_served) = (0, false);
        while has_served || attempts < ATTEMPTS {
            let started = Instant::now();
            let listener = io::stdin().as_fd().try_clone_to_owned()?;
            let server = self.command("serve").stdin(listener).spawn();
            let server = server.context("start the lab's server")?.id();
            let status = reap_until(server)?;
            // The log may be on a full disk.
            let _ = writeln!(
                io::stderr(),
                "the lab's server ended ({status:?}), starting it again"
            );
            if started.elapsed() < SHORT {
                attempts += 1;
                #[expect(clippy::disallowed_methods, reason = "back-off")]
                thread::sleep(pauses.take());
            } else {
                (attempts, has_served) = (0, true);
                pauses.reset();
            }
        }
        bail!("the lab's server ended {ATTEMPTS} times after each other")
    }
}

fn log(lab_dir: &LabDir) -> anyhow::Result<File> {
    let path = lab_dir.log();
    let mut log = OpenOptions::new().create(true).append(true).open(&path);
    if let Ok(log) = &mut log {
        // The start goes on without the log.
        let _ = writeln!(log, "--- {}", jiff::Timestamp::now());
    }
    log.with_context(|| path.display().to_string())
}

/// Moves this process into new namespaces. Its next child is process 1 of a new pid namespace.
pub(crate) fn isolate(unprivileged: bool) -> anyhow::Result<()> {
    let (uid, gid) = (getuid(), getgid());
    // Process 1 makes the mounts private: `/proc` must stay the machine's here.
    let mut flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    if unprivileged {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).context(
        "the lab makes namespaces, which the kernel refuses here: run it as root, or allow user \
         namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
    )?;
    if unprivileged {
        let map = |file: &str, text: String| {
            fs::write(format!("/proc/self/{file}"), text).with_context(|| format!("write {file}"))
        };
        map("setgroups", "deny".to_owned())?;
        map("uid_map", format!("0 {uid} 1"))?;
        map("gid_map", format!("0 {gid} 1"))?;
    }
    Ok(())
}

/// Mounts `/proc` of the new pid namespace, and an empty `/run` for network namespaces, sockets and locks.
pub(crate) fn prepare_mounts() -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("make a mount namespace")?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("make the mounts private")?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), quiet, none).context("mount /proc")?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(
        Some("tmpfs"),
        "/run",
        Some("tmpfs"),
        quiet,
        Some("mode=755"),
    )
    .context("mount /run")?;
    fs::create_dir_all("/run/netns").context("make /run/netns")?;
    // Refused in a user namespace, where eBPF programs cannot be loaded either.
    let _ = mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), quiet, none);
    Ok(())
}

/// Reaps orphans until `server` ends.
fn reap_until(server: u32) -> anyhow::Result<WaitStatus> {
    loop {
        let status = wait().context("wait for processes")?;
        if status
            .pid()
            .is_some_and(|it| it.as_raw().cast_unsigned() == server)
        {
            return Ok(status);
        }
    }
}
