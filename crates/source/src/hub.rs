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
mod selection;
mod wants;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::sys::eventfd::EventFd;
use tokio::sync::Notify;

use crate::SourceError;
use crate::apiserver::{self, Client, Follow, Observer, Timeouts};
use crate::watch::{self, Watch};

pub use selection::{FieldTest, Selection};
pub use wants::{Need, Wants};

pub(crate) use core::{Core, Joined, Told};
pub(crate) use selection::Topics;

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

    /// Feeds this hub from a folder of manifests with its subfolders. A hub has one feed.
    ///
    /// A batch that takes objects away waits 40 ms for files that bring them back, 80 ms at most, and 2 s while they come
    /// or a new file is being written. So objects that move between files are not deleted.
    ///
    /// A file counts at once when its writer closes it, or when it is renamed or linked into place. A
    /// writer that does not close it is waited for until it is quiet for a second, two seconds at most;
    /// then the file counts, but objects that it lacks stay. The first batch waits for the files that
    /// were being written meanwhile, and for nothing else: it has every object and every problem, and ends with
    /// [`Notice::Synced`].
    ///
    /// Hidden files and folders and backups are not read. A subfolder behind a link is read, each folder
    /// once. Of a [`Selection`] counts here what the model of the kind keeps.
    ///
    /// A file, document, object or subfolder that cannot be read keeps its last good state; so does the whole folder
    /// while it is missing. [`Notice::Problems`] say so, with the path below the folder as origin (the folder's own
    /// path for the folder itself). Reading is tried again until it works, of a file with the waits of
    /// [`sluice_reconcile::Backoff`].
    ///
    /// A change behind a symbolic link is noticed when the link is replaced, or a `..data` link as
    /// in a ConfigMap volume; not when a file outside the folder is written in place.
    ///
    /// # Errors
    /// [`SourceError::Folder`] when the folder cannot be listed now, [`SourceError::Watch`] when
    /// the kernel has no watch left.
    ///
    /// [`Notice::Synced`]: sluice_model::Notice::Synced
    /// [`Notice::Problems`]: sluice_model::Notice::Problems
    pub fn watch(&self, dir: impl AsRef<Path>) -> Result<Watch, SourceError> {
        watch::watch(dir.as_ref(), self.clone())
    }

    /// Feeds this hub from an API server. A hub has one feed. `observer` is called for every request.
    ///
    /// The first list of each kind is one batch. The consumer's [`Notice::Synced`] comes with or after the last first
    /// list for which it waits. From then on a batch is what one read of a watch brought, or the differences that a
    /// new list showed.
    ///
    /// An object that cannot be used keeps its last good version; [`Notice::Problems`] say so, with
    /// the object as origin (`Service default/web`). While a kind cannot be followed, the origin
    /// [`ORIGIN`](apiserver::ORIGIN) says which and since when.
    ///
    /// # Errors
    /// [`SourceError::Follow`] when the machine has no thread left.
    ///
    /// [`Notice::Synced`]: sluice_model::Notice::Synced
    /// [`Notice::Problems`]: sluice_model::Notice::Problems
    pub fn follow(
        &self,
        client: &Client,
        timeouts: Timeouts,
        observer: Observer,
    ) -> Result<Follow, SourceError> {
        apiserver::follow_hub(client, self.clone(), timeouts, observer)
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
