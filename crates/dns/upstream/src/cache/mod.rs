//! The plugin `cache`: answers of upstreams, kept for their TTL.
//!
//! Pure but for its locks: the clock is an argument and nothing is sent. The engine looks up a
//! question, asks the upstream when it must and stores the answer. Answers of the plugin
//! `kubernetes` never come here, because a changed object must be answered at once.

mod classify;
mod counters;
mod entry;
mod shards;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Name;
use sluice_corefile::{Cache as Settings, Refresh};

pub use counters::{Counter, Counters, Half};

use classify::Class;
use entry::Entry;
use shards::Shards;

use crate::question::{Key, Question};

/// The cache of one server block.
#[derive(Debug)]
pub struct Cache {
    settings: Settings,
    success: Shards,
    denial: Shards,
    counters: Counters,
}

/// The result of a look-up.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing: ask the upstream and store its answer.
    Miss,
    Hit {
        /// The response, with id 0 and without OPT.
        response: Message,
        /// Whether to ask the upstream after the response is sent, and store its answer.
        refresh: bool,
    },
    /// An expired answer (`serve_stale … verify`): ask the upstream first, and when that fails
    /// give this to [`Cache::serve_stale`].
    Expired(ExpiredAnswer),
}

/// An expired answer that may be served when the upstream gives none.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpiredAnswer(Message);

impl Cache {
    /// An empty cache.
    pub fn new(settings: Settings) -> Self {
        Self {
            success: Shards::new(settings.success.capacity),
            denial: Shards::new(settings.denial.capacity),
            counters: Counters::default(),
            settings,
        }
    }

    /// Looks up `question` at the time `now`.
    pub fn lookup(&self, question: &Question, now: Instant) -> Lookup {
        if !self.covers(question) {
            return Lookup::Miss;
        }
        self.counters.requests.add(1);
        let key = question.key();
        for half in Half::ALL {
            let found = self.half(half).with(&key, |entry| self.found(entry, now));
            let Some(Some(found)) = found else { continue };
            let Ok(kept) = Message::from_vec(&found.wire) else {
                continue;
            };
            self.counters.hits[half as usize].add(1);
            return self.answer(question, kept, &found);
        }
        self.counters.misses.add(1);
        Lookup::Miss
    }

    /// Keeps `response`, an upstream's answer to `question`, if it may be kept. Returns it with
    /// the TTL that clients see: one for all records, within the configured bounds, so that it
    /// does not jump when the same answer comes from the cache.
    pub fn store(&self, question: &Question, mut response: Message, now: Instant) -> Message {
        if !self.covers(question) {
            return response;
        }
        if response.queries.as_slice() != [question.query.clone()] {
            self.counters.drops.add(1);
            return response;
        }
        let Some((class, ttl)) = classify::classify(question, &response) else {
            return response;
        };
        let (half, ttl) = self.place(class, ttl);
        set_ttl(&mut response, ttl);
        if !ttl.is_zero() && !self.is_disabled(half, question) {
            self.keep(question.key(), &response, class, half, ttl, now);
        }
        response
    }

    /// The response of an expired answer, after the upstream gave none.
    pub fn serve_stale(&self, expired: ExpiredAnswer) -> Message {
        self.counters.served_stale.add(1);
        expired.0
    }

    /// Counters since the cache was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// `coredns_cache_entries`: number of answers in `half`.
    pub fn entries(&self, half: Half) -> usize {
        self.half(half).len()
    }

    /// Memory that the answers and their keys take, in bytes.
    pub fn bytes(&self) -> usize {
        self.success.bytes() + self.denial.bytes()
    }

    /// Decides whether an entry is served, and marks a refresh that begins with it.
    fn found(&self, entry: &mut Entry, now: Instant) -> Option<Found> {
        let wants_prefetch = self
            .settings
            .prefetch
            .is_some_and(|prefetch| entry.wants_prefetch(&prefetch, now));
        let (ttl, stale) = match (entry.remaining(now), self.settings.serve_stale) {
            (Some(_), _) if self.settings.keep_ttl => (entry.ttl, None),
            (Some(remaining), _) => (remaining, None),
            (None, Some(stale)) if entry.expired_for(now) < stale.duration => {
                (Duration::ZERO, Some(stale.refresh))
            }
            _ => return None,
        };
        let refresh = stale.map_or(wants_prefetch, |it| it == Refresh::Immediate);
        Some(Found {
            wire: Arc::clone(&entry.wire),
            ttl,
            stale,
            refresh: refresh && entry.begin_refresh(now),
        })
    }

    fn answer(&self, question: &Question, kept: Message, found: &Found) -> Lookup {
        let mut response = question.response(kept);
        // As CoreDNS: there are clients that throw away what is not authoritative.
        response.metadata.authoritative = true;
        set_ttl(&mut response, found.ttl);
        if found.refresh {
            self.counters.prefetches.add(1);
        }
        match found.stale {
            Some(Refresh::Verify) => return Lookup::Expired(ExpiredAnswer(response)),
            Some(Refresh::Immediate) => self.counters.served_stale.add(1),
            None => {}
        }
        let refresh = found.refresh;
        Lookup::Hit { response, refresh }
    }

    /// The half for an answer of `class`, and its TTL within the half's bounds.
    fn place(&self, class: Class, ttl: Duration) -> (Half, Duration) {
        let (half, bounds) = match class {
            Class::Success => (Half::Success, &self.settings.success),
            Class::Denial => (Half::Denial, &self.settings.denial),
            Class::Failure => return (Half::Denial, self.settings.servfail),
        };
        (half, ttl.max(bounds.min_ttl).min(bounds.max_ttl))
    }

    fn keep(
        &self,
        key: Key,
        response: &Message,
        class: Class,
        half: Half,
        ttl: Duration,
        now: Instant,
    ) {
        // A failure does not push out an answer that could still be served.
        if class == Class::Failure && self.has_usable(&key, now) {
            return;
        }
        let Ok(wire) = response.to_vec() else { return };
        let mut entry = Entry::new(wire.into(), class, ttl, now);
        for other in Half::ALL {
            if let Some(old) = self.half(other).remove(&key) {
                entry.inherit(&old);
            }
        }
        let evicted = self.half(half).insert(key, entry);
        self.counters.evictions[half as usize].add(evicted);
    }

    fn has_usable(&self, key: &Key, now: Instant) -> bool {
        let stale = self
            .settings
            .serve_stale
            .map_or(Duration::ZERO, |it| it.duration);
        Half::ALL.into_iter().any(|half| {
            let usable = |entry: &mut Entry| {
                entry.class != Class::Failure
                    && (entry.remaining(now).is_some() || entry.expired_for(now) < stale)
            };
            self.half(half).with(key, usable).unwrap_or(false)
        })
    }

    fn covers(&self, question: &Question) -> bool {
        question.is_cacheable() && contains(&self.settings.zones, &question.query.name)
    }

    fn is_disabled(&self, half: Half, question: &Question) -> bool {
        let zones = match half {
            Half::Success => &self.settings.disable_success,
            Half::Denial => &self.settings.disable_denial,
        };
        contains(zones, &question.query.name)
    }

    fn half(&self, half: Half) -> &Shards {
        match half {
            Half::Success => &self.success,
            Half::Denial => &self.denial,
        }
    }
}

/// The parts of an entry that are copied while its shard is locked.
struct Found {
    wire: Arc<[u8]>,
    /// The TTL that the client sees.
    ttl: Duration,
    /// For an expired answer: when the upstream is asked.
    stale: Option<Refresh>,
    refresh: bool,
}

/// Sets the TTL of all records. Rounded down: no client keeps an answer for longer than its TTL.
fn set_ttl(message: &mut Message, ttl: Duration) {
    let seconds = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    let sections = [
        &mut message.answers,
        &mut message.authorities,
        &mut message.additionals,
    ];
    for record in sections.into_iter().flatten() {
        record.ttl = seconds;
    }
}

fn contains(zones: &[Name], name: &Name) -> bool {
    zones.iter().any(|zone| zone.zone_of(name))
}

/// Whether an upstream's answer should replace an expired one (RFC 8767, section 4).
pub fn is_answer(response: &Message) -> bool {
    matches!(
        response.response_code,
        ResponseCode::NoError | ResponseCode::NXDomain
    )
}

#[cfg(test)]
mod tests;
