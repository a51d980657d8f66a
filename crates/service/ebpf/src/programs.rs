//! The programs of `bpf/programs`: the object, its names and sizes, and what the agent does with it.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use sluice_bpf::{BpfError, Direction, Filter, Losses, Object, Order, Patterns, Pins, Table};
use sluice_bpf_abi::{Flow, Tuple, VERSION};
use tracing::warn;

use crate::interfaces::NodeInterfaces;
use crate::maps::{self, Maps};
use crate::older::{self, Older};
use crate::sizes::Sizes;

#[cfg(has_programs)]
static BYTES: &[u8] = sluice_bpf::include_bytes_aligned!(env!("SLUICE_BPF_OBJECT"));
#[cfg(not(has_programs))]
static BYTES: &[u8] = &[];

/// Whether this binary has the programs.
pub const BUILT: bool = cfg!(has_programs);

/// The words for errors of the loader: what to do, and what is lost.
pub const LOSSES: Losses = Losses {
    programs: "use --proxy-mode nftables",
    sockets: "packets are led to endpoints, sockets are not",
    interface: "packets of this interface reach no Service",
    old_interface: "packets of this interface see no new Services",
    old_sockets: "sockets know no new Services",
};

/// The programs come first of all at an interface: they choose the endpoint, and the programs behind them see its address.
static OBJECT: Object = Object {
    bytes: BYTES,
    pinned: &maps::NAMES,
    packets: &[
        ("sluice_ingress", Direction::In),
        ("sluice_egress", Direction::Out),
    ],
    sockets: &[
        // The program that removes entries comes before those that make them.
        "sluice_sock_release",
        // Names of peers are answered before sockets are led, so that no client sees an endpoint.
        "sluice_getpeername4",
        "sluice_getpeername6",
        "sluice_recvmsg4",
        "sluice_recvmsg6",
        "sluice_sendmsg4",
        "sluice_sendmsg6",
        "sluice_connect4",
        "sluice_connect6",
    ],
    filter: Filter {
        priority: 1,
        handle: 0x51,
    },
    order: Order::First,
    losses: LOSSES,
};

/// The pins of the calling thread's network namespace under this root, of our version of the maps.
///
/// # Errors
///
/// The namespace has no cookie (Linux before 5.14).
pub fn pins(root: &Path) -> Result<Pins, BpfError> {
    Pins::of_namespace(root, VERSION)
}

pub(crate) fn not_built() -> BpfError {
    BpfError::Unable(
        "this build has no eBPF programs: build it where bpf-linker and a Rust toolchain with the sources \
         of core are installed (make setup), or use another --proxy-mode"
            .to_owned(),
    )
}

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

/// The programs and maps of one network namespace. When the value is dropped, the programs go on.
#[derive(Debug)]
pub struct Programs {
    setup: Setup,
    loaded: sluice_bpf::Programs,
    maps: Maps,
    /// The table of connections of programs that are still attached.
    outgrown: Option<Table<Tuple, Flow>>,
    /// The maps of programs of an older version, which are still attached.
    older: Option<Older>,
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
            return Err(not_built());
        }
        let pins = pins(&setup.pins)?;
        let loaded = sluice_bpf::Programs::open(OBJECT, pins, &setup.sizes.all())?;
        Ok(Self {
            maps: Maps::open(loaded.pins())?,
            setup,
            loaded,
            outgrown: None,
            older: None,
        })
    }

    /// The maps that the programs share.
    #[must_use]
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The maps, to be changed.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// Attaches the programs of packets to every interface that the setup names, now and whenever one appears.
    ///
    /// # Errors
    ///
    /// As [`sluice_bpf::Programs::attach`].
    pub fn attach(&mut self) -> Result<(), BpfError> {
        if !self.is_attached() {
            // The other maps grow with what is written.
            self.enlarge(&[(maps::FLOWS, self.setup.sizes.flows)])?;
            self.older = Older::find(&self.setup.pins);
            self.copy_older();
            self.copy_older();
            let interfaces = NodeInterfaces::new(
                self.pins(),
                self.setup.interfaces.clone(),
                self.setup.pods.clone(),
            )?;
            self.loaded.attach(interfaces)?;
            self.copy_older();
        }
        self.follow_up()
    }

    fn copy_older(&mut self) {
        let copied = self.older.as_mut().map(|it| it.copy(&mut self.maps));
        if let Some(Err(error)) = copied {
            warn!(%error, "programs of an older version keep their connections for now");
            self.older = None;
        }
    }

    /// Whether programs of an older version are still attached.
    pub(crate) fn has_older(&self) -> bool {
        self.older.is_some()
    }

    /// From here on only these programs open connections: programs of an older version go, since all that they carry is in
    /// the maps of these.
    pub(crate) fn replace_older(&mut self) {
        self.copy_older();
        if let Some(older) = self.older.take() {
            older.remove();
        }
    }

    /// Makes room for this many entries in the maps of Services, without a packet that sees less than all entries. Maps
    /// that are large enough stay.
    ///
    /// # Errors
    ///
    /// The kernel refuses a map or a program. The old ones go on.
    pub fn grow(&mut self, sizes: &Sizes) -> Result<(), BpfError> {
        self.enlarge(&sizes.growing())
    }

    fn enlarge(&mut self, sizes: &[sluice_bpf::MapSize]) -> Result<(), BpfError> {
        let replaced = self.loaded.grow(sizes)?;
        if replaced.is_empty() {
            return Ok(());
        }
        let old = mem::replace(&mut self.maps, Maps::open(self.loaded.pins())?);
        if replaced.contains(&maps::FLOWS) {
            self.outgrown = Some(old.flows);
        }
        self.follow_up()
    }

    /// Adds the connections that the old programs entered after the table was copied. Only the agent writes the maps of
    /// Services, so they need nothing of the kind.
    fn follow_up(&mut self) -> Result<(), BpfError> {
        if !self.is_attached() {
            return Ok(());
        }
        let Some(old) = self.outgrown.take() else {
            return Ok(());
        };
        for (key, value) in old.entries()? {
            older::merge(&mut self.maps.flows, &key, &value, None)?;
        }
        Ok(())
    }

    /// See [`remove`].
    ///
    /// # Errors
    ///
    /// A pin cannot be removed.
    pub fn remove(self) -> Result<(), BpfError> {
        self.loaded.remove()
    }
}

/// The programs as any object's: pins, sockets, trials.
impl Deref for Programs {
    type Target = sluice_bpf::Programs;

    fn deref(&self) -> &Self::Target {
        &self.loaded
    }
}

impl DerefMut for Programs {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.loaded
    }
}

/// Detaches the programs of a network namespace, the calling thread's, and removes every pin.
///
/// # Errors
///
/// A pin cannot be removed.
pub fn remove(pins: &Pins) -> Result<(), BpfError> {
    sluice_bpf::remove(&OBJECT, pins)
}
