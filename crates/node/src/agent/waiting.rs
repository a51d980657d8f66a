//! What has been heard and is not in the kernel yet.

use std::collections::{HashMap, HashSet};

use sluice_model::{
    AddressType, EndpointSlice, Event, IpFamily, NamespacedName, Object, ObjectKey,
};
use sluice_plan::state::ClusterState;

use crate::metrics::Metrics;

/// Changes of one slice that are remembered one by one. While syncs fail there may be any number.
const CHANGES: usize = 64;

/// kube-proxy has a tracker of Services for each family and counts what each of them hears, but a
/// slice once: it has one family (`pkg/proxy/servicechangetracker.go`,
/// `pkg/proxy/endpointschangetracker.go`).
const SERVICE_TRACKERS: u64 = 2;

/// Changes since the last sync that succeeded.
#[derive(Debug)]
pub(super) struct Waiting {
    services: HashSet<NamespacedName>,
    slices: HashSet<NamespacedName>,
    /// When the changes happened that slices tell of, in milliseconds since the epoch.
    triggers: HashMap<NamespacedName, (IpFamily, Vec<i64>)>,
    /// Older changes were another process' to program.
    since: i64,
}

impl Waiting {
    /// Nothing waits. Changes that happened before `since`, in milliseconds since the epoch, are
    /// not timed.
    pub(super) fn new(since: i64) -> Self {
        Self {
            services: HashSet::new(),
            slices: HashSet::new(),
            triggers: HashMap::new(),
            since,
        }
    }

    /// Takes note of an event, which the state has not heard yet.
    pub(super) fn hear(&mut self, event: &Event, state: &ClusterState, metrics: &Metrics) {
        let metrics = &metrics.kube_proxy;
        match event {
            Event::Set(Object::Service(service)) => {
                metrics.service_changes.inc_by(SERVICE_TRACKERS);
                let known = state.service(&service.name);
                let known = known.and_then(|it| it.service.as_ref());
                if known != Some(service) {
                    self.services.insert(service.name.clone());
                }
            }
            Event::Delete(ObjectKey::Service(name)) => {
                metrics.service_changes.inc_by(SERVICE_TRACKERS);
                self.services.insert(name.clone());
            }
            Event::Set(Object::EndpointSlice(slice)) => {
                metrics.endpoint_changes.inc();
                let known = known_slice(state, slice);
                if known != Some(slice) {
                    self.slices.insert(slice.name.clone());
                    self.time(slice, known.and_then(|it| it.triggered));
                }
            }
            Event::Delete(ObjectKey::EndpointSlice(name)) => {
                metrics.endpoint_changes.inc();
                self.slices.insert(name.clone());
                self.triggers.remove(name);
            }
            _ => {}
        }
    }

    /// Remembers when the change of a slice happened, if it is a new one that somebody here sees.
    fn time(&mut self, slice: &EndpointSlice, last: Option<i64>) {
        let family = match slice.address_type {
            AddressType::Ipv4 => IpFamily::V4,
            AddressType::Ipv6 => IpFamily::V6,
            AddressType::Fqdn => return,
        };
        let is_proxied = slice.service.is_some() && !slice.headless;
        let is_new = |it: &i64| last != Some(*it) && *it > self.since;
        if let Some(triggered) = slice.triggered.filter(is_new).filter(|_| is_proxied) {
            let known = self.triggers.entry(slice.name.clone());
            let (_, changes) = known.or_insert((family, Vec::new()));
            if changes.len() < CHANGES {
                changes.push(triggered);
            }
        }
    }

    /// Shows how much waits.
    pub(super) fn show(&self, metrics: &Metrics) {
        let number = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
        let metrics = &metrics.kube_proxy;
        let (services, slices) = (self.services.len(), self.slices.len());
        metrics.service_changes_pending.set(number(services));
        metrics.endpoint_changes_pending.set(number(slices));
    }

    /// All of it is in the kernel, at `now`, in milliseconds since the epoch, but for what is not
    /// of these families: that waits until they are served.
    pub(super) fn done(&mut self, now: i64, served: &[IpFamily], metrics: &Metrics) {
        self.services.clear();
        self.slices.clear();
        let is_written = |_: &_, it: &mut (IpFamily, _)| served.contains(&it.0);
        for (_, (family, changes)) in self.triggers.extract_if(is_written) {
            let duration = metrics.kube_proxy.network_programming.of(family);
            for triggered in changes {
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
    let service = slice.service.clone()?;
    let owner = NamespacedName::new(slice.name.namespace.clone(), service);
    state.service(&owner)?.slices.get(&slice.name.name)
}
