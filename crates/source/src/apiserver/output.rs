//! What all kinds send: events to one sink, when the first lists are complete, what is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::{Event, Object};

use crate::api;
use crate::kind::Kind as _;

type Sink = Box<dyn FnMut(Vec<Event>) + Send>;

/// The origin of problems with the connection to the API server. [`follow`](super::follow()) logs them itself, each
/// kind once.
pub const ORIGIN: &str = "API server";

/// Kinds whose first lists have not come yet.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Kinds without which nothing may be programmed or answered: half of them would delete the rules or names of the
    /// rest.
    pub(super) required: BTreeSet<&'static str>,
    /// Kinds that are waited for, but not without end.
    pub(super) wanted: BTreeSet<&'static str>,
}

impl Awaited {
    fn remove(&mut self, kind: &str) {
        self.required.remove(kind);
        self.wanted.remove(kind);
    }

    fn is_empty(&self) -> bool {
        self.required.is_empty() && self.wanted.is_empty()
    }
}

/// Sends all events to the sink. Kinds go by [`crate::kind::Kind::OBJECTS`].
pub(super) struct Output {
    sink: Sink,
    awaited: Awaited,
    /// [`Event::Synced`] has been sent.
    is_synced: bool,
    /// The kinds that are not up to date.
    stale: BTreeMap<&'static str, Stale>,
}

struct Stale {
    since: jiff::Timestamp,
    reason: String,
    /// What is lost without the kind; `None` while its last state stays in force.
    lost: Option<&'static str>,
}

impl Output {
    pub(super) fn new(sink: Sink, awaited: Awaited) -> Self {
        Self {
            sink,
            awaited,
            is_synced: false,
            stale: BTreeMap::new(),
        }
    }

    /// A complete list of a kind, as the differences to what was delivered before.
    pub(super) fn send_list(&mut self, kind: &'static str, events: Vec<Event>) {
        // The kubelet is about to give a Node without addresses some.
        if kind != api::Node::OBJECTS || has_addresses(&events) {
            self.awaited.remove(kind);
        }
        self.send(events);
    }

    /// What has changed since the list.
    pub(super) fn send_changes(&mut self, kind: &'static str, events: Vec<Event>) {
        if kind == api::Node::OBJECTS && has_addresses(&events) {
            self.awaited.remove(kind);
        }
        self.send(events);
    }

    /// The kinds that are not required are not waited for any more.
    pub(super) fn go_on_without(&mut self) {
        for kind in std::mem::take(&mut self.awaited.wanted) {
            tracing::warn!(
                kind,
                "the API server has not listed this kind yet: starting without it"
            );
        }
        self.send(Vec::new());
    }

    /// Sends the events, and after the last awaited kind [`Event::Synced`].
    fn send(&mut self, mut events: Vec<Event>) {
        if self.awaited.is_empty() && !self.is_synced {
            self.is_synced = true;
            events.push(Event::Synced);
        }
        if !events.is_empty() {
            (self.sink)(events);
        }
    }

    /// The kind is not up to date from now on, or still is not, and why.
    pub(super) fn report_stale(&mut self, kind: &'static str, reason: &str) {
        if !self.renew(kind, reason, None) {
            return;
        }
        if self.is_synced {
            tracing::warn!(
                kind,
                reason,
                "no changes from the API server: what is known stays in force"
            )
        } else {
            tracing::warn!(
                kind,
                reason,
                "not listed by the API server yet: tried until it is"
            )
        }
    }

    /// The kind cannot be read, and why; we go on without it.
    pub(super) fn report_absent(&mut self, kind: &'static str, reason: &str, lost: &'static str) {
        if self.renew(kind, reason, Some(lost)) {
            tracing::warn!(
                kind,
                reason,
                lost,
                "this kind cannot be read from the API server: going on without it"
            );
        }
    }

    /// Whether the kind was up to date before.
    fn renew(&mut self, kind: &'static str, reason: &str, lost: Option<&'static str>) -> bool {
        let before = self.stale.get(kind);
        if before.is_some_and(|it| it.reason == reason && it.lost == lost) {
            return false;
        }
        let since = before.map_or_else(jiff::Timestamp::now, |it| it.since);
        let reason = reason.to_owned();
        let stale = Stale {
            since,
            reason,
            lost,
        };
        let was_fresh = self.stale.insert(kind, stale).is_none();
        self.report();
        was_fresh
    }

    /// The kind is up to date.
    pub(super) fn report_fresh(&mut self, kind: &'static str) {
        if self.stale.remove(kind).is_some() {
            tracing::info!(kind, "changes from the API server again");
            self.report();
        }
    }

    fn report(&mut self) {
        let line = |(kind, stale): (&&str, &Stale)| {
            let since = stale.since.strftime("%Y-%m-%dT%H:%M:%SZ");
            let reason = &stale.reason;
            match stale.lost {
                None => format!("{ORIGIN}: {kind}: stale since {since}: {reason}"),
                Some(lost) => {
                    format!("{ORIGIN}: {kind}: not readable since {since}: {reason}: {lost}")
                }
            }
        };
        let problems = self.stale.iter().map(line).collect();
        let origin = Arc::from(ORIGIN);
        self.send(vec![Event::Problems { origin, problems }]);
    }
}

fn has_addresses(events: &[Event]) -> bool {
    events
        .iter()
        .any(|it| matches!(it, Event::Set(Object::Node(node)) if !node.addresses.is_empty()))
}

#[cfg(test)]
mod tests;
