//! Which Events are written: client-go's `EventCorrelator` (`tools/record/events_cache.go`), so that what is wrong for long,
//! and tried again at every change of the cluster, does not fill it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use lru::LruCache;

/// Most objects, and most groups of similar Events, that are remembered (`maxLruCacheEntries`).
const ENTRIES: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

/// Events about one object that are written at once (`defaultSpamBurst`).
const BURST: f64 = 25.0;

/// Time until one more may be written (`defaultSpamQPS`).
const REFILL: Duration = Duration::from_secs(300);

/// Messages of similar Events that are written each for itself (`defaultAggregateMaxEvents`).
const SIMILAR: usize = 10;

/// Time without a similar Event after which the next begins a new group (`defaultAggregateIntervalInSeconds`).
const FORGOTTEN: Duration = Duration::from_secs(600);

/// How an Event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is written, or its repetition counted.
    Told,
    /// It is counted in an Event that stands for all that are similar.
    Combined,
    /// There were too many about the object.
    Silent,
}

/// What a reporter said lately. Hashes stand for objects, groups and messages.
pub(super) struct Correlator {
    hasher: RandomState,
    objects: LruCache<u64, Bucket>,
    groups: LruCache<u64, Group>,
}

/// A bucket of tokens, one for each Event.
struct Bucket {
    tokens: f64,
    at: Instant,
}

struct Group {
    messages: BTreeSet<u64>,
    last: Instant,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            objects: LruCache::new(ENTRIES),
            groups: LruCache::new(ENTRIES),
        }
    }
}

impl Correlator {
    /// Decides about an Event. `sort` is its reason, and whether it is a warning.
    pub(super) fn correlate(
        &mut self,
        about: &ObjectReference,
        sort: (&str, bool),
        message: &str,
        now: Instant,
    ) -> Outcome {
        let object = self.hasher.hash_one((
            about.kind.as_deref(),
            about.namespace.as_deref(),
            about.name.as_deref(),
            about.uid.as_deref(),
        ));
        let group = self.hasher.hash_one((object, sort));
        let message = self.hasher.hash_one(message);
        // Events that are not written count, too.
        let is_combined = self.is_combined(group, message, now);
        if !self.is_allowed(object, now) {
            return Outcome::Silent;
        }
        if is_combined {
            Outcome::Combined
        } else {
            Outcome::Told
        }
    }

    fn is_combined(&mut self, group: u64, message: u64, now: Instant) -> bool {
        let group = self.groups.get_or_insert_mut(group, || Group {
            messages: BTreeSet::new(),
            last: now,
        });
        if now.saturating_duration_since(group.last) > FORGOTTEN {
            group.messages.clear();
        }
        group.last = now;
        group.messages.insert(message);
        let is_combined = group.messages.len() >= SIMILAR;
        if is_combined {
            group.messages.pop_first();
        }
        is_combined
    }

    fn is_allowed(&mut self, object: u64, now: Instant) -> bool {
        let bucket = self.objects.get_or_insert_mut(object, || Bucket {
            tokens: BURST,
            at: now,
        });
        let since = now.saturating_duration_since(bucket.at);
        let refilled = since.as_secs_f64() / REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + refilled).min(BURST);
        bucket.at = now;
        let is_allowed = bucket.tokens >= 1.0;
        if is_allowed {
            bucket.tokens -= 1.0;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests;
