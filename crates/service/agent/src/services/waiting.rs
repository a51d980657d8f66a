//! Changes that the kernel does not have yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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

/// Changes that no sync that succeeded has settled.
#[derive(Debug)]
pub(super) struct Waiting {
    services: HashMap<NamespacedName, Changed>,
    /// What concerns no Service: any sync settles it.
    others: Changed,
    /// Times of families that were not served.
    unserved: BTreeMap<IpFamily, HashMap<NamespacedName, Times>>,
    /// How many Services and slices are in `services`.
    count: (usize, usize),
    /// Milliseconds since the epoch. Older changes were another process's to program.
    since: i64,
}

/// The changes that concern one Service.
#[derive(Debug, Default)]
struct Changed {
    service: bool,
    /// Slices, with the times of their changes.
    slices: HashMap<NamespacedName, Option<(IpFamily, Times)>>,
}

/// The times of changes that a slice names, in milliseconds since the epoch, at most [`TIMED_CHANGES`].
type Times = Vec<i64>;

impl Waiting {
    /// Times changes that happened after `since`, in milliseconds since the epoch.
    pub(super) fn new(since: i64) -> Self {
        Self {
            services: HashMap::new(),
            others: Changed::default(),
            unserved: BTreeMap::new(),
            count: (0, 0),
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
                    self.change_service(Some(&service.name));
                }
            }
            Event::Service(Delete(name)) => {
                theirs.service_changes.inc_by(SERVICE_TRACKERS);
                let is_known = known_service(name).is_some();
                if is_known {
                    ours.services.dec();
                }
                self.change_service(is_known.then_some(name));
            }
            Event::EndpointSlice(Set(slice)) => {
                theirs.endpoint_changes.inc();
                let known = known_slice(state, slice);
                if known != Some(slice) {
                    let service = service_of(slice);
                    let before = state.service_of(&slice.name);
                    let (since, mut last) = (self.since, known.and_then(|it| it.triggered));
                    let times = self.change_slice(&slice.name, service.as_ref().or(before));
                    for time in change.earlier.iter().copied().chain(slice.triggered) {
                        let is_new = last.replace(time) != Some(time) && time > since;
                        if let Some(family) = timed(slice).filter(|_| is_new) {
                            let (_, times) = times.get_or_insert((family, Times::new()));
                            if times.len() < TIMED_CHANGES {
                                times.push(time);
                            }
                        }
                    }
                }
            }
            Event::EndpointSlice(Delete(name)) => {
                theirs.endpoint_changes.inc();
                *self.change_slice(name, state.service_of(name)) = None;
                for times in self.unserved.values_mut() {
                    times.remove(name);
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, service: Option<&NamespacedName>) -> &mut Changed {
        match service {
            Some(name) => self.services.entry(name.clone()).or_default(),
            None => &mut self.others,
        }
    }

    fn change_service(&mut self, name: Option<&NamespacedName>) {
        let is_new = !std::mem::replace(&mut self.of(name).service, true);
        self.count.0 += usize::from(is_new);
    }

    fn change_slice(
        &mut self,
        name: &NamespacedName,
        service: Option<&NamespacedName>,
    ) -> &mut Option<(IpFamily, Times)> {
        let is_new = !self.of(service).slices.contains_key(name);
        self.count.1 += usize::from(is_new);
        let slices = &mut self.of(service).slices;
        slices.entry(name.clone()).or_default()
    }

    /// Sets the gauges of pending changes.
    pub(super) fn show(&self, metrics: &ServiceMetrics) {
        let metrics = &metrics.kube_proxy;
        let (services, slices) = self.count;
        metrics.service_changes_pending.set(to_gauge(services));
        metrics.endpoint_changes_pending.set(to_gauge(slices));
    }

    /// A sync succeeded at `now`, in milliseconds since the epoch, and settled these Services; `None` for all. Times of a
    /// family that is not served stay until it is.
    pub(super) fn done(
        &mut self,
        now: i64,
        served: &[IpFamily],
        settled: Option<&BTreeSet<NamespacedName>>,
        metrics: &ServiceMetrics,
    ) {
        let mut done = vec![std::mem::take(&mut self.others)];
        match settled {
            Some(names) => done.extend(names.iter().filter_map(|it| self.services.remove(it))),
            None => done.extend(std::mem::take(&mut self.services).into_values()),
        }
        for changed in done {
            self.count.0 -= usize::from(changed.service);
            self.count.1 -= changed.slices.len();
            for (name, timed) in changed.slices {
                if let Some((family, times)) = timed {
                    let unserved = self.unserved.entry(family).or_default();
                    unserved.entry(name).or_default().extend(times);
                }
            }
        }
        for family in served {
            let duration = metrics.kube_proxy.network_programming.of(*family);
            let times = self.unserved.remove(family).into_iter().flatten();
            for triggered in times.flat_map(|it| it.1.into_iter().take(TIMED_CHANGES)) {
                // Clocks of other machines may be ahead.
                let elapsed = now.saturating_sub(triggered).max(0);
                duration.observe(elapsed as f64 / 1000.0);
            }
        }
        self.show(metrics);
    }
}

/// The family whose rules a slice's change is timed for; `None` when this node does not proxy the slice.
fn timed(slice: &EndpointSlice) -> Option<IpFamily> {
    let family = match slice.address_type {
        AddressType::Ipv4 => IpFamily::V4,
        AddressType::Ipv6 => IpFamily::V6,
        AddressType::Fqdn => return None,
    };
    (!slice.headless && slice.service.is_some()).then_some(family)
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
