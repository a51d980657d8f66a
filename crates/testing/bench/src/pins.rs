//! Pins of programs that go with the value.

use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of the bpf file system, which is removed when the value is dropped.
pub(super) struct Pins(u32);

impl Pins {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/sys/fs/bpf/sluice-bench-{}-{}",
            process::id(),
            self.0
        ))
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        fs::remove_dir_all(self.path()).ok();
    }
}
