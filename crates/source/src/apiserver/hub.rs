//! Where the resources come together: one sink, one first list, one account of what is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::{Event, Object};

use super::resource::Resource;

type Sink = Box<dyn FnMut(Vec<Event>) + Send>;

/// The origin of problems with the connection.
const ORIGIN: &str = "API server";

/// Everything that leaves for the planner leaves here.
pub(super) struct Hub {
    sink: Sink,
    /// What has not been there yet.
    awaited: BTreeSet<Resource>,
    /// [`Event::Synced`] has been sent.
    is_synced: bool,
    /// Nobody waits for the Node and the ServiceCIDRs any more.
    is_grace_over: bool,
    /// What is not up to date, and why.
    stale: BTreeMap<Resource, Stale>,
}

struct Stale {
    since: jiff::Timestamp,
    reason: String,
}

impl Hub {
    pub(super) fn new(sink: Sink) -> Self {
        Self {
            sink,
            awaited: Resource::ALL.into(),
            is_synced: false,
            is_grace_over: false,
            stale: BTreeMap::new(),
        }
    }

    /// The complete list of a resource, as the differences to what was delivered before.
    pub(super) fn list(&mut self, resource: Resource, events: Vec<Event>) {
        // Without addresses the Node is not there yet: the kubelet is about to give it some.
        if resource != Resource::Node || has_addresses(&events) {
            self.arrived(resource, events);
        } else {
            self.send(events);
        }
    }

    /// Changes since the list.
    pub(super) fn changes(&mut self, resource: Resource, events: Vec<Event>) {
        if resource == Resource::Node && has_addresses(&events) {
            self.arrived(resource, events);
        } else {
            self.send(events);
        }
    }

    /// The Node and the ServiceCIDRs have been waited for long enough.
    pub(super) fn grace_over(&mut self) {
        self.is_grace_over = true;
        let missing = [Resource::Node, Resource::ServiceCidrs];
        for resource in missing.iter().filter(|it| self.awaited.contains(it)) {
            tracing::warn!(%resource, "not there yet: going on without");
        }
        self.sync_if_complete(Vec::new());
    }

    fn arrived(&mut self, resource: Resource, events: Vec<Event>) {
        if self.awaited.remove(&resource) {
            self.sync_if_complete(events);
        } else {
            self.send(events);
        }
    }

    fn sync_if_complete(&mut self, mut events: Vec<Event>) {
        let needed = [Resource::Services, Resource::EndpointSlices];
        let is_complete = match self.is_grace_over {
            true => !needed.iter().any(|it| self.awaited.contains(it)),
            false => self.awaited.is_empty(),
        };
        if is_complete && !self.is_synced {
            self.is_synced = true;
            events.push(Event::Synced);
        }
        self.send(events);
    }

    fn send(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            (self.sink)(events);
        }
    }

    /// The resource is not up to date from now on, unless it was not before.
    pub(super) fn stale(&mut self, resource: Resource, reason: &str) {
        match self.stale.get_mut(&resource) {
            Some(stale) if stale.reason == reason => return,
            Some(stale) => reason.clone_into(&mut stale.reason),
            None => {
                tracing::warn!(%resource, reason, "the API server does not tell us what changes");
                let since = jiff::Timestamp::now();
                let reason = reason.to_owned();
                self.stale.insert(resource, Stale { since, reason });
            }
        }
        self.tell();
    }

    /// The resource is up to date.
    pub(super) fn fresh(&mut self, resource: Resource) {
        if self.stale.remove(&resource).is_some() {
            tracing::info!(%resource, "the API server tells us again what changes");
            self.tell();
        }
    }

    /// Whether the resource was up to date when we last heard.
    pub(super) fn is_stale(&self, resource: Resource) -> bool {
        self.stale.contains_key(&resource)
    }

    fn tell(&mut self) {
        let line = |(resource, Stale { since, reason }): (&Resource, &Stale)| {
            let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("{ORIGIN}: {resource}: stale since {since}: {reason}")
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
