//! Events expire: an hour after their last write, and the oldest when there are too many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::history::Event;
use crate::object::Key;
use crate::resource::Resource;

/// Most Events.
const MOST: usize = 1_000;

/// kube-apiserver's `--event-ttl`.
const TTL: Duration = Duration::from_secs(3600);

/// The Events of a store by the version of their last write, which puts the oldest first.
#[derive(Debug, Default)]
pub(super) struct Expiry(BTreeMap<u64, Written>);

#[derive(Debug)]
struct Written {
    resource: Arc<Resource>,
    key: Key,
    at: Instant,
}

impl Expiry {
    /// Updates the index after a change at `now`.
    pub(super) fn follow(&mut self, resource: &Arc<Resource>, change: &Event, now: Instant) {
        if !resource.is("", "Event") {
            return;
        }
        if let Some(previous) = &change.previous {
            self.0.remove(&previous.revision);
        }
        if let Some(object) = change.current() {
            let written = Written {
                resource: resource.clone(),
                key: object.key.clone(),
                at: now,
            };
            self.0.insert(object.revision, written);
        }
    }

    /// An Event that must be deleted at `now`.
    pub(super) fn due(&self, now: Instant) -> Option<(Arc<Resource>, Key)> {
        let (_, oldest) = self.0.first_key_value()?;
        let is_due = self.0.len() > MOST || now.duration_since(oldest.at) >= TTL;
        is_due.then(|| (oldest.resource.clone(), oldest.key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::resource::KINDS;

    #[test]
    fn an_hour_begins_with_each_write() {
        let resource = KINDS.iter().find(|it| it.kind == "Event").unwrap();
        let object = |name: &str, revision| {
            let key = Key::new("default", name);
            Arc::new(Object::freeze(
                resource.clone(),
                key,
                revision,
                Default::default(),
            ))
        };
        let (mut expiry, start) = (Expiry::default(), Instant::now());
        let minutes = |it: u64| start + Duration::from_secs(60 * it);
        let due = |expiry: &Expiry, at| expiry.due(minutes(at)).map(|(_, key)| key.name);
        let (a, b) = (object("a", 2), object("b", 3));
        let added = |it: &Arc<Object>| Event::of(it.clone(), None);
        expiry.follow(resource, &added(&a), minutes(0));
        expiry.follow(resource, &added(&b), minutes(10));
        assert_eq!(due(&expiry, 59), None);
        assert_eq!(due(&expiry, 60).as_deref(), Some("a"));
        let again = Event::of(object("a", 4), Some(a));
        expiry.follow(resource, &again, minutes(30));
        assert_eq!(due(&expiry, 69), None);
        assert_eq!(due(&expiry, 70).as_deref(), Some("b"));
        let gone = Event::deletion(5, b);
        expiry.follow(resource, &gone, minutes(70));
        assert_eq!(due(&expiry, 89), None);
        assert_eq!(due(&expiry, 90).as_deref(), Some("a"));
    }
}
