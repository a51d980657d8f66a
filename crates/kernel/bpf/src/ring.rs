//! Ring buffers: records that programs send to the process.

use std::fmt;
use std::fs::{File, TryLockError};
use std::marker::PhantomData;
use std::os::fd::AsFd;

use aya::Pod;
use aya::maps::{Map, MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::table::{failed, pinned};
use crate::{BpfError, Pins};

/// A ring buffer of records. One reader at a time, because a record that is taken is gone.
pub struct Ring<T: Pod> {
    buffer: RingBuf<MapData>,
    /// Locked as long as the value lives.
    _folder: File,
    records: PhantomData<fn() -> T>,
}

impl<T: Pod> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl<T: Pod> Ring<T> {
    /// Opens the pinned buffer of this name.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]; [`BpfError::Busy`] while a buffer of these pins has another reader.
    pub fn open(pins: &Pins, name: &'static str) -> Result<Self, BpfError> {
        let folder = lock(pins)?.ok_or(BpfError::Busy)?;
        let map = Map::from_map_data(pinned(pins, name)?).and_then(RingBuf::try_from);
        Ok(Self {
            buffer: map.map_err(failed("open", name))?,
            _folder: folder,
            records: PhantomData,
        })
    }

    /// The next record; `None` when there is none yet.
    pub fn take(&mut self) -> Option<T> {
        let item = self.buffer.next()?;
        (item.len() == size_of::<T>()).then(|| {
            // SAFETY: the length is the type's, and any bytes are valid for `Pod`.
            #[expect(unsafe_code, reason = "the kernel wrote it")]
            unsafe {
                item.as_ptr().cast::<T>().read_unaligned()
            }
        })
    }

    /// Waits for a record, at most this long. It may end sooner.
    pub fn wait(&self, milliseconds: u16) {
        let mut buffers = [PollFd::new(self.buffer.as_fd(), PollFlags::POLLIN)];
        // A signal ends the wait as well.
        let _ = poll(&mut buffers, PollTimeout::from(milliseconds));
    }
}

/// Whether the ring buffers of these pins have no reader.
///
/// # Errors
///
/// [`BpfError::Pin`].
pub fn are_unread(pins: &Pins) -> Result<bool, BpfError> {
    Ok(lock(pins)?.is_some())
}

/// Takes the lock of readers; `None` while another reader has it.
fn lock(pins: &Pins) -> Result<Option<File>, BpfError> {
    let folder = pins.open_folder()?;
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(BpfError::Machine {
            operation: "lock the pins",
            source: source.into(),
        }),
    }
}
