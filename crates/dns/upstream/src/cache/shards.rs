//! A map of answers, bounded in entries and in bytes, in parts that are locked one at a time.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::entry::Entry;
use crate::question::Key;

/// The default capacity, 9984, is a multiple of this.
const SHARDS: usize = 64;
/// Bytes that a capacity of one entry allows: an answer with eight addresses and its key need
/// about 400.
const BYTES_PER_ENTRY: usize = 1024;
/// Bytes of one entry beside key and message: the list's node and the table's slot.
const OVERHEAD: usize = mem::size_of::<Entry>() + mem::size_of::<Key>() + 64;

/// One half of the cache.
#[derive(Debug)]
pub(super) struct Shards {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

/// Part of a half. The least recently used entry goes first.
#[derive(Debug)]
struct Shard {
    entries: LruCache<Key, Entry, RandomState>,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
}

impl Shards {
    /// `capacity` is rounded to a multiple of the number of shards, at least one entry each.
    pub(super) fn new(capacity: usize) -> Self {
        let max_entries = (capacity / SHARDS).max(1);
        let shard = || {
            Mutex::new(Shard {
                entries: LruCache::unbounded_with_hasher(RandomState::new()),
                bytes: 0,
                max_entries,
                max_bytes: max_entries * BYTES_PER_ENTRY,
            })
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Calls `look` with the entry of `key`, which becomes the most recently used one.
    pub(super) fn with<T>(&self, key: &Key, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.shard(key).entries.get_mut(key).map(look)
    }

    /// Keeps `entry` if it is not too large for a shard, and returns how many others had to go.
    pub(super) fn insert(&self, key: Key, entry: Entry) -> u64 {
        let mut shard = self.shard(&key);
        let cost = cost(&key, &entry);
        if cost > shard.max_bytes {
            return 0;
        }
        if let Some((old_key, old)) = shard.entries.push(key, entry) {
            shard.bytes -= self::cost(&old_key, &old);
        }
        shard.bytes += cost;
        let mut evicted = 0;
        while shard.entries.len() > shard.max_entries || shard.bytes > shard.max_bytes {
            let (key, entry) = shard
                .entries
                .pop_lru()
                .expect("an empty shard is within its bounds");
            shard.bytes -= self::cost(&key, &entry);
            evicted += 1;
        }
        evicted
    }

    pub(super) fn remove(&self, key: &Key) -> Option<Entry> {
        let mut shard = self.shard(key);
        let (key, entry) = shard.entries.pop_entry(key)?;
        shard.bytes -= cost(&key, &entry);
        Some(entry)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|it| lock(it).entries.len()).sum()
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|it| lock(it).bytes).sum()
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64)
            .expect("below the number of shards");
        lock(&self.shards[hash])
    }
}

/// A shard whose thread panicked is still a valid map: its byte count is at worst too high.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cost(key: &Key, entry: &Entry) -> usize {
    key.0.len() + entry.wire.len() + OVERHEAD
}
