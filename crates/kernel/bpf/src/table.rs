//! Maps of the kernel, opened by their pins, as values with types.

use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use aya::Pod;
use aya::maps::{Map, MapData, MapError, MapType, PerCpuArray};
use aya::sys::SyscallError;

use crate::{BpfError, Pins, call};

/// The types of maps that have one value for each key.
const TYPES: [MapType; 4] = [
    MapType::Hash,
    MapType::LruHash,
    MapType::LpmTrie,
    MapType::Array,
];

/// A map with one value for each key: hash, LRU hash, array; a trie, whose keys are [`Prefix`](crate::Prefix).
pub struct Table<K: Pod, V: Pod> {
    name: &'static str,
    map: MapData,
    capacity: u32,
    id: u32,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Pod, V: Pod> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl<K: Pod, V: Pod> Table<K, V> {
    /// Opens the pinned map of this name.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]: no such map is pinned, or its type, keys or values are others.
    pub fn open(pins: &Pins, name: &'static str) -> Result<Self, BpfError> {
        Self::of(pinned(pins, name)?, name)
    }

    /// Every entry of the map that pins of an older version have under this name. Zeros follow a value that is shorter than
    /// `V`.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]: no such map is pinned, its type or keys are others, or its values are longer.
    pub fn older_entries(older: &Pins, name: &'static str) -> Result<Vec<(K, V)>, BpfError> {
        let map = pinned(older, name)?;
        let info = map.info().map_err(failed("ask for the size", name))?;
        check_keys::<K>(&info).map_err(failed("open", name))?;
        let size = info.value_size() as usize;
        if size > size_of::<V>() {
            check::<K, V>(&info).map_err(failed("open", name))?;
        }
        let mut all = Vec::new();
        each(&map, name, size, |key, value| all.push((key, value)))?;
        Ok(all)
    }

    /// Creates a map without a pin. The kernel removes it when the value is dropped. `name`: at most 15 letters, digits and
    /// `_`.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn create(kind: MapType, name: &'static str, capacity: u32) -> Result<Self, BpfError> {
        let made = call::create::<K, V>(kind, name, capacity);
        let made = made.map_err(in_call("create", name, "bpf_map_create"))?;
        Self::of(
            MapData::from_fd(made).map_err(failed("create", name))?,
            name,
        )
    }

    fn of(map: MapData, name: &'static str) -> Result<Self, BpfError> {
        let info = map.info().map_err(failed("ask for the size", name))?;
        check::<K, V>(&info).map_err(failed("open", name))?;
        Ok(Self {
            name,
            map,
            capacity: info.max_entries(),
            id: info.id(),
            types: PhantomData,
        })
    }

    /// Pins a map that [`create`](Self::create) made, for tests. The folder of the maps is there.
    ///
    /// # Errors
    ///
    /// [`BpfError::Machine`].
    #[cfg(feature = "testing")]
    pub fn pin(&self, pins: &Pins) -> Result<(), BpfError> {
        let pinned = self.map.pin(pins.maps().join(self.name));
        pinned.map_err(|error| BpfError::Machine {
            operation: "pin a map",
            source: error.into(),
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.map.fd().as_fd()
    }

    /// The map's name, as `bpftool map` shows it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The largest number of entries.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The map's id, which no other map has.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The value of a key. In a trie, of the longest prefix that contains the key.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn get(&self, key: &K) -> Result<Option<V>, BpfError> {
        let call = "bpf_map_lookup_elem";
        call::get(self.fd(), key).map_err(in_call("read an entry", self.name, call))
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], also when the map is full.
    pub fn insert(&mut self, key: &K, value: &V) -> Result<(), BpfError> {
        let result = call::set(self.fd(), key, value, 0);
        result.map_err(in_call("write an entry", self.name, UPDATE))
    }

    /// Adds an entry unless the key has one. Returns whether it was added.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], also when the map is full.
    pub fn insert_new(&mut self, key: &K, value: &V) -> Result<bool, BpfError> {
        const BPF_NOEXIST: u64 = 1;
        match call::set(self.fd(), key, value, BPF_NOEXIST) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(nix::libc::EEXIST) => Ok(false),
            Err(error) => Err(in_call("write an entry", self.name, UPDATE)(error)),
        }
    }

    /// Removes an entry. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn remove(&mut self, key: &K) -> Result<bool, BpfError> {
        let call = "bpf_map_delete_elem";
        call::remove(self.fd(), key).map_err(in_call("remove an entry", self.name, call))
    }

    /// Removes an entry and returns its last value, even while programs change it. For hash maps only.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn take(&mut self, key: &K) -> Result<Option<V>, BpfError> {
        call::take(self.fd(), key).map_err(in_call("remove an entry", self.name, "bpf"))
    }

    /// Every entry, once. Entries that are added or removed during the listing may be missing.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn entries(&self) -> Result<Vec<(K, V)>, BpfError> {
        let mut all = Vec::new();
        self.each(|key, value| all.push((key, value)))?;
        Ok(all)
    }

    /// Calls a function with each of [`entries`](Self::entries), which takes no memory for them.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn each(&self, entry: impl FnMut(K, V)) -> Result<(), BpfError> {
        each(&self.map, self.name, size_of::<V>(), entry)
    }
}

/// Every entry of a map with keys `K`. Its values have this size in bytes; where that of `V` is larger, zeros follow.
fn each<K: Pod, V: Pod>(
    map: &MapData,
    name: &'static str,
    value_size: usize,
    mut entry: impl FnMut(K, V),
) -> Result<(), BpfError> {
    let listed = call::each(
        map.fd().as_fd(),
        size_of::<K>(),
        value_size,
        |keys, values| {
            let keys = keys.chunks_exact(size_of::<K>());
            for (key, value) in keys.zip(values.chunks_exact(value_size)) {
                entry(of_bytes(key), of_bytes(value));
            }
        },
    );
    listed.map_err(in_call("list", name, "bpf"))
}

/// A value that begins with these bytes, and goes on with zeros.
fn of_bytes<T: Pod>(bytes: &[u8]) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: so many bytes are there on both sides, and any bytes are valid for `Pod`.
    #[expect(unsafe_code, reason = "the kernel wrote them")]
    unsafe {
        value
            .as_mut_ptr()
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), length);
        value.assume_init()
    }
}

fn check_keys<K>(info: &aya::maps::MapInfo) -> Result<(), MapError> {
    let kind = info.map_type()?;
    if !TYPES.contains(&kind) {
        return Err(MapError::InvalidMapType {
            map_type: kind as u32,
        });
    }
    let (size, expected) = (size_of::<K>(), info.key_size() as usize);
    if size != expected {
        return Err(MapError::InvalidKeySize { size, expected });
    }
    Ok(())
}

fn check<K, V>(info: &aya::maps::MapInfo) -> Result<(), MapError> {
    check_keys::<K>(info)?;
    let (size, expected) = (size_of::<V>(), info.value_size() as usize);
    if size != expected {
        return Err(MapError::InvalidValueSize { size, expected });
    }
    Ok(())
}

/// Copies every entry of a pinned map to another one with keys and values of the same sizes.
pub(crate) fn copy(name: &'static str, from: &Path, to: &Path) -> Result<(), BpfError> {
    let old = MapData::from_pin(from).map_err(failed("open", name))?;
    let new = MapData::from_pin(to).map_err(failed("open", name))?;
    let info = old.info().map_err(failed("ask for the size", name))?;
    let key_size = info.key_size() as usize;
    let all = call::entries(old.fd().as_fd(), key_size, info.value_size() as usize);
    let all = all.map_err(in_call("list", name, "bpf"))?;
    let written = call::set_all(new.fd().as_fd(), key_size, &all);
    written.map_err(in_call("write an entry", name, "bpf"))
}

/// The largest number of entries of the pinned map of this name.
pub(crate) fn capacity(pins: &Pins, name: &'static str) -> Result<u32, BpfError> {
    let info = pinned(pins, name)?.info();
    Ok(info
        .map_err(failed("ask for the size", name))?
        .max_entries())
}

/// An array of one value.
#[derive(Debug)]
pub struct Single<V: Pod> {
    table: Table<u32, V>,
    /// Locked by a process while it changes the value.
    folder: File,
}

impl<V: Pod> Single<V> {
    /// Opens the pinned map of this name.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]: no such map is pinned, or its value is another. [`BpfError::Pin`].
    pub fn open(pins: &Pins, name: &'static str) -> Result<Self, BpfError> {
        Ok(Self {
            table: Table::open(pins, name)?,
            folder: pins.open_maps()?,
        })
    }

    /// The value; all zeros before it was set.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn get(&self) -> Result<V, BpfError> {
        let missing = || failed("read an entry", self.table.name)(MapError::KeyNotFound);
        self.table.get(&0)?.ok_or_else(missing)
    }

    /// Replaces the value.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn set(&mut self, value: &V) -> Result<(), BpfError> {
        self.table.insert(&0, value)
    }

    /// Changes the value. No other process changes it meanwhile.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`], [`BpfError::Machine`].
    pub fn change(&mut self, change: impl FnOnce(&mut V)) -> Result<(), BpfError> {
        let failed_lock = |source: std::io::Error| BpfError::Machine {
            operation: "lock the maps",
            source: source.into(),
        };
        self.folder.lock().map_err(failed_lock)?;
        let changed = self.get().and_then(|mut value| {
            change(&mut value);
            self.set(&value)
        });
        self.folder.unlock().map_err(failed_lock)?;
        changed
    }
}

/// An array of numbers, with a copy for each processor.
pub struct Counters {
    name: &'static str,
    map: PerCpuArray<MapData, u64>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Counters {
    /// Opens the pinned map of this name.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn open(pins: &Pins, name: &'static str) -> Result<Self, BpfError> {
        let map = Map::from_map_data(pinned(pins, name)?).and_then(PerCpuArray::try_from);
        let map = map.map_err(failed("open", name))?;
        Ok(Self { name, map })
    }

    /// The sum over all processors of the number at this index.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`].
    pub fn sum(&self, index: u32) -> Result<u64, BpfError> {
        let values = self.map.get(&index, 0);
        let values = values.map_err(failed("read an entry", self.name))?;
        Ok(values.iter().sum())
    }
}

const UPDATE: &str = "bpf_map_update_elem";

pub(crate) fn pinned(pins: &Pins, name: &'static str) -> Result<MapData, BpfError> {
    MapData::from_pin(pins.maps().join(name)).map_err(failed("open", name))
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

/// The error of this system call.
fn in_call(
    operation: &'static str,
    map: &'static str,
    call: &'static str,
) -> impl FnOnce(std::io::Error) -> BpfError {
    move |io_error| failed(operation, map)(SyscallError { call, io_error }.into())
}
