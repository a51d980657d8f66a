//! Loaded programs, and where they are attached.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::attach::{self, Attacher};
use crate::follow::{Follower, Interfaces};
use crate::grow::{self, MapSize};
use crate::{BpfError, Object, Pins, cgroup, probe};

/// The programs and maps of an object in one network namespace, pinned. When the value is dropped, the programs go on.
#[derive(Debug)]
pub struct Programs {
    object: Object,
    pins: Pins,
    attacher: Arc<Mutex<Attacher>>,
    follower: Option<Follower>,
    cgroup: Option<PathBuf>,
}

impl Programs {
    /// Loads the programs of packets for the calling thread's network namespace, with the maps that are pinned, or new
    /// ones of these sizes. Attaches nothing.
    ///
    /// # Errors
    ///
    /// The kernel lacks what the programs need, or refuses one.
    pub fn open(object: Object, pins: Pins, sizes: &[MapSize]) -> Result<Self, BpfError> {
        probe::require(&object.losses)?;
        pins.create()?;
        let mut loaded = object.load(&pins, sizes, &[])?;
        object.verify(&mut loaded)?;
        let attacher = Attacher::new(object, loaded, &pins);
        Ok(Self {
            object,
            pins,
            attacher: Arc::new(Mutex::new(attacher)),
            follower: None,
            cgroup: None,
        })
    }

    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The object that the programs were loaded from.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn attacher(&self) -> MutexGuard<'_, Attacher> {
        self.attacher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches the programs to every interface that is wanted, now and when a new one appears. Packets meanwhile
    /// pass the earlier process's programs or these, never none.
    ///
    /// # Errors
    ///
    /// The interfaces cannot be listed, or [`Interfaces::changed`] fails.
    pub fn attach(&mut self, interfaces: impl Interfaces + 'static) -> Result<(), BpfError> {
        if self.follower.is_none() {
            let follower = Follower::start(Arc::clone(&self.attacher), Box::new(interfaces))?;
            self.follower = Some(follower);
        }
        Ok(())
    }

    /// Attaches the programs of packets where another process has detached them.
    pub fn attach_again(&self) {
        self.attacher().attach_again();
    }

    /// Whether [`attach`](Self::attach) was called.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.follower.is_some()
    }

    /// Attaches the programs of sockets to a cgroup. They stay after the process's end, and programs of others at the
    /// cgroup go on.
    ///
    /// # Errors
    ///
    /// The kernel refuses a program, or the cgroup.
    pub fn attach_sockets(&mut self, cgroup: &Path) -> Result<(), BpfError> {
        let names = self.object.sockets;
        cgroup::attach(self.attacher().loaded(), names, &self.pins.links(), cgroup)?;
        self.cgroup = Some(cgroup.to_owned());
        Ok(())
    }

    /// Detaches the programs of sockets, also those that an earlier process attached.
    pub fn detach_sockets(&mut self) {
        self.cgroup = None;
        cgroup::detach(self.object.sockets, &self.pins.links());
    }

    /// Makes room for this many entries in these maps. No packet sees less than all entries meanwhile. Maps that are
    /// large enough stay. Returns the names of the replaced maps: existing handles of them are of the old maps, into
    /// which programs may have written after the copy.
    ///
    /// # Errors
    ///
    /// The kernel refuses a map or a program. The old ones go on.
    pub fn grow(&mut self, sizes: &[MapSize]) -> Result<Vec<&'static str>, BpfError> {
        let small = grow::too_small(&self.pins, sizes)?;
        if small.is_empty() {
            return Ok(small);
        }
        for name in &small {
            // A map of a process that ended half-way.
            fs::remove_file(grow::temporary(&self.pins, name)).ok();
        }
        let mut loaded = self.object.load(&self.pins, sizes, &small)?;
        grow::copy_all(&self.pins, &small)?;
        self.object.verify(&mut loaded)?;
        if let Some(cgroup) = &self.cgroup
            && let Err(error) =
                cgroup::attach(&mut loaded, self.object.sockets, &self.pins.links(), cgroup)
        {
            warn!(%error, "{}", self.object.losses.old_sockets);
        }
        self.attacher().replace(loaded);
        grow::rename(&self.pins, &small)?;
        Ok(small)
    }

    /// See [`remove`].
    ///
    /// # Errors
    ///
    /// A pin cannot be removed.
    pub fn remove(mut self) -> Result<(), BpfError> {
        self.follower = None;
        remove(&self.object, &self.pins)
    }
}

/// Detaches the programs of an object in the calling thread's network namespace, and removes every pin. The kernel
/// detaches links within milliseconds after their pins are gone.
///
/// # Errors
///
/// A pin cannot be removed.
pub fn remove(object: &Object, pins: &Pins) -> Result<(), BpfError> {
    attach::detach_filters(object);
    pins.remove()
}
