//! Larger maps in the place of those that fill up.
//!
//! The kernel cannot enlarge a map. New ones get a copy of every entry and programs of their own, which take the
//! place of the old programs in one step at each interface. Only the agent writes the maps of Services, so nothing
//! changes while they are copied; FLOWS is copied again once the old programs are gone. If the agent ends half-way, each name is a pin of a map with all entries.

use std::fs;
use std::path::{Path, PathBuf};

use aya::Pod;
use sluice_bpf_abi::{Flow, Tuple};

use crate::maps::{Maps, Sources};
use crate::sizes::Sizes;
use crate::table::Table;
use crate::{BpfError, Pins};

/// Names of the maps that hold less than these sizes.
pub(crate) fn too_small(maps: &Maps, sizes: &Sizes) -> Vec<&'static str> {
    let all = [
        (
            maps.frontends.name(),
            maps.frontends.capacity(),
            sizes.frontends,
        ),
        (
            maps.endpoints.name(),
            maps.endpoints.capacity(),
            sizes.endpoints,
        ),
        (maps.members.name(), maps.members.capacity(), sizes.members),
        (maps.maglev.name(), maps.maglev.capacity(), sizes.maglev),
        (Sources::NAME, maps.sources.capacity(), sizes.sources),
        (
            maps.addresses.name(),
            maps.addresses.capacity(),
            sizes.addresses,
        ),
        (maps.flows.name(), maps.flows.capacity(), sizes.flows),
    ];
    let small = all
        .into_iter()
        .filter(|(_, capacity, wanted)| capacity < wanted);
    small.map(|(name, ..)| name).collect()
}

/// Where a larger map is pinned until it takes its name. The file system refuses names with a dot
/// (`bpf_lookup` in `kernel/bpf/inode.c`).
pub(crate) fn temporary(pins: &Pins, name: &str) -> PathBuf {
    pins.maps().join(format!("{name}-new"))
}

/// Copies every entry of these maps to the larger ones.
pub(crate) fn copy(maps: &Maps, pins: &Pins, names: &[&'static str]) -> Result<(), BpfError> {
    for name in names {
        let path = temporary(pins, name);
        match *name {
            "FRONTENDS" => copy_table(&maps.frontends, &path)?,
            "ENDPOINTS" => copy_table(&maps.endpoints, &path)?,
            "MEMBERS" => copy_table(&maps.members, &path)?,
            "MAGLEV" => copy_table(&maps.maglev, &path)?,
            "ADDRESSES" => copy_table(&maps.addresses, &path)?,
            "FLOWS" => copy_table(&maps.flows, &path)?,
            _ => {
                let mut larger = Sources::at(&path)?;
                for (length, range) in maps.sources.entries()? {
                    larger.insert(length, range)?;
                }
            }
        }
    }
    Ok(())
}

fn copy_table<K: Pod, V: Pod>(table: &Table<K, V>, path: &Path) -> Result<(), BpfError> {
    let mut larger = Table::at(path, table.name())?;
    for (key, value) in table.entries()? {
        larger.insert(&key, &value)?;
    }
    Ok(())
}

/// Adds the entries that the old programs made after the table was copied.
pub(crate) fn follow_up(
    old: &Table<Tuple, Flow>,
    new: &mut Table<Tuple, Flow>,
) -> Result<(), BpfError> {
    for (key, value) in old.entries()? {
        let known = new.get(&key)?;
        if known.is_none_or(|it| it.seen_seconds < value.seen_seconds) {
            new.insert(&key, &value)?;
        }
    }
    Ok(())
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
