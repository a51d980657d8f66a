//! Counts of what is planned, kept at the cost of what changed.

use sluice_model::{Event, IpFamily, Object, ObjectKey};
use sluice_plan::state::ClusterState;
use sluice_plan::{PlannedFrontend, PortPlan, Route, Verdict};

use crate::metrics::{Metrics, PerFamily};

/// How much of everything there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) services: usize,
    families: PerFamily<Counts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    service_ports: usize,
    frontends: usize,
    endpoints: usize,
    /// Service ports that drop internal clients.
    internal_drops: usize,
    /// Service ports that drop external clients.
    external_drops: usize,
}

impl Counts {
    fn of(port: &PortPlan) -> Self {
        let drops = |is_drop: fn(&PlannedFrontend) -> bool| port.frontends.iter().any(is_drop);
        Self {
            service_ports: 1,
            frontends: port.frontends.len(),
            endpoints: port.reachable().len(),
            internal_drops: drops(|it| it.route == Route::Internal(Verdict::Drop)).into(),
            external_drops: drops(|it| {
                let far = Route::ExternalLocal { far: Verdict::Drop };
                it.route == far || it.route == Route::External(Verdict::Drop)
            })
            .into(),
        }
    }

    fn zip(self, other: Self, change: fn(usize, usize) -> usize) -> Self {
        Self {
            service_ports: change(self.service_ports, other.service_ports),
            frontends: change(self.frontends, other.frontends),
            endpoints: change(self.endpoints, other.endpoints),
            internal_drops: change(self.internal_drops, other.internal_drops),
            external_drops: change(self.external_drops, other.external_drops),
        }
    }
}

impl Tally {
    /// Counts what an event adds to or takes from the state, which has not heard it yet.
    pub(super) fn hear(&mut self, event: &Event, state: &ClusterState) {
        let is_known = |name| state.service(name).is_some_and(|it| it.service.is_some());
        match event {
            Event::Set(Object::Service(it)) if !is_known(&it.name) => self.services += 1,
            Event::Delete(ObjectKey::Service(name)) if is_known(name) => self.services -= 1,
            _ => {}
        }
    }

    /// Counts what a service port was and is.
    pub(super) fn replan(&mut self, old: Option<&PortPlan>, new: Option<&PortPlan>) {
        for (port, change) in [
            (new, usize::saturating_add as fn(usize, usize) -> usize),
            (old, usize::saturating_sub),
        ] {
            if let Some(port) = port {
                let counts = self.families.of_mut(port.key.family);
                *counts = counts.zip(Counts::of(port), change);
            }
        }
    }

    pub(super) fn service_ports(&self) -> usize {
        self.families.iter().map(|it| it.service_ports).sum()
    }

    pub(super) fn service_ports_of(&self, family: IpFamily) -> usize {
        self.families.of(family).service_ports
    }

    pub(super) fn frontends(&self) -> usize {
        self.families.iter().map(|it| it.frontends).sum()
    }

    pub(super) fn endpoints(&self) -> usize {
        self.families.iter().map(|it| it.endpoints).sum()
    }

    pub(super) fn show(&self, metrics: &Metrics) {
        let number = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
        let (ours, theirs) = (&metrics.ours, &metrics.kube_proxy);
        ours.services.set(number(self.services));
        for family in IpFamily::ALL {
            let counts = self.families.of(family);
            for (gauges, count) in [
                (&ours.service_ports, counts.service_ports),
                (&ours.frontends, counts.frontends),
                (&ours.endpoints, counts.endpoints),
                (&theirs.no_local_endpoints_internal, counts.internal_drops),
                (&theirs.no_local_endpoints_external, counts.external_drops),
            ] {
                gauges.of(family).set(number(count));
            }
        }
    }
}
