//! What a DNS server may know: objects whose rules are in the kernel.
//!
//! ```text
//! events ─┬─ without rules (deleted, headless, Pod, Namespace) ─────────▶ sink, at once
//!         └─ with rules ─▶ wait ─▶ sync that succeeded, Service written ─▶ sink
//! ```
//!
//! A client that was told an address dials it a moment later: a name that comes before its rules leads
//! nowhere. A name that goes before its rules costs nobody a connection.

use std::collections::{BTreeSet, HashMap};

use sluice_model::{ClusterIps, Event, NamespacedName, Object, ObjectKey, ServiceKind};

use crate::events::Subject;

/// Receives events in the order of [`Outputs::names`](crate::Outputs::names), on the agent's thread: it must
/// neither wait for the agent nor take long.
pub type Names = Box<dyn FnMut(Vec<Event>) + Send>;

/// The events that wait for their rules, of each object the last one: as many as there are objects, however
/// long the kernel refuses.
#[derive(Default)]
pub(super) struct NamesWaiting {
    /// `None` without a DNS server: nothing is kept then.
    sink: Option<Names>,
    /// In their order, but that the last one takes the place of one that went ahead.
    events: Vec<Event>,
    /// The position of each subject in `events`.
    positions: HashMap<Subject, usize>,
    /// A sync has succeeded after the first complete list.
    begun: bool,
}

impl NamesWaiting {
    pub(super) fn new(sink: Option<Names>) -> Self {
        Self {
            sink,
            ..Self::default()
        }
    }

    /// Takes in events before they are planned. Those without rules go on at once, from the first sync
    /// that succeeded on.
    pub(super) fn add<'a>(&mut self, events: impl Iterator<Item = &'a Event>) {
        let Some(sink) = &mut self.sink else {
            return;
        };
        let mut at_once = Vec::new();
        for event in events {
            let subject = match Subject::of(event) {
                // No name depends on these.
                Subject::Problems(_) | Subject::LocalAddresses => continue,
                subject => subject,
            };
            if self.begun && !has_rules(event) {
                if let Some(position) = self.positions.remove(&subject) {
                    self.events.swap_remove(position);
                    if let Some(moved) = self.events.get(position) {
                        self.positions.insert(Subject::of(moved), position);
                    }
                }
                at_once.push(event.clone());
                continue;
            }
            let position = *self.positions.entry(subject).or_insert(self.events.len());
            match self.events.get_mut(position) {
                Some(waiting) => *waiting = event.clone(),
                None => self.events.push(event.clone()),
            }
        }
        if !at_once.is_empty() {
            sink(at_once);
        }
    }

    /// The number of events that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.events.len()
    }

    /// A sync has succeeded, and wrote everything but these Services.
    pub(super) fn written(&mut self, unwritten: &BTreeSet<NamespacedName>) {
        let Some(sink) = &mut self.sink else {
            return;
        };
        self.begun = true;
        if self.events.is_empty() {
            return;
        }
        self.positions.clear();
        let waits = |it: &Event| service_of(it).is_some_and(|it| unwritten.contains(&it));
        let all = std::mem::take(&mut self.events);
        let (waiting, written) = if unwritten.is_empty() {
            (Vec::new(), all)
        } else {
            all.into_iter().partition(waits)
        };
        for (position, event) in waiting.iter().enumerate() {
            self.positions.insert(Subject::of(event), position);
        }
        self.events = waiting;
        if !written.is_empty() {
            sink(written);
        }
    }
}

/// Whether a client that learns of it may dial an address that needs rules.
fn has_rules(event: &Event) -> bool {
    match event {
        Event::Set(Object::Service(service)) => {
            service.kind != ServiceKind::ExternalName && service.cluster_ips != ClusterIps::Headless
        }
        Event::Set(Object::EndpointSlice(slice)) => !slice.headless,
        Event::Set(Object::Node(_) | Object::ServiceCidr(_)) | Event::Synced => true,
        Event::Set(Object::Namespace(_) | Object::Pod(_))
        | Event::Delete(_)
        | Event::Problems { .. }
        | Event::LocalAddresses(_) => false,
    }
}

/// The Service whose rules an event is about.
fn service_of(event: &Event) -> Option<NamespacedName> {
    match event {
        Event::Set(Object::Service(service)) => Some(service.name.clone()),
        Event::Set(Object::EndpointSlice(slice)) => {
            let service = slice.service.clone()?;
            Some(NamespacedName::new(slice.name.namespace.clone(), service))
        }
        Event::Delete(ObjectKey::Service(name)) => Some(name.clone()),
        _ => None,
    }
}
