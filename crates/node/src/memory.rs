//! Memory that was needed once.
//!
//! glibc keeps what is freed for the next time. After the Services of many tenants have gone that is more than half of what the
//! process has, and other pods of the node could use it.

use std::time::{Duration, Instant};

/// So many events may leave much memory free.
const MUCH: usize = 10_000;

/// Time from then until free memory is given back: more events may come.
const WAIT: Duration = Duration::from_secs(10);

/// When free memory is to be given back. Pure: time is an argument.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Events since it was given back last.
    events: usize,
    due: Option<Instant>,
}

impl Memory {
    /// So many events were absorbed.
    pub(crate) fn worked(&mut self, events: usize, now: Instant) {
        self.events += events;
        if self.events >= MUCH {
            self.due.get_or_insert(now + WAIT);
        }
    }

    /// When to ask [`Memory::is_due`].
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether to give free memory back now. The next time is after as many events again.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|it| it <= now);
        if is_due {
            *self = Self::default();
        }
        is_due
    }
}

/// Gives the pages that nothing uses back to the kernel. Other C libraries than glibc do so by themselves.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "nix has no such function")]
    // SAFETY: it touches no memory that is in use, and may be called at any time.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_back_once_after_much_work() {
        let start = Instant::now();
        let mut memory = Memory::default();
        memory.worked(MUCH - 1, start);
        assert_eq!(memory.due(), None);
        memory.worked(1, start);
        memory.worked(MUCH, start + WAIT / 2);
        assert_eq!(memory.due(), Some(start + WAIT));
        assert!(!memory.is_due(start + WAIT / 2));
        assert!(memory.is_due(start + WAIT));
        assert!(!memory.is_due(start + 2 * WAIT));
        assert_eq!(memory.due(), None);
    }

    /// Every second page goes: the allocator gives back by itself only what is at the end of its memory.
    #[cfg(target_env = "gnu")]
    #[test]
    fn what_is_free_goes_back() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").expect("every process has one");
            let pages = statm.split(' ').nth(1).and_then(|it| it.parse().ok());
            pages.map_or(0, |it: usize| it * 4096)
        };
        let mut blocks: Vec<Vec<u8>> = (0..2_000).map(|it| vec![it as u8; 32 << 10]).collect();
        let mut index = 0;
        blocks.retain(|_| {
            index += 1;
            index % 2 == 0
        });
        let before = resident();
        give_back();
        let after = resident();
        assert!(after + (20 << 20) < before, "{before} {after}");
        drop(blocks);
    }
}
