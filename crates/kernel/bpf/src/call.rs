//! System calls about the entries of a map. One set serves every type of map with one value for each key: hash maps,
//! tries, arrays, maps of maps. aya has a type of its own for each, and no call for many entries at once.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use aya::Pod;
use aya::maps::MapType;
use nix::libc;

/// Numbers of `enum bpf_cmd` in `include/uapi/linux/bpf.h`.
const CREATE: libc::c_long = 0;
const LOOKUP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const DELETE: libc::c_long = 3;
/// Linux 5.14 for hash maps.
const LOOKUP_AND_DELETE: libc::c_long = 21;
/// Linux 5.6; for tries 5.13.
const LOOKUP_BATCH: libc::c_long = 24;
const UPDATE_BATCH: libc::c_long = 26;

/// `BPF_F_NO_PREALLOC` of `include/uapi/linux/bpf.h`.
const NO_PREALLOC: u32 = 1;

/// Entries in one system call, unless a bucket has more.
const AT_ONCE: usize = 4_096;

/// `union bpf_attr` of the commands about one entry.
#[repr(C)]
#[derive(Default)]
struct One {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` of the commands about many entries.
#[repr(C)]
#[derive(Default)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

/// `union bpf_attr` of the command that creates a map.
#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    capacity: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

/// Every entry of a map as bytes: all keys in a row, and all values in the same order.
pub(crate) struct Entries {
    pub(crate) keys: Vec<u8>,
    pub(crate) values: Vec<u8>,
}

/// # Safety
///
/// The addresses in the attributes have room for what the kernel reads and writes there.
#[expect(unsafe_code, reason = "aya has no such calls")]
unsafe fn bpf<A>(command: libc::c_long, attributes: &mut A) -> io::Result<RawFd> {
    // SAFETY: the caller's promise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<A>(),
        )
    };
    match RawFd::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Creates a map without a pin. `name`: at most 15 letters, digits and `_`.
pub(crate) fn create<K: Pod, V: Pod>(
    kind: MapType,
    name: &str,
    capacity: u32,
) -> io::Result<OwnedFd> {
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut attributes = Create {
        kind: kind as u32,
        key_size: size(size_of::<K>()),
        value_size: size(size_of::<V>()),
        capacity,
        // The kernel has no other tries.
        flags: if kind == MapType::LpmTrie {
            NO_PREALLOC
        } else {
            0
        },
        ..Create::default()
    };
    let room = attributes.name.iter_mut().take(15);
    room.zip(name.bytes()).for_each(|(to, from)| *to = from);
    // SAFETY: the kernel reads the attributes only, and returns a descriptor that is ours.
    #[expect(unsafe_code, reason = "the kernel reads memory")]
    unsafe {
        let descriptor = bpf(CREATE, &mut attributes)?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

fn is_not_there(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOENT)
}

/// The value of a key in a map whose keys and values are `K` and `V`.
pub(crate) fn get<K: Pod, V: Pod>(map: BorrowedFd<'_>, key: &K) -> io::Result<Option<V>> {
    read(LOOKUP, map, key)
}

/// Removes an entry, and returns its last value: nothing changes it in between.
pub(crate) fn take<K: Pod, V: Pod>(map: BorrowedFd<'_>, key: &K) -> io::Result<Option<V>> {
    read(LOOKUP_AND_DELETE, map, key)
}

fn read<K: Pod, V: Pod>(
    command: libc::c_long,
    map: BorrowedFd<'_>,
    key: &K,
) -> io::Result<Option<V>> {
    let mut value = MaybeUninit::<V>::uninit();
    let mut attributes = One {
        map: map.as_raw_fd().cast_unsigned(),
        key: std::ptr::from_ref(key) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads one key and writes one value of the map's sizes, which are those of `K` and `V`: the
    // table was opened with these types. It wrote the value when it succeeds, and any bytes are valid for `Pod`.
    #[expect(unsafe_code, reason = "the kernel reads and writes memory")]
    unsafe {
        match bpf(command, &mut attributes) {
            Ok(_) => Ok(Some(value.assume_init())),
            Err(error) if is_not_there(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Adds or replaces an entry. `flags`: `BPF_NOEXIST` and so on.
pub(crate) fn set<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    key: &K,
    value: &V,
    flags: u64,
) -> io::Result<()> {
    let mut attributes = One {
        map: map.as_raw_fd().cast_unsigned(),
        key: std::ptr::from_ref(key) as u64,
        value: std::ptr::from_ref(value) as u64,
        flags,
    };
    // SAFETY: the kernel reads one key and one value of the map's sizes, which are those of `K` and `V`.
    #[expect(unsafe_code, reason = "the kernel reads memory")]
    unsafe {
        bpf(UPDATE, &mut attributes).map(drop)
    }
}

/// Removes an entry; whether it was there.
pub(crate) fn remove<K: Pod>(map: BorrowedFd<'_>, key: &K) -> io::Result<bool> {
    let mut attributes = One {
        map: map.as_raw_fd().cast_unsigned(),
        key: std::ptr::from_ref(key) as u64,
        ..One::default()
    };
    // SAFETY: the kernel reads one key of the map's size, which is that of `K`.
    #[expect(unsafe_code, reason = "the kernel reads memory")]
    match unsafe { bpf(DELETE, &mut attributes) } {
        Ok(_) => Ok(true),
        Err(error) if is_not_there(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Every entry of a map with keys and values of these sizes in bytes, in parts.
///
/// Of a hash map the kernel gives a bucket at a time, so an entry that stays during the listing is listed exactly once,
/// whatever comes and goes beside it. Going from key to key would cost two system calls for each entry, and begin again
/// when a key is gone.
pub(crate) fn each(
    map: BorrowedFd<'_>,
    key_size: usize,
    value_size: usize,
    mut part: impl FnMut(&[u8], &[u8]),
) -> io::Result<()> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut room = AT_ONCE;
    // The number of a bucket, or a key: the kernel writes it, and reads it in the next call.
    let mut position = vec![0_u8; key_size.max(size_of::<u32>())];
    let mut is_first = true;
    loop {
        keys.resize(room * key_size, 0);
        values.resize(room * value_size, 0);
        let mut attributes = Batch {
            in_batch: if is_first {
                0
            } else {
                position.as_ptr() as u64
            },
            out_batch: position.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: u32::try_from(room).unwrap_or(u32::MAX),
            map: map.as_raw_fd().cast_unsigned(),
            ..Batch::default()
        };
        // SAFETY: the kernel writes at most `count` keys and values of the map's sizes, for which there is room, and
        // a position of at most the size of a key or of a number.
        #[expect(unsafe_code, reason = "the kernel writes memory")]
        let result = unsafe { bpf(LOOKUP_BATCH, &mut attributes) };
        let code = result.as_ref().err().and_then(io::Error::raw_os_error);
        let count = match code {
            Some(libc::ENOSPC) => 0,
            None | Some(libc::ENOENT) => attributes.count as usize,
            Some(_) => return result.map(|_| unreachable!("it has a code")),
        };
        part(&keys[..count * key_size], &values[..count * value_size]);
        match code {
            // A bucket has more entries.
            Some(libc::ENOSPC) => room *= 2,
            Some(_) => return Ok(()),
            None => is_first = false,
        }
    }
}

/// Every entry of a map with keys and values of these sizes in bytes.
pub(crate) fn entries(
    map: BorrowedFd<'_>,
    key_size: usize,
    value_size: usize,
) -> io::Result<Entries> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    each(map, key_size, value_size, |some_keys, some_values| {
        keys.extend_from_slice(some_keys);
        values.extend_from_slice(some_values);
    })?;
    Ok(Entries { keys, values })
}

/// Adds or replaces entries in a map with keys of this size in bytes.
pub(crate) fn set_all(map: BorrowedFd<'_>, key_size: usize, all: &Entries) -> io::Result<()> {
    let count = all.keys.len() / key_size;
    if count == 0 {
        return Ok(());
    }
    let mut attributes = Batch {
        keys: all.keys.as_ptr() as u64,
        values: all.values.as_ptr() as u64,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        map: map.as_raw_fd().cast_unsigned(),
        ..Batch::default()
    };
    // SAFETY: the kernel reads `count` keys and values, which came from a map with the same sizes.
    #[expect(unsafe_code, reason = "the kernel reads memory")]
    unsafe {
        bpf(UPDATE_BATCH, &mut attributes).map(drop)
    }
}
