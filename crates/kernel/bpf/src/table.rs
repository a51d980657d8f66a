//! A hash map as a table of keys and values.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use aya::Pod;
use aya::maps::{HashMap, Map, MapData, MapError};
use aya::sys::SyscallError;

use crate::{BpfError, Pins, batch};

/// A hash map of the kernel.
#[derive(Debug)]
pub struct Table<K: Pod, V: Pod> {
    name: &'static str,
    map: HashMap<MapData, K, V>,
    /// The same map, for system calls that aya lacks.
    descriptor: OwnedFd,
    capacity: u32,
}

impl<K: Pod, V: Pod> Table<K, V> {
    pub(crate) fn open(pins: &Pins, name: &'static str) -> Result<Self, BpfError> {
        Self::at(&pins.maps().join(name), name)
    }

    /// Opens the map that is pinned at a path.
    pub(crate) fn at(path: &Path, name: &'static str) -> Result<Self, BpfError> {
        let data = MapData::from_pin(path).map_err(failed("open", name))?;
        let info = data.info();
        let capacity = info
            .map_err(failed("ask for the size", name))?
            .max_entries();
        let descriptor = data.fd().as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(in_call("open", name))?;
        // The type of the map counts, not whether it forgets entries.
        let map = Map::from_map_data(data).and_then(HashMap::try_from);
        Ok(Self {
            name,
            map: map.map_err(failed("open", name))?,
            descriptor,
            capacity,
        })
    }

    /// Its name, as `bpftool map` shows it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many entries it holds at most.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn get(&self, key: &K) -> Result<Option<V>, BpfError> {
        match self.map.get(key, 0) {
            Ok(value) => Ok(Some(value)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(failed("read an entry", self.name)(error)),
        }
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], also when the map is full.
    pub fn insert(&mut self, key: &K, value: &V) -> Result<(), BpfError> {
        let result = self.map.insert(key, value, 0);
        result.map_err(failed("write an entry", self.name))
    }

    /// Adds an entry unless the key has one; whether it was added.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], also when the map is full.
    pub fn insert_new(&mut self, key: &K, value: &V) -> Result<bool, BpfError> {
        const BPF_NOEXIST: u64 = 1;
        match self.map.insert(key, value, BPF_NOEXIST) {
            Ok(()) => Ok(true),
            Err(MapError::SyscallError(error)) if is_errno(&error.io_error, nix::libc::EEXIST) => {
                Ok(false)
            }
            Err(error) => Err(failed("write an entry", self.name)(error)),
        }
    }

    /// Removes an entry; whether it was there.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn remove(&mut self, key: &K) -> Result<bool, BpfError> {
        match self.map.remove(key) {
            Ok(()) => Ok(true),
            Err(MapError::KeyNotFound) => Ok(false),
            Err(MapError::SyscallError(error)) if is_errno(&error.io_error, nix::libc::ENOENT) => {
                Ok(false)
            }
            Err(error) => Err(failed("remove an entry", self.name)(error)),
        }
    }

    /// Removes an entry and returns its last value, whatever packets make of it at the same time.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn take(&mut self, key: &K) -> Result<Option<V>, BpfError> {
        let taken = batch::take(self.descriptor.as_fd(), key);
        taken.map_err(in_call("remove an entry", self.name))
    }

    /// Every entry, once. Those that come or go during the listing may be missing.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn entries(&self) -> Result<Vec<(K, V)>, BpfError> {
        batch::entries(self.descriptor.as_fd()).map_err(in_call("list", self.name))
    }
}

pub(crate) fn failed(
    operation: &'static str,
    map: &'static str,
) -> impl FnOnce(MapError) -> BpfError {
    move |source| BpfError::Map {
        operation,
        map,
        source,
    }
}

/// An error of a system call that aya did not make.
fn in_call(operation: &'static str, map: &'static str) -> impl FnOnce(std::io::Error) -> BpfError {
    move |io_error| {
        let call = "bpf";
        failed(operation, map)(SyscallError { call, io_error }.into())
    }
}

pub(crate) fn is_errno(error: &std::io::Error, errno: i32) -> bool {
    error.raw_os_error() == Some(errno)
}
