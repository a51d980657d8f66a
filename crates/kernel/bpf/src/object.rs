//! An object file, and the settings of its user.

use std::fmt;

use aya::programs::{Program, SchedClassifier};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};

use crate::grow::{self, MapSize};
use crate::{BpfError, Pins};

/// Programs and maps in one ELF file. They belong to one user: two users have objects and pins of their own.
#[derive(Clone, Copy)]
pub struct Object {
    /// The ELF file, aligned to 8 bytes: [`include_bytes_aligned`](crate::include_bytes_aligned).
    pub bytes: &'static [u8],
    /// Names of the maps that are pinned, so that they outlive the process and the next one adopts them.
    pub pinned: &'static [&'static str],
    /// Names of the programs of packets, at most one for each direction.
    pub packets: &'static [(&'static str, Direction)],
    /// Names of the programs of sockets, in the order in which they are attached to a cgroup.
    pub sockets: &'static [&'static str],
    /// The filter of the programs in clsact before Linux 6.6. Each object needs another one.
    pub filter: Filter,
    /// The place of the programs among those of TCX from Linux 6.6 on.
    pub order: Order,
    /// Texts about the loss of a feature.
    pub losses: Losses,
}

/// The direction of a packet through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The packet arrives.
    In,
    /// The packet leaves.
    Out,
}

/// Priority and handle of filters of clsact. Lower priorities run first; the next process replaces its filters by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The priority, 1 or more.
    pub priority: u16,
    /// The minor number of the handle.
    pub handle: u16,
}

/// The place among programs that are at an interface already. A program that another user puts first later stays
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Before all others.
    First,
    /// Behind all others, which may end the processing of a packet before.
    Last,
}

/// Sentences for operators, in the log and in the result of [`probe`](crate::probe).
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    /// The advice for a kernel that lacks a feature that programs of packets need.
    pub programs: &'static str,
    /// The loss without programs of sockets.
    pub sockets: &'static str,
    /// The loss at an interface that takes no program.
    pub interface: &'static str,
    /// The loss at an interface that keeps its old program.
    pub old_interface: &'static str,
    /// The loss at a cgroup that keeps its old programs.
    pub old_sockets: &'static str,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

impl Object {
    /// Creates or adopts the maps; those of `larger` are created in any case, at their temporary pins. The programs are not
    /// in the kernel yet.
    pub(crate) fn load(
        &self,
        pins: &Pins,
        sizes: &[MapSize],
        larger: &[&str],
    ) -> Result<Ebpf, BpfError> {
        let mut loader = EbpfLoader::new();
        for (name, size) in sizes {
            loader.map_max_entries(name, *size);
        }
        for name in self.pinned {
            let path = if larger.contains(name) {
                grow::temporary(pins, name)
            } else {
                pins.maps().join(name)
            };
            loader.map_pin_path(name, path);
        }
        loader.verifier_log_level(VerifierLogLevel::STATS);
        loader
            .load(self.bytes)
            .map_err(|source| BpfError::Load { source })
    }

    /// Gives the kernel the programs of packets.
    pub(crate) fn verify(&self, loaded: &mut Ebpf) -> Result<(), BpfError> {
        for (name, _) in self.packets {
            let program = classifier(loaded, name)?;
            program
                .load()
                .map_err(|error| BpfError::program(name, &error))?;
        }
        Ok(())
    }
}

/// A program of packets.
pub(crate) fn classifier<'a>(
    loaded: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut SchedClassifier, BpfError> {
    let program = loaded.program_mut(name).ok_or_else(|| missing(name))?;
    program
        .try_into()
        .map_err(|error| BpfError::program(name, &error))
}

/// A program of sockets.
pub(crate) fn of_sockets<'a>(
    loaded: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut Program, BpfError> {
    loaded.program_mut(name).ok_or_else(|| missing(name))
}

fn missing(program: &'static str) -> BpfError {
    BpfError::Program {
        program,
        reason: "the object has no such program".to_owned(),
    }
}
