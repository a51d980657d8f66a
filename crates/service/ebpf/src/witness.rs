//! What the programs did with packets, from the ring buffer EVENTS.

mod connection;
mod words;

use std::path::Path;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sluice_bpf::{BpfError, Pins, Ring};
use sluice_bpf_abi::{Event, node_flags};
use sluice_plane::{Sighting, Watched, Witness};
use sluice_route::{Link, links};
use tracing::debug;

use crate::leftovers::PINS;
use crate::maps::{Maps, events};
use crate::programs;

/// Programs write events for this long after they were told to. Whoever asked may have been killed.
const LEASE: Duration = Duration::from_secs(5);
/// Events that are kept.
const MOST: usize = 100_000;

/// A watch of one connection's packets. While it lives there is no other one in this network namespace.
pub(crate) struct EventWitness {
    events: Ring<Event>,
    maps: Maps,
    watched: Watched,
    links: Vec<Link>,
    told: Instant,
    taken: Vec<Event>,
}

impl EventWitness {
    /// Watches packets of the client, or to the destination when the client is not known; `None` when no
    /// programs are pinned in this network namespace.
    ///
    /// # Errors
    ///
    /// [`BpfError::Busy`] while there is another watch.
    pub(crate) fn open(watched: Watched) -> Result<Option<Self>, BpfError> {
        let pins = programs::pins(Path::new(PINS))?;
        if pins.exist() {
            Self::at(&pins, watched).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Watches the programs that are pinned here.
    pub(crate) fn at(pins: &Pins, watched: Watched) -> Result<Self, BpfError> {
        let mut witness = Self {
            events: events(pins)?,
            maps: Maps::open(pins)?,
            watched,
            links: links().unwrap_or_default(),
            told: Instant::now(),
            taken: Vec::new(),
        };
        // Events of an earlier watch are dropped.
        while witness.events.take().is_some() {}
        witness.tell()?;
        Ok(witness)
    }

    /// Tells the programs to write events from now on.
    fn tell(&mut self) -> Result<(), BpfError> {
        let Watched {
            client,
            destination,
            ..
        } = self.watched;
        self.told = Instant::now();
        let until = now() + LEASE;
        self.maps.change_node(|node| {
            node.flags |= node_flags::TRACE;
            node.trace = client.unwrap_or(destination.ip()).into();
            node.trace_until_ns = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        })
    }

    fn take(&mut self) {
        while let Some(event) = self.events.take() {
            if self.taken.len() < MOST {
                self.taken.push(event);
            }
        }
    }
}

impl Witness for EventWitness {
    fn wait(&mut self, until: Instant) {
        if self.told.elapsed() > LEASE / 2
            && let Err(error) = self.tell()
        {
            debug!(%error, "programs write no events any more");
        }
        let left = until.saturating_duration_since(Instant::now());
        let left = left.min(LEASE / 4).as_millis();
        self.events.wait(u16::try_from(left).unwrap_or(u16::MAX));
        self.take();
    }

    fn seen(&mut self, source_port: Option<u16>) -> Vec<Sighting> {
        self.take();
        let steps = connection::steps(&self.taken, &self.watched, source_port);
        let name = |index: u32| {
            let link = self.links.iter().find(|it| it.index == index);
            link.map_or_else(|| index.to_string(), |it| it.name.clone())
        };
        let steps = steps.into_iter();
        let sightings = steps.map(|(event, way)| words::sighting(event, way, name));
        sightings.collect()
    }
}

impl Drop for EventWitness {
    fn drop(&mut self) {
        // They stop by themselves when the time is over.
        if let Err(error) = forget(&mut self.maps) {
            debug!(%error, "programs go on to write events");
        }
    }
}

/// Takes back the request of a watch that was killed.
pub(crate) fn end_forgotten(maps: &mut Maps, pins: &Pins) -> Result<(), BpfError> {
    let is_on = maps.node()?.flags & node_flags::TRACE != 0;
    if is_on && sluice_bpf::are_unread(pins)? {
        forget(maps)
    } else {
        Ok(())
    }
}

fn forget(maps: &mut Maps) -> Result<(), BpfError> {
    maps.change_node(|node| node.flags &= !node_flags::TRACE)
}

/// The clock of the programs.
fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}
