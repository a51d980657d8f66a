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
        let (cluster, records) = if exists("lan") {
            let records = Record::all(place);
            let held = Held {
                nodes: crate::nodes::held(place),
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

    /// The namespaces. Nobody holds them while waiting for a process.
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

    /// A command that runs in a machine: the host name is its own, and `run` stands for `/run/sluice`.
    pub(crate) fn command(
        &self,
        machine: &str,
        hostname: &str,
        run: Option<PathBuf>,
        program: &std::path::Path,
    ) -> Command {
        let inside = Inside {
            netns: netns_name(machine),
            hostname: hostname.to_owned(),
            run,
        };
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

/// The name of a pod's machine: short enough for every kernel name, and of this pod alone.
#[must_use]
pub fn machine_of_pod(name: &str, uid: &str) -> String {
    let name: String = name.chars().filter(|it| *it != '.').take(40).collect();
    let uid: String = uid.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{name}-{}", &uid[..uid.len().min(16)])
}

/// The addresses of a pod or node, IPv4 first.
pub(crate) type Addresses = [IpAddr; 2];
