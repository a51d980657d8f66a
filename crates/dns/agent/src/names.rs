//! Decides when a DNS server gets an object: after its rules are in the kernel.
//!
//! A client connects to an address as soon as DNS returns it, so a name must not come before its rules. A name that
//! is removed before its rules breaks no connection.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sluice_model::{Change, ClusterIps, NamespacedName, NodeDns, Notice, Reference, ServiceKind};
use sluice_node::{Consumer, Keyed, Section, Settled, Wait, chain};
use sluice_zone::Event;
use tracing::{error, info};

use crate::local_dns::LocalDns;

/// The DNS server inside the agent, in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsStatus {
    /// The cluster's DNS Service, which answers when the agent does not: `kube-system/kube-dns`.
    pub service: String,
    /// The addresses on which the server answers: without those that the machine lacks.
    pub addresses: Vec<IpAddr>,
}

/// An event that a name may depend on: about an object, or that the first list is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEvent(Event);

impl NameEvent {
    /// `None` for the problems of a source, which the Service proxy reports.
    #[must_use]
    pub fn new(event: Event) -> Option<Self> {
        let is_problem = matches!(event, Event::Notice(Notice::Problems { .. }));
        (!is_problem).then_some(Self(event))
    }

    /// What a DNS server takes in.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.0
    }
}

/// The key is the object, or `None` for the first complete list.
impl Keyed for NameEvent {
    type Key = Option<Reference>;

    fn key(&self) -> Self::Key {
        self.0.reference()
    }

    fn namespace(&self) -> Option<Arc<str>> {
        let namespace = self.key()?.name.namespace;
        (!namespace.is_empty()).then_some(namespace)
    }

    fn is_last(&self) -> bool {
        self.0 == Event::SYNCED
    }
}

/// Gives events to the server.
type Absorb = Box<dyn FnMut(&[Event])>;

/// Gives the server its objects, and the queries of this node once it has all of them.
pub struct Names {
    absorb: Absorb,
    local: Arc<Mutex<LocalDns>>,
    status: DnsStatus,
    /// The first complete list is there.
    synced: bool,
    taken: bool,
}

impl Names {
    /// `absorb` gives events to the server, and must return quickly.
    pub fn new(
        absorb: impl FnMut(&[Event]) + 'static,
        local: Arc<Mutex<LocalDns>>,
        dns: &NodeDns,
    ) -> Self {
        let of_machine = local.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses = of_machine.sockets().map(|it| it.ip()).collect();
        drop(of_machine);
        Self {
            absorb: Box::new(absorb),
            local,
            status: DnsStatus {
                service: dns.service.to_string(),
                addresses,
            },
            synced: false,
            taken: false,
        }
    }

    fn take_queries(&mut self) {
        // Nothing panics with the lock held.
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        match local.take() {
            Ok(()) => {
                info!("DNS queries of this node are answered here");
                self.taken = true;
            }
            // The next objects cause another try.
            Err(error) => {
                let why = chain(&error);
                error!(why, "DNS queries of this node go to the cluster's DNS");
            }
        }
    }
}

impl Consumer for Names {
    type Event = NameEvent;

    fn absorb(&mut self, events: Vec<NameEvent>) {
        let events: Vec<Event> = events.into_iter().map(|it| it.0).collect();
        (self.absorb)(&events);
        self.synced |= events.contains(&Event::SYNCED);
        if self.synced && !self.taken {
            self.take_queries();
        }
    }

    fn due(&self, _: Instant) -> Option<Instant> {
        None
    }

    fn step(&mut self, _: Instant) -> Option<Settled> {
        None
    }

    fn status(&self) -> Section {
        Section::named("dns", &self.status)
    }

    /// An object with rules waits for the step that writes them. A deleted object goes before its rules, and
    /// an object without rules, such as a Pod or a headless Service, waits for nothing.
    fn wait(event: &NameEvent) -> Wait {
        match &event.0 {
            Event::Service(Change::Set(service)) => {
                let has_rules = service.kind != ServiceKind::ExternalName
                    && service.cluster_ips != ClusterIps::Headless;
                if has_rules {
                    Wait::Object(service.name.clone())
                } else {
                    Wait::No
                }
            }
            Event::EndpointSlice(Change::Set(slice)) if slice.headless => Wait::No,
            Event::EndpointSlice(Change::Set(slice)) => match slice.service.clone() {
                Some(service) => {
                    let namespace = slice.name.namespace.clone();
                    Wait::Object(NamespacedName::new(namespace, service))
                }
                None => Wait::Step,
            },
            Event::Notice(Notice::Synced) => Wait::Step,
            _ => Wait::No,
        }
    }
}
