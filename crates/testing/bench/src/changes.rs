//! Changes of a cluster, and a proxy whose steps are measured.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sluice_plan::Event;
use sluice_plan::PortKey;
use sluice_plan::settings::Settings;
use sluice_plane::{Proxy, ServiceBackend};

use super::measure::{Cost, Samples, measure_all, millis};
use super::synthetic::{self, ENDPOINTS};

/// A kind of change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    EndpointReplaced,
    EndpointAdded,
    EndpointRemoved,
    ServiceAdded,
}

impl Change {
    pub(super) const ALL: [Self; 4] = [
        Self::EndpointReplaced,
        Self::EndpointAdded,
        Self::EndpointRemoved,
        Self::ServiceAdded,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::EndpointReplaced => "endpoint replaced",
            Self::EndpointAdded => "endpoint added",
            Self::EndpointRemoved => "endpoint removed",
            Self::ServiceAdded => "Service added",
        }
    }

    /// The change of this round. The strides spread the rounds over all Services. A second change of
    /// a Service always differs from the first.
    pub(super) fn events(self, services: u32, round: u32) -> Vec<Event> {
        let pick = |stride: u32| round.wrapping_mul(stride) % services;
        let turn = round / services % 2;
        let resized = |index, size| {
            let addresses = synthetic::addresses(index, size);
            vec![synthetic::slice(index, &addresses)]
        };
        match self {
            Self::EndpointReplaced => {
                let index = pick(7919);
                let mut addresses = synthetic::addresses(index, ENDPOINTS);
                addresses[3] = synthetic::endpoint(index, ENDPOINTS + 1 + turn);
                vec![synthetic::slice(index, &addresses)]
            }
            Self::EndpointAdded => resized(pick(7907), ENDPOINTS + 1 + turn),
            Self::EndpointRemoved => resized(pick(7901), ENDPOINTS - 1 - turn),
            Self::ServiceAdded => {
                let index = services + round;
                let mut events = vec![synthetic::service(index)];
                events.extend(resized(index, ENDPOINTS));
                events
            }
        }
    }
}

/// A proxy whose steps are measured.
pub(super) struct Node<P: ServiceBackend>(pub(super) Proxy<P>);

impl<P: ServiceBackend> Node<P> {
    pub(super) fn new(plane: P) -> Self {
        Self(Proxy::new(Settings::for_node("node-a"), plane))
    }

    pub(super) fn absorb(&mut self, events: Vec<Event>) -> BTreeSet<PortKey> {
        events.into_iter().for_each(|it| self.0.absorb(it));
        self.0.replan().ports.into_keys().collect()
    }

    /// Whether anything had to be written.
    pub(super) fn sync(&mut self) -> anyhow::Result<bool> {
        let mut wrote = false;
        loop {
            wrote |= !self.0.sync()?.report.is_empty();
            let refusals = self.0.reconciler().refusals();
            ensure!(refusals.is_empty(), "refused: {refusals:?}");
            if self.0.waiting().next().is_none() {
                return Ok(wrote);
            }
        }
    }

    /// Writes a cluster into an empty kernel.
    pub(super) fn first_sync(&mut self, cluster: Vec<Event>) -> anyhow::Result<Cost> {
        self.absorb(cluster);
        let (synced, cost) = measure_all(|| self.sync());
        synced.context("first sync")?;
        Ok(cost)
    }

    /// Reads the kernel, which must have exactly what was written.
    pub(super) fn resync(&mut self) -> anyhow::Result<Cost> {
        self.0.reconciler_mut().forget();
        let (synced, cost) = measure_all(|| self.sync());
        let wrote = synced.context("resync")?;
        ensure!(!wrote, "the kernel has other rules");
        Ok(cost)
    }

    /// Repeats a change and measures it from the event to the kernel's acknowledgement.
    pub(super) fn repeat(
        &mut self,
        change: Change,
        services: u32,
        limit: Limit,
    ) -> anyhow::Result<Series> {
        let mut series = Series::default();
        for round in limit.rounds() {
            let events = change.events(services, round);
            let (wrote, cost) = measure_all(|| {
                self.absorb(events);
                self.sync()
            });
            ensure!(wrote?, "round {round} changed nothing");
            series.push(cost);
        }
        Ok(series)
    }
}

/// Limits of the rounds of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Most rounds.
    pub(super) rounds: u32,
    /// No round begins later than this, except the first 5, which a median needs.
    pub(super) time: Duration,
}

impl Limit {
    const LEAST: u32 = 5;

    pub(super) fn rounds(self) -> impl Iterator<Item = u32> {
        let started = Instant::now();
        let goes_on = move |round: &u32| *round < Self::LEAST || started.elapsed() < self.time;
        (0..self.rounds).take_while(goes_on)
    }
}

/// The costs of the rounds.
#[derive(Debug, Default)]
pub(super) struct Series {
    wall: Samples,
    cpu: Duration,
    rounds: u32,
}

impl Series {
    pub(super) fn push(&mut self, cost: Cost) {
        self.wall.push(cost.wall);
        self.cpu += cost.cpu;
        self.rounds += 1;
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// p50 and p99 of the wall time, in ms.
    pub(super) fn wall(&mut self) -> String {
        let [p50, p99] = [50, 99].map(|it| millis(self.wall.percentile(it)));
        format!("{p50} / {p99}")
    }

    /// CPU time of a round, in ms.
    pub(super) fn cpu(&self) -> String {
        millis(self.cpu / self.rounds.max(1))
    }
}
