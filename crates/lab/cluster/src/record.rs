//! The record of a pod's machine and processes, which outlives the server.

use std::fs;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use sluice_lab::HeldPod;

use crate::lab_dir::{LabDir, write};
use crate::process::Identity;

/// A pod with a machine, as its folder records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The uid of the Pod, which is the name of the folder.
    #[serde(skip)]
    pub(crate) uid: String,
    pub(crate) machine: String,
    pub(crate) node: String,
    pub(crate) host: Option<u8>,
    pub(crate) containers: Vec<Process>,
    /// Process 1 of the pid namespace that the containers share, if they do.
    #[serde(default)]
    pub(crate) first: Option<Identity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) identity: Identity,
    pub(crate) restarts: i32,
    /// The start of the process, in Unix seconds.
    pub(crate) started: i64,
}

impl Record {
    /// Every pod with a machine.
    pub(crate) fn all(lab_dir: &LabDir) -> Vec<Self> {
        let pods = lab_dir.pod("");
        let entries = fs::read_dir(&pods).into_iter().flatten().flatten();
        entries
            .filter_map(|it| Self::of(lab_dir, it.file_name().to_str()?))
            .collect()
    }

    /// The pod with this uid, if it has a machine.
    pub(crate) fn of(lab_dir: &LabDir, uid: &str) -> Option<Self> {
        let text = fs::read(lab_dir.pod(uid).join("record.json")).ok()?;
        let record: Self = serde_json::from_slice(&text).ok()?;
        let uid = uid.to_owned();
        Some(Self { uid, ..record })
    }

    /// The last process of a container of the pod with this uid, in the lab's pid namespace.
    pub(crate) fn process(lab_dir: &LabDir, uid: &str, container: &str) -> Option<Identity> {
        let processes = Self::of(lab_dir, uid)?.containers;
        let process = processes.into_iter().find(|it| it.name == container)?;
        Some(process.identity)
    }

    /// The pod as a machine.
    pub(crate) fn pod(&self) -> HeldPod {
        HeldPod {
            name: self.machine.clone(),
            node: self.node.clone(),
            host: self.host,
        }
    }

    /// Ends the processes and removes the folder of a pod without a machine.
    pub(crate) fn forget(&self, lab_dir: &LabDir) {
        for it in &self.containers {
            it.identity.signal(Signal::SIGKILL);
        }
        if let Some(it) = &self.first {
            it.signal(Signal::SIGKILL);
        }
        // The folder may be gone.
        let _ = fs::remove_dir_all(lab_dir.pod(&self.uid));
    }

    /// Replaces the record.
    pub(crate) fn write(&self, lab_dir: &LabDir) -> anyhow::Result<()> {
        let path = lab_dir.pod(&self.uid).join("record.json");
        write(&path, &serde_json::to_vec(self)?)
    }
}
