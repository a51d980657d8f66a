//! Loading of the programs.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use sluice_bpf_abi::{Flow, Tuple};

use tracing::warn;

use crate::attach::{self, Attacher};
use crate::follow::Follower;
use crate::grow;
use crate::maps::Maps;
use crate::patterns::Patterns;
use crate::probe;
use crate::sizes::Sizes;
use crate::table::Table;
use crate::{BpfError, Pins, sockets};

/// The object, where this binary was built with it.
#[cfg(has_programs)]
static OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!(env!("SLUICE_BPF_OBJECT")));
#[cfg(not(has_programs))]
static OBJECT: Option<&[u8]> = None;

/// Whether this binary has the programs.
pub const BUILT: bool = cfg!(has_programs);

/// The programs of packets, by their names.
pub(crate) const INGRESS: &str = "sluice_ingress";
/// See [`INGRESS`].
pub(crate) const EGRESS: &str = "sluice_egress";

/// What programs and maps need to know before they are loaded.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The folder of the pins of all network namespaces.
    pub pins: PathBuf,
    /// The interfaces whose packets are looked at; loopback always.
    pub interfaces: Patterns,
    /// The interfaces that packets of this node's pods come through.
    pub pods: Patterns,
    /// How many entries the maps hold.
    pub sizes: Sizes,
}

/// Names of all maps that are pinned.
const PINNED: [&str; 16] = [
    "FRONTENDS",
    "ENDPOINTS",
    "MEMBERS",
    "MAGLEV",
    "SOURCES",
    "ADDRESSES",
    "FLOWS",
    "AFFINITY",
    "INTERFACES",
    "FRAGMENTS",
    "PEERS",
    "SENDERS",
    "NODE",
    "DNS",
    "COUNTERS",
    "EVENTS",
];

/// The programs and maps of one network namespace, pinned. When the value is dropped, the programs go on.
#[derive(Debug)]
pub struct Programs {
    setup: Setup,
    pins: Pins,
    maps: Maps,
    attacher: Arc<Mutex<Attacher>>,
    follower: Option<Follower>,
    /// The table of connections of programs that are still attached.
    outgrown: Option<Table<Tuple, Flow>>,
    cgroup: Option<PathBuf>,
}

impl Programs {
    /// Loads the programs for the calling thread's network namespace, with the maps that are pinned, or new ones.
    /// Attaches nothing.
    ///
    /// # Errors
    ///
    /// This binary has no programs, or the kernel lacks what they need or refuses one.
    pub fn open(setup: Setup) -> Result<Self, BpfError> {
        if !BUILT {
            return Err(BpfError::NotBuilt);
        }
        probe::require()?;
        let pins = Pins::of_namespace(&setup.pins)?;
        pins.create()?;
        let mut object = load(&pins, &setup.sizes, &[])?;
        verify(&mut object)?;
        let attacher = Attacher::new(object, &pins);
        Ok(Self {
            maps: Maps::open(&pins)?,
            attacher: Arc::new(Mutex::new(attacher)),
            follower: None,
            outgrown: None,
            cgroup: None,
            setup,
            pins,
        })
    }

    /// The pins.
    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The maps.
    #[must_use]
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The loaded programs.
    pub(crate) fn attacher(&self) -> &Mutex<Attacher> {
        &self.attacher
    }

    /// The maps, to be changed.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// Attaches the programs to every interface that the setup names, now and whenever one appears. Packets
    /// that are on their way pass the earlier agent's programs or these, never none.
    ///
    /// # Errors
    ///
    /// The interfaces cannot be listed, or the kernel refuses loopback.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        if self.follower.is_none() {
            // The other maps grow with what is written.
            self.grow(&Sizes {
                flows: self.setup.sizes.flows,
                ..Sizes::NONE
            })?;
            let maps = Maps::open(&self.pins)?;
            let setup = (self.setup.interfaces.clone(), self.setup.pods.clone());
            let follower = Follower::start(Arc::clone(&self.attacher), maps, setup)?;
            self.follower = Some(follower);
        }
        self.follow_up()
    }

    /// No connection is lost with the table that it was in.
    fn follow_up(&mut self) -> Result<(), BpfError> {
        match self.outgrown.take() {
            Some(old) if self.is_attached() => grow::follow_up(&old, &mut self.maps.flows)?,
            old => self.outgrown = old,
        }
        Ok(())
    }

    /// Attaches the programs of packets where somebody else has detached them.
    pub fn attach_again(&self) {
        let mut attacher = self.attacher.lock().unwrap_or_else(PoisonError::into_inner);
        attacher.attach_again();
    }

    /// Whether [`attach`](Self::attach) was called.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.follower.is_some()
    }

    /// Leads the sockets of a cgroup's processes to endpoints, as far as NODE says so, now and after the agent's
    /// end. The programs of others at the cgroup go on.
    ///
    /// # Errors
    ///
    /// The kernel refuses a program, or the cgroup.
    pub fn attach_sockets(&mut self, cgroup: &Path) -> Result<(), BpfError> {
        let mut attacher = self.attacher.lock().unwrap_or_else(PoisonError::into_inner);
        sockets::attach(attacher.object(), &self.pins.links(), cgroup)?;
        self.cgroup = Some(cgroup.to_owned());
        Ok(())
    }

    /// Leaves sockets alone, also those that an earlier agent led. What was led goes on.
    pub fn detach_sockets(&mut self) {
        self.cgroup = None;
        sockets::detach(&self.pins.links());
    }

    /// Makes room for this many entries in the maps of Services, without a packet that sees less than all
    /// entries. Maps that are large enough stay.
    ///
    /// # Errors
    ///
    /// The kernel refuses a map or a program. The old ones go on.
    pub fn grow(&mut self, sizes: &Sizes) -> Result<(), BpfError> {
        let small = grow::too_small(&self.maps, sizes);
        if small.is_empty() {
            return Ok(());
        }
        for name in &small {
            // Of an agent that ended half-way.
            fs::remove_file(grow::temporary(&self.pins, name)).ok();
        }
        let mut object = load(&self.pins, sizes, &small)?;
        grow::copy(&self.maps, &self.pins, &small)?;
        verify(&mut object)?;
        if let Some(cgroup) = &self.cgroup
            && let Err(error) = sockets::attach(&mut object, &self.pins.links(), cgroup)
        {
            warn!(%error, "sockets know no new Services");
        }
        let mut attacher = self.attacher.lock().unwrap_or_else(PoisonError::into_inner);
        attacher.replace(object);
        drop(attacher);
        grow::rename(&self.pins, &small)?;
        let old = mem::replace(&mut self.maps, Maps::open(&self.pins)?);
        if small.contains(&old.flows.name()) {
            self.outgrown = Some(old.flows);
        }
        self.follow_up()
    }

    /// See [`remove`].
    ///
    /// # Errors
    ///
    /// A pin cannot be removed.
    pub fn remove(mut self) -> Result<(), BpfError> {
        self.follower = None;
        remove(&self.pins)
    }
}

/// Detaches the programs of a network namespace, the calling thread's, and removes every pin. The kernel
/// detaches links within milliseconds after their pins are gone.
///
/// # Errors
///
/// A pin cannot be removed.
pub fn remove(pins: &Pins) -> Result<(), BpfError> {
    attach::detach_filters();
    pins.remove()
}

/// Removes every pin of an agent with another version. The filters of clsact are ours by then: they replace those
/// of any version.
///
/// # Errors
///
/// A pin cannot be removed.
pub fn remove_other_version(pins: &Pins) -> Result<(), BpfError> {
    pins.remove()
}

/// Creates or adopts the maps; those of `larger` are created in any case. The programs are not in the kernel
/// yet.
fn load(pins: &Pins, sizes: &Sizes, larger: &[&str]) -> Result<Ebpf, BpfError> {
    let object = OBJECT.ok_or(BpfError::NotBuilt)?;
    let mut loader = EbpfLoader::new();
    for (name, size) in sizes.all() {
        loader.map_max_entries(name, size);
    }
    for name in PINNED {
        let path = if larger.contains(&name) {
            grow::temporary(pins, name)
        } else {
            pins.maps().join(name)
        };
        loader.map_pin_path(name, path);
    }
    loader.verifier_log_level(VerifierLogLevel::STATS);
    loader
        .load(object)
        .map_err(|source| BpfError::Load { source })
}

/// Gives the kernel the two programs of packets.
fn verify(object: &mut Ebpf) -> Result<(), BpfError> {
    for name in [INGRESS, EGRESS] {
        let program = classifier(object, name);
        program
            .load()
            .map_err(|error| BpfError::program(name, &error))?;
    }
    Ok(())
}

/// One of the programs of packets.
pub(crate) fn classifier<'a>(object: &'a mut Ebpf, name: &str) -> &'a mut SchedClassifier {
    let program = object
        .program_mut(name)
        .expect("the object has the program");
    program.try_into().expect("the program is for packets")
}
