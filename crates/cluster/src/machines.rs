//! The machines of a lab, as everybody in the server uses them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use sluice_lab::{Attach, Cluster, Held, LabError, Netns};

use crate::enter::Inside;
use crate::launch::Program;
use crate::place::Place;
use crate::pods::Record;

/// The first part of the names of all its namespaces.
const PREFIX: &str = "lab";

/// A machine outside the cluster, on the LAN of the nodes.
pub const CLIENT: &str = "client";

/// The LAN of nodes and client itself: the API is there.
pub const LAN: &str = "lan";

/// The cluster of namespaces, and how programs run in it.
#[derive(Debug)]
pub(crate) struct Machines {
    cluster: Mutex<Cluster>,
    place: Place,
    program: PathBuf,
}

impl Machines {
    /// A new LAN, or the one that an earlier server left, with the pods that are there.
    pub(crate) fn open(place: &Place, program: PathBuf) -> anyhow::Result<(Self, Vec<Record>)> {
        let network = place.settings()?.pod_network();
        let names = Netns::names();
        let exists = |label: &str| names.contains(&netns_name(label));
        let (cluster, records) = if exists(LAN) {
            let mut nodes = crate::nodes::held(place);
            nodes.retain(|it| exists(&it.name));
            let is_whole = |it: &Record| {
                let has_node = nodes.iter().any(|node| node.name == it.pod.node);
                has_node && (it.pod.host.is_none() || exists(&it.pod.name))
            };
            let (records, stale): (Vec<_>, Vec<_>) =
                Record::all(place).into_iter().partition(is_whole);
            // Whoever removed these did not come to the end.
            stale.iter().for_each(|it| it.forget(place));
            let held = Held {
                nodes,
                pods: records.iter().map(|it| it.pod.clone()).collect(),
                clients: exists(CLIENT)
                    .then(|| CLIENT.to_owned())
                    .into_iter()
                    .collect(),
            };
            let cluster = Cluster::resume(PREFIX, Attach::Routed, network, held)?;
            (cluster, records)
        } else {
            // What was written down went with another process 1.
            Record::all(place).iter().for_each(|it| it.forget(place));
            let cluster = Cluster::lasting(PREFIX, Attach::Routed, network)?;
            (cluster, Vec::new())
        };
        let machines = Self {
            cluster: Mutex::new(cluster),
            place: place.clone(),
            program,
        };
        if machines.lock().netns_of(CLIENT).is_none() {
            machines.lock().add_client(CLIENT)?;
        }
        Ok((machines, records))
    }

    /// The namespaces. Whoever makes a machine holds them for some milliseconds.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster
            .lock()
            .expect("nobody panics with the machines")
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// A handle of a machine's namespace that needs no lock.
    pub(crate) fn netns(&self, machine: &str) -> Result<Netns, LabError> {
        Netns::open(&netns_name(machine))
    }

    /// A command that runs in a machine.
    pub(crate) fn command(&self, inside: &Inside, program: &std::path::Path) -> Command {
        let lab = Program {
            path: &self.program,
            place: &self.place,
        };
        inside.command(lab, program)
    }

    /// `sluice` itself.
    pub(crate) fn program(&self) -> &std::path::Path {
        &self.program
    }
}

/// The network namespace of a node, a pod's machine or the client.
#[must_use]
pub fn netns_name(machine: &str) -> String {
    format!("{PREFIX}-{machine}")
}

/// The name of a pod's machine: short enough for every kernel name, and of this pod alone by the end of its uid.
#[must_use]
pub fn machine_of_pod(name: &str, uid: &str) -> String {
    let name: String = name.chars().filter(|it| *it != '.').take(40).collect();
    let uid: String = uid.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{name}-{}", &uid[uid.len().saturating_sub(12)..])
}

/// The addresses of a pod or node, IPv4 first.
pub(crate) type Addresses = [IpAddr; 2];
