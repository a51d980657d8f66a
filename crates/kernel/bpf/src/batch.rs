//! Listing of a hash map with few system calls, and what else aya lacks.
//!
//! The kernel gives a bucket at a time, so an entry that stays during the listing is listed exactly once, whatever
//! comes and goes beside it. Going from key to key costs two system calls for each entry, and begins again when
//! the key is gone.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Pod;
use nix::libc;

/// `BPF_MAP_LOOKUP_BATCH` of `enum bpf_cmd` (Linux 5.6).
const LOOKUP_BATCH: libc::c_long = 24;

/// `BPF_MAP_LOOKUP_AND_DELETE_ELEM` (Linux 5.14 for hash maps).
const LOOKUP_AND_DELETE: libc::c_long = 21;

/// Entries in one system call, unless a bucket has more.
const AT_ONCE: usize = 4_096;

/// `union bpf_attr` of the batch commands in `include/uapi/linux/bpf.h`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

/// `union bpf_attr` of the commands about one element.
#[repr(C)]
#[derive(Default)]
struct OneAttributes {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Removes an entry of a hash map whose keys and values are `K` and `V`, and returns its last value: nothing changes it
/// in between.
///
/// # Errors
///
/// That of the system, but for an entry that is not there.
pub(crate) fn take<K: Pod, V: Pod>(map: BorrowedFd<'_>, key: &K) -> io::Result<Option<V>> {
    let mut value = MaybeUninit::<V>::uninit();
    let mut attributes = OneAttributes {
        map: map.as_raw_fd().cast_unsigned(),
        key: std::ptr::from_ref(key) as u64,
        value: value.as_mut_ptr() as u64,
        ..OneAttributes::default()
    };
    // SAFETY: the kernel reads one key and writes at most one value of the map's sizes, which are those of `K` and
    // `V` because the map was opened with these types.
    #[expect(unsafe_code, reason = "aya has no such call")]
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            LOOKUP_AND_DELETE,
            &raw mut attributes,
            size_of::<OneAttributes>(),
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the kernel filled it, and any bytes are valid for `Pod`.
    #[expect(unsafe_code, reason = "the kernel filled it")]
    let value = unsafe { value.assume_init() };
    Ok(Some(value))
}

/// Every entry of a hash map whose keys and values are `K` and `V`.
///
/// # Errors
///
/// That of the system.
pub(crate) fn entries<K: Pod, V: Pod>(map: BorrowedFd<'_>) -> io::Result<Vec<(K, V)>> {
    let mut all = Vec::new();
    let mut room = AT_ONCE;
    let mut position = None;
    loop {
        let mut keys = vec![MaybeUninit::<K>::uninit(); room];
        let mut values = vec![MaybeUninit::<V>::uninit(); room];
        let mut next = 0_u32;
        let (count, error) = lookup(map, position.as_ref(), &mut next, &mut keys, &mut values);
        let code = error.as_ref().and_then(io::Error::raw_os_error);
        match (error, code) {
            (Some(_), Some(libc::ENOSPC)) => room *= 2,
            (Some(error), code) if code != Some(libc::ENOENT) => return Err(error),
            (error, _) => {
                let filled = keys.into_iter().zip(values).take(count);
                // SAFETY: the kernel filled this many, and any bytes are valid for `Pod`.
                #[expect(unsafe_code, reason = "the kernel filled them")]
                all.extend(filled.map(|(k, v)| unsafe { (k.assume_init(), v.assume_init()) }));
                if error.is_some() {
                    return Ok(all);
                }
                position = Some(next);
            }
        }
    }
}

/// The entries behind a position; how many there are, and `ENOENT` if they are the last.
fn lookup<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    position: Option<&u32>,
    next: &mut u32,
    keys: &mut [MaybeUninit<K>],
    values: &mut [MaybeUninit<V>],
) -> (usize, Option<io::Error>) {
    let room = keys.len().min(values.len());
    let mut attributes = Attributes {
        in_batch: position.map_or(0, |it| std::ptr::from_ref(it) as u64),
        out_batch: std::ptr::from_mut(next) as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: u32::try_from(room).unwrap_or(u32::MAX),
        map: map.as_raw_fd().cast_unsigned(),
        ..Attributes::default()
    };
    // SAFETY: the kernel writes at most `count` keys and values of the map's sizes, which are those of `K` and
    // `V` because the map was opened with these types, and one number of 32 bits into `next`.
    #[expect(unsafe_code, reason = "aya has no such call")]
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            LOOKUP_BATCH,
            &raw mut attributes,
            size_of::<Attributes>(),
        )
    };
    let error = (result < 0).then(io::Error::last_os_error);
    (attributes.count as usize, error)
}
