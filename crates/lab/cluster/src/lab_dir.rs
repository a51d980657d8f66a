//! The folder of a lab: everything that outlives its processes.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ipnet::IpNet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use serde::{Deserialize, Serialize};
use sluice_lab::{PodNetwork, SERVICE_CIDR_V4, SERVICE_CIDR_V6};
use sluice_model::IpFamily;

use crate::entry::Entry;
use crate::images::StandIns;
use crate::log_file;
use crate::process::Identity;

/// The file in a pod's folder that is its `/etc/resolv.conf`.
pub(crate) const RESOLV_CONF: &str = "resolv.conf";

/// The variable with the folder of all labs, for the lab's own processes: in a user namespace everybody is root.
pub(crate) const LABS: &str = "SLUICE_LABS";

/// The folder of this user's labs.
///
/// `$SLUICE_LABS` if set. root: `/var/lib/sluice/labs`; others: `$XDG_STATE_HOME/sluice/labs`, by default below `~/.local/state`.
///
/// # Errors
///
/// Neither `HOME` nor `XDG_STATE_HOME` is set.
pub fn labs() -> anyhow::Result<PathBuf> {
    if let Some(labs) = std::env::var_os(LABS) {
        return Ok(labs.into());
    }
    if getuid().is_root() {
        return Ok("/var/lib/sluice/labs".into());
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let state = state.filter(|it| it.is_absolute()).or_else(home);
    let state = state.context("set HOME or XDG_STATE_HOME: labs are kept below it")?;
    Ok(state.join("sluice/labs"))
}

/// The settings of a lab, fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The mode of nodes without the annotation.
    pub mode: String,
    /// How packets between pods of different nodes travel: `host-gw` or `vxlan`.
    pub network: String,
    /// The families of Services, the primary one first: `IPv4`, `IPv6`, `IPv4,IPv6` or `IPv6,IPv4`.
    #[serde(default = "both_families")]
    pub ip_families: String,
    /// Whether the lab runs in a user namespace, without privileges outside.
    pub unprivileged: bool,
    /// The port of the API on 127.0.0.1.
    pub port: u16,
    /// Who runs the agents of the nodes: `lab`, or `none` where pods are the agents.
    #[serde(default = "of_lab")]
    pub agent: String,
    /// Who answers names outside the cluster: `none` refuses them, `host` is the machine's own resolver.
    #[serde(default = "nobody")]
    pub dns_upstream: String,
    /// The programs in the place of images.
    #[serde(default)]
    pub images: StandIns,
}

fn of_lab() -> String {
    "lab".to_owned()
}

impl Settings {
    /// Whether the lab runs an agent on each node.
    #[must_use]
    pub fn has_agents(&self) -> bool {
        self.agent != "none"
    }

    /// Whether the machine's own resolver answers names outside the cluster.
    #[must_use]
    pub fn asks_host(&self) -> bool {
        self.dns_upstream == "host"
    }

    /// [`network`](Self::network) as a value.
    #[must_use]
    pub fn pod_network(&self) -> PodNetwork {
        match self.network.as_str() {
            "vxlan" => PodNetwork::Vxlan,
            _ => PodNetwork::HostGw,
        }
    }

    /// The family whose addresses come first.
    #[must_use]
    pub fn primary_family(&self) -> IpFamily {
        if self.ip_families.starts_with("IPv6") {
            IpFamily::V6
        } else {
            IpFamily::V4
        }
    }

    /// The ranges of ClusterIPs, that of the primary family first.
    #[must_use]
    pub fn service_cidrs(&self) -> Vec<IpNet> {
        let families = self.ip_families.split(',');
        let cidrs = families.map(|it| match it {
            "IPv6" => SERVICE_CIDR_V6.into(),
            _ => SERVICE_CIDR_V4.into(),
        });
        cidrs.collect()
    }
}

/// The file with what each container of a pod sees of its own.
pub(crate) const INSIDE: &str = "inside.json";

/// Whether a disk or a quota is full.
fn no_room(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&error.kind())
}

/// The default of `--dns-upstream`.
#[must_use]
pub fn nobody() -> String {
    "none".to_owned()
}

/// The default of `--ip-families`, and what labs had before there was a choice.
#[must_use]
pub fn both_families() -> String {
    "IPv4,IPv6".to_owned()
}

/// The folder of one lab.
#[derive(Clone, Debug)]
pub struct LabDir {
    name: String,
    dir: PathBuf,
}

impl LabDir {
    /// The folder of the lab `name`, which may not exist.
    ///
    /// # Errors
    ///
    /// The name cannot be that of a folder and of a kubeconfig context.
    pub fn of(name: &str) -> anyhow::Result<Self> {
        let allowed = |it: u8| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if name.is_empty() || name.len() > 40 || !name.bytes().all(allowed) {
            bail!("--name {name}: 1 to 40 of a-z, 0-9 and -");
        }
        Ok(Self {
            name: name.to_owned(),
            dir: labs()?.join(name),
        })
    }

    /// The folders of all labs, sorted by name.
    ///
    /// # Errors
    ///
    /// The folder of labs cannot be read.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let labs = labs()?;
        let entries = match fs::read_dir(&labs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| labs.display().to_string())?,
        };
        let names = entries
            .flatten()
            .filter_map(|it| it.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names.iter().filter_map(|it| Self::of(it).ok()).collect())
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the lab's disk has no room, so that every write of the API is refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let probe = self.dir.join("room");
        let written = fs::write(&probe, [0; 4096]);
        // Left over at worst by a kill.
        let _ = fs::remove_file(&probe);
        written.is_err_and(|it| no_room(&it))
    }

    /// Whether the lab exists, running or killed.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.settings_file().exists()
    }

    /// The kubeconfig for kubectl and `sluice proxy` outside the lab.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// The kubeconfig for processes in the lab: with the API's address on the LAN.
    pub(crate) fn agents_kubeconfig(&self) -> PathBuf {
        self.dir.join("agents.kubeconfig")
    }

    /// The Corefile of the agents: that of the ConfigMap `coredns`.
    pub(crate) fn corefile(&self) -> PathBuf {
        self.dir.join("Corefile")
    }

    /// The log of the lab's own processes.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The last lines of the log.
    #[must_use]
    pub fn last_words(&self) -> String {
        let last = log_file::last_lines(&self.log(), 3).unwrap_or_default();
        last.trim_end().replace('\n', "; ")
    }

    /// The journal of the store.
    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    /// The folder of a node, with the socket and the log of its agent.
    #[must_use]
    pub fn node(&self, name: &str) -> PathBuf {
        self.dir.join("nodes").join(name)
    }

    /// The status socket of a node's agent.
    #[must_use]
    pub fn agent_socket(&self, node: &str) -> PathBuf {
        self.node(node).join("run/sluice.sock")
    }

    /// The folder of a pod with this uid: logs, and the record of its processes.
    #[must_use]
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.dir.join("pods").join(uid)
    }

    /// The folder of what stands in for PersistentVolumes.
    pub(crate) fn claims(&self) -> PathBuf {
        self.dir.join("claims")
    }

    /// What a container of the pod with this uid sees of its own, as it was last started.
    #[must_use]
    pub fn inside(&self, uid: &str, container: &str) -> Entry {
        let text = fs::read(self.pod(uid).join(INSIDE)).unwrap_or_default();
        let all = serde_json::from_slice::<BTreeMap<String, Entry>>(&text);
        all.ok()
            .and_then(|mut it| it.remove(container))
            .unwrap_or_default()
    }

    /// The file `/etc/resolv.conf` of the pod with this uid.
    #[must_use]
    pub fn resolv_conf(&self, uid: &str) -> PathBuf {
        let file = self.pod(uid).join(RESOLV_CONF);
        if file.exists() {
            file
        } else {
            self.resolv_conf_of_nodes()
        }
    }

    /// The file `/etc/resolv.conf` of nodes, of the client and of pods that use their node's.
    #[must_use]
    pub fn resolv_conf_of_nodes(&self) -> PathBuf {
        self.dir.join(RESOLV_CONF)
    }

    /// Locks the lab: one process at a time starts or ends it.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or another process holds the lock.
    pub fn lock(&self) -> anyhow::Result<File> {
        let at = || self.dir.display().to_string();
        fs::create_dir_all(self.dir.parent().unwrap_or(&self.dir)).with_context(at)?;
        // The folder contains a client's key.
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(at);
            }
            _ => fs::set_permissions(&self.dir, Permissions::from_mode(0o700)).with_context(at)?,
        }
        let path = self.dir.join("lock");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                bail!("lab {}: another command starts or ends it", self.name)
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(at),
        }
    }

    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// The lab does not exist, or the file is malformed.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let path = self.settings_file();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("there is no lab {}: `sluice lab up` makes one", self.name)
            }
            text => text.with_context(|| path.display().to_string())?,
        };
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes the settings, for the lab's processes and for a restart.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn write_settings(&self, settings: &Settings) -> anyhow::Result<()> {
        write(&self.settings_file(), &serde_json::to_vec(settings)?)
    }

    /// Records process 1 of the lab, as seen from outside of it.
    pub(crate) fn write_init(&self, init: &Identity) -> anyhow::Result<()> {
        write(&self.init_file(), &serde_json::to_vec(init)?)
    }

    /// Process 1 of the lab, if it runs.
    #[must_use]
    pub fn init(&self) -> Option<Pid> {
        let text = fs::read(self.init_file()).ok()?;
        let init: Identity = serde_json::from_slice(&text).ok()?;
        init.is_running().then(|| init.pid())
    }

    /// Process 1 of a lab that must run.
    ///
    /// # Errors
    ///
    /// The lab does not exist, or does not run.
    pub fn running(&self) -> anyhow::Result<Pid> {
        self.settings()?;
        let name = self.name();
        self.init().with_context(|| {
            format!("lab {name} does not run: `sluice lab up --name {name}` starts it again")
        })
    }

    /// Ends every process of the lab and removes its folder. A lab that does not exist is no error.
    ///
    /// # Errors
    ///
    /// The folder cannot be removed.
    pub fn remove(&self) -> anyhow::Result<()> {
        self.end();
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| format!("remove {}", self.dir.display())),
        }
    }

    /// Kills process 1. The kernel then ends all processes and namespaces of the lab.
    pub fn end(&self) {
        if let Some(init) = self.init() {
            // The process may end by itself meanwhile.
            let _ = kill(init, Signal::SIGKILL);
            sluice_lab::eventually(std::time::Duration::from_secs(10), || {
                self.init().is_none().then_some(())
            });
        }
    }

    fn settings_file(&self) -> PathBuf {
        self.dir.join("settings.json")
    }

    fn init_file(&self) -> PathBuf {
        self.dir.join("init.json")
    }
}

/// Replaces a file atomically. A file with this text already is left alone: on a full disk nothing is written.
pub(crate) fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|it| it == text) {
        return Ok(());
    }
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // A part of it would take the last room of a full disk.
        let _ = fs::remove_file(&new);
    }
    written.with_context(|| format!("write {}", path.display()))
}
