//! One source of objects in a process, and any number of consumers.
//!
//! ```text
//! folder ─────┐                  ┌─ Wants<A>: Service, EndpointSlice ─▶ batches of A
//! or          ├─▶ topics ────────┤
//! API server ─┘   kind+selection └─ Wants<B>: Service, Pod of n1 ─────▶ batches of B
//! ```
//!
//! A consumer names the objects that it wants, and for each kind the event of its own type that a change becomes.
//! Consumers that want the same kind and selection share one topic: one list and watch, and the same `Arc` of each
//! object.

mod core;
mod delivered;
mod selection;
mod stale;
mod wants;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::sys::eventfd::EventFd;
use tokio::sync::Notify;

pub use selection::{FieldTest, Selection};
pub use stale::ORIGIN;
pub use wants::{Need, Wants};

pub(crate) use core::{Core, Joined, Told};
pub(crate) use delivered::{Delivered, Listing};
pub(crate) use selection::{Topic, Topics};
pub(crate) use stale::Absence;

/// Where consumers subscribe, before and after a feed has been started. Clones are one hub.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Requests>);

/// Subscriptions, and ends of them, that the feed has not taken in yet.
#[derive(Default)]
struct Requests {
    queue: Mutex<Queue>,
    /// Wakes an API server's feed.
    added: Notify,
    /// Wakes a folder's feed.
    wake: OnceLock<EventFd>,
}

#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    /// The number of subscriptions so far.
    subscriptions: usize,
}

/// A change of the consumers.
pub(crate) enum Request {
    Join(Box<dyn FnOnce(&mut Core) -> Joined + Send>),
    /// The consumer with this number.
    Leave(usize),
}

/// A consumer's place at a [`Hub`]. Dropping it ends the subscription soon: what no other consumer wants is not followed
/// any more then.
#[derive(Debug)]
#[must_use = "the subscription ends when this is dropped"]
pub struct Subscription {
    hub: Hub,
    consumer: usize,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub
            .add(|queue| queue.requests.push(Request::Leave(self.consumer)));
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

impl Hub {
    /// Sends the wanted objects to `sink`, on the feed's own thread, until the subscription or the feed ends. The
    /// objects that are known already come first. Of several consumers the first one hears a batch first.
    ///
    /// The changes of one batch belong together: the first list of a kind, one read of a watch, the consequences of
    /// files that changed at once.
    pub fn subscribe<E: 'static>(
        &self,
        wants: Wants<E>,
        sink: impl FnMut(Vec<E>) + Send + 'static,
    ) -> Subscription {
        let mut consumer = 0;
        self.add(|queue| {
            queue.subscriptions += 1;
            consumer = queue.subscriptions;
            let join = move |core: &mut Core| core.join(consumer, wants, Box::new(sink));
            queue.requests.push(Request::Join(Box::new(join)));
        });
        Subscription {
            hub: self.clone(),
            consumer,
        }
    }

    fn add(&self, add: impl FnOnce(&mut Queue)) {
        add(&mut self.queue());
        self.0.added.notify_one();
        if let Some(wake) = self.0.wake.get() {
            // It cannot fail: the counter is far from full.
            let _ = wake.write(1);
        }
    }

    /// The changes of the consumers since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        if let Some(wake) = self.0.wake.get() {
            // There may be nothing to read: no consumer has come or gone.
            let _ = wake.read();
        }
        std::mem::take(&mut self.queue().requests)
    }

    /// Returns when a consumer has come or gone.
    pub(crate) async fn added(&self) {
        self.0.added.notified().await;
    }

    /// Sets the eventfd that a request wakes.
    pub(crate) fn wake_by(&self, wake: EventFd) {
        self.0.wake.get_or_init(|| wake);
    }

    /// An eventfd that can be read while there are [`Hub::requests`].
    pub(crate) fn wake(&self) -> Option<&EventFd> {
        self.0.wake.get()
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        // Nothing panics with the lock held.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
