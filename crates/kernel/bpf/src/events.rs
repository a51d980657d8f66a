//! What programs did with packets, while somebody asks: the ring buffer EVENTS.

use std::fmt;
use std::fs::{File, TryLockError};
use std::os::fd::AsFd;

use aya::maps::{Map, MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sluice_bpf_abi::Event;

use crate::maps::pinned;
use crate::table::failed;
use crate::{BpfError, Pins};

/// The ring buffer of what programs did. One reader at a time, because an event that is taken is gone.
pub struct Events {
    buffer: RingBuf<MapData>,
    /// Locked as long as the value lives.
    _folder: File,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    const NAME: &'static str = "EVENTS";

    /// Opens the buffer of pins.
    ///
    /// # Errors
    ///
    /// [`BpfError::Map`]; [`BpfError::Busy`] while another reader lives.
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        let folder = lock(pins)?.ok_or(BpfError::Busy)?;
        let map = Map::from_map_data(pinned(pins, Self::NAME)?).and_then(RingBuf::try_from);
        Ok(Self {
            buffer: map.map_err(failed("open", Self::NAME))?,
            _folder: folder,
        })
    }

    /// Whether nobody reads events in this network namespace.
    ///
    /// # Errors
    ///
    /// [`BpfError::Pin`].
    pub fn are_unread(pins: &Pins) -> Result<bool, BpfError> {
        Ok(lock(pins)?.is_some())
    }

    /// The next event; `None` when there is none yet.
    pub fn take(&mut self) -> Option<Event> {
        let item = self.buffer.next()?;
        (item.len() == size_of::<Event>()).then(|| {
            // SAFETY: the length is the type's, and any bytes are an event.
            #[expect(unsafe_code, reason = "the kernel wrote it")]
            unsafe {
                item.as_ptr().cast::<Event>().read_unaligned()
            }
        })
    }

    /// Waits for an event, at most this long. It may end sooner.
    pub fn wait(&self, milliseconds: u16) {
        let mut buffers = [PollFd::new(self.buffer.as_fd(), PollFlags::POLLIN)];
        // A signal ends it as well.
        let _ = poll(&mut buffers, PollTimeout::from(milliseconds));
    }
}

/// The lock of readers; `None` while another one has it.
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
