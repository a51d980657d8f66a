//! The interface between the runtime and its consumers.

use std::time::Instant;

use serde::Serialize;

use crate::events::Keyed;
use crate::hold::{Settled, Wait};

/// A part of the agent that follows objects of the cluster and does something on this machine: the
/// Service proxy, the DNS server.
///
/// All calls come from the runtime's thread ([`Runtime`](crate::Runtime)). Other threads reach a consumer
/// through its [`Handle`](crate::Handle), whose tasks and questions run between two steps. At its start a
/// consumer registers what is read by other threads: metrics at [`Metrics`](crate::metrics::Metrics), and
/// its clock at [`Health`](crate::Health) if it can be overdue.
pub trait Consumer: 'static {
    /// The type of the events that its sources send.
    type Event: Keyed + Send + 'static;

    /// Takes in events. Cheap: [`step`](Self::step) does the work.
    fn absorb(&mut self, events: Vec<Self::Event>);

    /// When to call [`step`](Self::step) without further input; `None` for never.
    fn due(&self, now: Instant) -> Option<Instant>;

    /// Does the work that is due. Called after every input. Returns the objects that it has settled, for the
    /// consumers that wait for them ([`Runtime::add_after`](crate::Runtime::add_after)); `None` when it settled
    /// nothing.
    fn step(&mut self, now: Instant) -> Option<Settled>;

    /// Its part of the status.
    fn status(&self) -> Section;

    /// Whether an event waits for another consumer; asked only of a consumer that was added after one.
    fn wait(_: &Self::Event) -> Wait {
        Wait::No
    }

    /// Called once, before the first input.
    fn begin(&mut self) {}

    /// Called once, after the last input. The rules that it wrote into the kernel may stay.
    fn stop(&mut self) {}
}

/// The part of a consumer in the answer of `/status`, as JSON.
#[derive(Clone, Debug)]
pub struct Section {
    /// `None`: the fields stand beside those of the runtime.
    pub(crate) name: Option<&'static str>,
    pub(crate) json: String,
}

impl Section {
    /// A field of this name.
    pub fn named(name: &'static str, status: &impl Serialize) -> Self {
        Self {
            name: Some(name),
            json: json(status),
        }
    }

    /// The fields of a struct, beside those of the runtime. For a consumer whose fields scripts have always found there.
    pub fn beside(status: &impl Serialize) -> Self {
        Self {
            name: None,
            json: json(status),
        }
    }
}

fn json(status: &impl Serialize) -> String {
    serde_json::to_string(status).expect("a struct with named fields is JSON")
}
