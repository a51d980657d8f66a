//! Replaces maps that fill up by larger ones.
//!
//! The kernel cannot enlarge a map. A new one gets a copy of every entry, and programs of its own that take the place of
//! the old ones in one step at each interface. Nobody but the caller may write the map meanwhile, or the caller adds what
//! programs wrote into the old one afterwards. If the agent ends half-way, each name is a pin of a map with all entries.

use std::fs;
use std::path::PathBuf;

use crate::table::{capacity, copy};
use crate::{BpfError, Pins};

/// The name of a map, and how many entries it holds at least.
pub type MapSize = (&'static str, u32);

/// The maps that hold less than this.
pub(crate) fn too_small(pins: &Pins, sizes: &[MapSize]) -> Result<Vec<&'static str>, BpfError> {
    let mut small = Vec::new();
    for (name, wanted) in sizes {
        if capacity(pins, name)? < *wanted {
            small.push(*name);
        }
    }
    Ok(small)
}

/// The pin of a larger map until it takes the map's name. The file system refuses names with a dot (`bpf_lookup` in
/// `kernel/bpf/inode.c`).
pub(crate) fn temporary(pins: &Pins, name: &str) -> PathBuf {
    pins.maps().join(format!("{name}-new"))
}

/// Copies every entry of these maps to the larger ones.
pub(crate) fn copy_all(pins: &Pins, names: &[&'static str]) -> Result<(), BpfError> {
    names
        .iter()
        .try_for_each(|name| copy(name, &pins.maps().join(name), &temporary(pins, name)))
}

/// Gives the larger maps the names of those that they replace.
pub(crate) fn rename(pins: &Pins, names: &[&'static str]) -> Result<(), BpfError> {
    for name in names {
        let path = temporary(pins, name);
        let renamed = fs::rename(&path, pins.maps().join(name));
        renamed.map_err(|source| BpfError::Pin {
            operation: "rename",
            path,
            source,
        })?;
    }
    Ok(())
}
