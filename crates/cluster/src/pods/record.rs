//! What an earlier server of the lab did for a pod.

use std::fs;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use sluice_lab::HeldPod;

use crate::place::{Place, write};
use crate::process::Identity;

/// A pod with its machine and processes, as its folder says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Of the Pod.
    pub(crate) uid: String,
    pub(crate) pod: HeldPod,
    pub(crate) containers: Vec<Process>,
}

/// The process of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) identity: Identity,
    pub(crate) restarts: i32,
    /// Of the process, in Unix seconds.
    pub(crate) started: i64,
}

#[derive(Serialize, Deserialize)]
struct Text {
    machine: String,
    node: String,
    host: Option<u8>,
    containers: Vec<Process>,
}

impl Record {
    /// Every pod that has a machine.
    pub(crate) fn all(place: &Place) -> Vec<Self> {
        let pods = place.pod("");
        let entries = fs::read_dir(&pods).into_iter().flatten().flatten();
        entries
            .filter_map(|it| Self::of(place, it.file_name().to_str()?))
            .collect()
    }

    /// The pod with this uid, if it has a machine.
    pub(crate) fn of(place: &Place, uid: &str) -> Option<Self> {
        let text = fs::read(place.pod(uid).join("record.json")).ok()?;
        let text: Text = serde_json::from_slice(&text).ok()?;
        Some(Self {
            uid: uid.to_owned(),
            pod: HeldPod {
                name: text.machine,
                node: text.node,
                host: text.host,
            },
            containers: text.containers,
        })
    }

    /// Ends its processes and removes its folder: the pod has no machine any more.
    pub(crate) fn forget(&self, place: &Place) {
        for it in &self.containers {
            it.identity.signal(Signal::SIGKILL);
        }
        // It may be gone.
        let _ = fs::remove_dir_all(place.pod(&self.uid));
    }

    /// Replaces the file.
    pub(crate) fn write(&self, place: &Place) -> anyhow::Result<()> {
        let text = Text {
            machine: self.pod.name.clone(),
            node: self.pod.node.clone(),
            host: self.pod.host,
            containers: self.containers.clone(),
        };
        let path = place.pod(&self.uid).join("record.json");
        write(&path, &serde_json::to_vec(&text)?)
    }
}
