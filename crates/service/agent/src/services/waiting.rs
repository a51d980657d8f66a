//! Changes that the kernel does not have yet.

use std::collections::{HashMap, HashSet};

use sluice_model::Change::{Delete, Set};
use sluice_model::{AddressType, EndpointSlice, IpFamily, NamespacedName};
use sluice_node::metrics::to_gauge;
use sluice_plan::Event;
use sluice_plan::state::ClusterState;

use crate::change::{TIMED_CHANGES, TimedEvent};
use crate::metrics::ServiceMetrics;

/// kube-proxy tracks Services once per family and counts a change in each tracker. It counts the
/// change of a slice once, because a slice has one family (`pkg/proxy/servicechangetracker.go`,
/// `pkg/proxy/endpointschangetracker.go`).
const SERVICE_TRACKERS: u64 = 2;

/// Changes since the last sync that succeeded.
#[derive(Debug)]
pub(super) struct Waiting {
    services: HashSet<NamespacedName>,
    /// Changed slices with their Services, where these are known.
    slices: HashMap<NamespacedName, Option<NamespacedName>>,
    triggers: HashMap<NamespacedName, Triggers>,
    /// Milliseconds since the epoch. Older changes were another process's to program.
    since: i64,
}

/// The times of changes that a slice names, in milliseconds since the epoch.
#[derive(Debug)]
struct Triggers {
    family: IpFamily,
    service: NamespacedName,
    times: Vec<i64>,
}

impl Waiting {
    /// Times changes that happened after `since`, in milliseconds since the epoch.
    pub(super) fn new(since: i64) -> Self {
        Self {
            services: HashSet::new(),
            slices: HashMap::new(),
            triggers: HashMap::new(),
            since,
        }
    }

    /// Counts a change. `state` is the state before the change.
    pub(super) fn add(
        &mut self,
        change: &TimedEvent,
        state: &ClusterState,
        metrics: &ServiceMetrics,
    ) {
        let (ours, theirs) = (&metrics.ours, &metrics.kube_proxy);
        let known_service = |name| state.service(name).and_then(|it| it.service.as_ref());
        match &change.event {
            Event::Service(Set(service)) => {
                theirs.service_changes.inc_by(SERVICE_TRACKERS);
                let known = known_service(&service.name);
                if known.is_none() {
                    ours.services.inc();
                }
                if known != Some(service) {
                    self.services.insert(service.name.clone());
                }
            }
            Event::Service(Delete(name)) => {
                theirs.service_changes.inc_by(SERVICE_TRACKERS);
                if known_service(name).is_some() {
                    ours.services.dec();
                }
                self.services.insert(name.clone());
            }
            Event::EndpointSlice(Set(slice)) => {
                theirs.endpoint_changes.inc();
                let known = known_slice(state, slice);
                if known != Some(slice) {
                    self.slices.insert(slice.name.clone(), service_of(slice));
                    let mut last = known.and_then(|it| it.triggered);
                    for time in change.earlier.iter().copied().chain(slice.triggered) {
                        self.time(slice, time, last.replace(time));
                    }
                }
            }
            Event::EndpointSlice(Delete(name)) => {
                theirs.endpoint_changes.inc();
                self.slices.insert(name.clone(), None);
                self.triggers.remove(name);
            }
            _ => {}
        }
    }

    /// Records the time of a slice's change, if it is new and this node proxies the slice. `last`
    /// is the time that the slice named before.
    fn time(&mut self, slice: &EndpointSlice, time: i64, last: Option<i64>) {
        let family = match slice.address_type {
            AddressType::Ipv4 => IpFamily::V4,
            AddressType::Ipv6 => IpFamily::V6,
            AddressType::Fqdn => return,
        };
        let is_proxied = !slice.headless;
        let is_new = last != Some(time) && time > self.since;
        if let Some(service) = service_of(slice).filter(|_| is_proxied && is_new) {
            let triggers = self.triggers.entry(slice.name.clone());
            let triggers = triggers.or_insert(Triggers {
                family,
                service,
                times: Vec::new(),
            });
            if triggers.times.len() < TIMED_CHANGES {
                triggers.times.push(time);
            }
        }
    }

    /// Sets the gauges of pending changes.
    pub(super) fn show(&self, metrics: &ServiceMetrics) {
        let metrics = &metrics.kube_proxy;
        let (services, slices) = (self.services.len(), self.slices.len());
        metrics.service_changes_pending.set(to_gauge(services));
        metrics.endpoint_changes_pending.set(to_gauge(slices));
    }

    /// A sync succeeded at `now`, in milliseconds since the epoch. Times of a family that is not
    /// served stay until it is. So does everything about Services that are `unwritten`.
    pub(super) fn done(
        &mut self,
        now: i64,
        served: &[IpFamily],
        unwritten: &HashSet<NamespacedName>,
        metrics: &ServiceMetrics,
    ) {
        self.services.retain(|it| unwritten.contains(it));
        self.slices.retain(|_, service| {
            let service = service.as_ref();
            service.is_some_and(|it| unwritten.contains(it))
        });
        let is_written = |_: &_, it: &mut Triggers| {
            served.contains(&it.family) && !unwritten.contains(&it.service)
        };
        for (_, triggers) in self.triggers.extract_if(is_written) {
            let duration = metrics.kube_proxy.network_programming.of(triggers.family);
            for triggered in triggers.times {
                // Clocks of other machines may be ahead.
                let elapsed = now.saturating_sub(triggered).max(0);
                duration.observe(elapsed as f64 / 1000.0);
            }
        }
        self.show(metrics);
    }
}

fn known_slice<'a>(
    state: &'a ClusterState,
    slice: &EndpointSlice,
) -> Option<&'a std::sync::Arc<EndpointSlice>> {
    state
        .service(&service_of(slice)?)?
        .slices
        .get(&slice.name.name)
}

fn service_of(slice: &EndpointSlice) -> Option<NamespacedName> {
    let service = slice.service.clone()?;
    Some(NamespacedName::new(slice.name.namespace.clone(), service))
}
