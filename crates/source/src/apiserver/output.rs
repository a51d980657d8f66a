//! What all kinds send: events to one sink, when the first lists are complete, what is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::{Event, Object};

use crate::api;
use crate::kind::Kind as _;

type Sink = Box<dyn FnMut(Vec<Event>) + Send>;

/// The origin of problems with the connection.
const ORIGIN: &str = "API server";

/// Kinds without which nothing may be programmed: half of them would delete the rules of the rest.
const REQUIRED: [&str; 2] = [api::Service::OBJECTS, api::EndpointSlice::OBJECTS];

/// Kinds that are waited for, but not without end.
const WANTED: [&str; 2] = [api::Node::OBJECTS, api::ServiceCidr::OBJECTS];

/// Sends all events to the sink. Kinds go by [`crate::kind::Kind::OBJECTS`].
pub(super) struct Output {
    sink: Sink,
    /// Kinds whose first list has not come yet.
    awaited: BTreeSet<&'static str>,
    /// [`Event::Synced`] has been sent.
    is_synced: bool,
    /// The kinds that are not up to date.
    stale: BTreeMap<&'static str, Stale>,
}

struct Stale {
    since: jiff::Timestamp,
    reason: String,
}

impl Output {
    pub(super) fn new(sink: Sink) -> Self {
        Self {
            sink,
            awaited: REQUIRED.into_iter().chain(WANTED).collect(),
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

    /// The Node and the ServiceCIDRs are not waited for any more.
    pub(super) fn go_on_without(&mut self) {
        for kind in WANTED {
            if self.awaited.remove(kind) {
                tracing::warn!(
                    kind,
                    "the API server has not listed this kind yet: starting without it"
                );
            }
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
        match self.stale.get_mut(kind) {
            Some(stale) if stale.reason == reason => return,
            Some(stale) => reason.clone_into(&mut stale.reason),
            None => {
                tracing::warn!(
                    kind,
                    reason,
                    "no changes from the API server: the rules stay as they are"
                );
                let since = jiff::Timestamp::now();
                let reason = reason.to_owned();
                self.stale.insert(kind, Stale { since, reason });
            }
        }
        self.report();
    }

    /// The kind is up to date.
    pub(super) fn report_fresh(&mut self, kind: &'static str) {
        if self.stale.remove(kind).is_some() {
            tracing::info!(kind, "changes from the API server again");
            self.report();
        }
    }

    fn report(&mut self) {
        let line = |(kind, Stale { since, reason }): (&&str, &Stale)| {
            let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("{ORIGIN}: {kind}: stale since {since}: {reason}")
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
