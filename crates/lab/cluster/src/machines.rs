//! The machines of a lab, shared by all threads of the server.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use sluice_api::Dial;
use sluice_lab::{Cluster, LabError, Netns};
use sluice_model::IpFamily;

use crate::console::Consoles;
use crate::enter::Inside;
use crate::images::{StandIn, StandIns};
use crate::lab_dir::{LabDir, Settings};
use crate::launch::Program;
use crate::names::{CLIENT, LAN, netns_name};

/// Timeout of a connection to a pod.
const PATIENCE: Duration = Duration::from_secs(5);

/// The machines, and how a program is run in one.
#[derive(Debug)]
pub(crate) struct Machines {
    cluster: Mutex<Cluster>,
    lab_dir: LabDir,
    program: PathBuf,
    /// The family whose address comes first in statuses.
    primary: IpFamily,
    images: StandIns,
    consoles: Consoles,
}

impl Machines {
    /// The machines of a cluster, and the client.
    pub(crate) fn new(
        cluster: Cluster,
        lab_dir: &LabDir,
        program: PathBuf,
        settings: &Settings,
    ) -> Result<Self, LabError> {
        let machines = Self {
            cluster: Mutex::new(cluster),
            lab_dir: lab_dir.clone(),
            program,
            primary: settings.primary_family(),
            images: settings.images.clone(),
            consoles: Consoles::default(),
        };
        if machines.lock().netns_of(CLIENT).is_none() {
            machines.lock().add_client(CLIENT)?;
        }
        Ok(machines)
    }

    /// Locks the machines. Making one takes some milliseconds under this lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster
            .lock()
            .expect("nobody panics with the machines")
    }

    pub(crate) fn lab_dir(&self) -> &LabDir {
        &self.lab_dir
    }

    /// What stands in for the image of a container.
    pub(crate) fn stand_in(&self, container: &Container) -> Option<&StandIn> {
        self.images.of(container.image.as_deref()?)
    }

    /// The consoles of containers.
    pub(crate) fn consoles(&self) -> &Consoles {
        &self.consoles
    }

    /// The addresses of a pod or node, that of the primary family first.
    pub(crate) fn in_order(&self, mut addresses: Addresses) -> Addresses {
        addresses.sort_by_key(|it| IpFamily::of(it) != self.primary);
        addresses
    }

    /// A handle of a machine's network namespace, for use without the lock.
    pub(crate) fn netns(&self, machine: &str) -> Result<Netns, LabError> {
        Netns::open(&netns_name(machine))
    }

    pub(crate) fn command(&self, inside: &Inside, program: &std::path::Path) -> Command {
        let lab = Program {
            path: &self.program,
            lab_dir: &self.lab_dir,
        };
        inside.command(lab, program)
    }

    /// The path of `sluice`.
    pub(crate) fn program(&self) -> &std::path::Path {
        &self.program
    }
}

/// Connects from the LAN, which has routes to all pods.
pub(crate) struct FromLan(pub(crate) Arc<Machines>);

impl Dial for FromLan {
    fn dial(&self, target: SocketAddr) -> io::Result<TcpStream> {
        let lan = self.0.netns(LAN).map_err(io::Error::other)?;
        lan.run(|| TcpStream::connect_timeout(&target, PATIENCE))
    }
}

/// The addresses of a pod or node, one of each family.
pub(crate) type Addresses = [IpAddr; 2];
