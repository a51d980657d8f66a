//! Queries on their way: equal ones wait for the same answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hickory_proto::op::Message;
use tokio::sync::watch;

use super::{Failure, Transport};
use crate::question::Key;

/// The result of a query, shared by all clients that wait for it.
pub(super) type Outcome = Result<Arc<Message>, Failure>;
/// Receives the outcome; `None` until there is one.
pub(super) type Waiting = watch::Receiver<Option<Outcome>>;

/// The queries on their way.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<(Key, Transport), Waiting>>);

/// The duty to land a flight. Dropped without an outcome (its task panicked), those that wait
/// learn of it.
pub(super) struct Flight {
    flights: Arc<Flights>,
    id: (Key, Transport),
    outcome: watch::Sender<Option<Outcome>>,
}

impl Flights {
    /// Waits for the outcome of an equal query. When there is none on its way, the caller must
    /// start the returned flight.
    pub(super) fn join(
        self: &Arc<Self>,
        key: Key,
        transport: Transport,
    ) -> (Waiting, Option<Flight>) {
        let id = (key, transport);
        match self.lock().entry(id.clone()) {
            Entry::Occupied(waiting) => (waiting.get().clone(), None),
            Entry::Vacant(vacant) => {
                let (outcome, waiting) = watch::channel(None);
                vacant.insert(waiting.clone());
                let flights = Arc::clone(self);
                (
                    waiting,
                    Some(Flight {
                        flights,
                        id,
                        outcome,
                    }),
                )
            }
        }
    }

    /// A thread that panicked between two operations leaves a valid map.
    fn lock(&self) -> MutexGuard<'_, HashMap<(Key, Transport), Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Gives the outcome to all that wait.
    pub(super) fn land(self, outcome: Outcome) {
        self.outcome.send_replace(Some(outcome));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.id);
    }
}
