//! The API server as a source: the kinds of objects that are wanted, each listed once and watched from
//! then on.
//!
//! ```text
//! connection ─▶ kube's client ─▶ follower ─▶ received: model objects ─▶ hub: differences to what was delivered ─▶ consumers
//! credentials,  requests, watch   what to     (a Kind)                 before, by topic
//! limit, TLS    events, errors    ask next
//! ```
//!
//! One thread with one runtime follows all of them, without capabilities: its children are the
//! credential plugins of a kubeconfig. `kube` does kubeconfigs, credentials, TLS,
//! requests and the decoding of watch events; `follower` says what is ours and why.
//!
//! # Invariants
//! - Only a complete list deletes what it lacks. A list that breaks off, garbage, an error: what
//!   was delivered stays.
//! - Every list is a consistent read: it is never older than what was delivered, unless etcd was
//!   restored from a backup.
//! - An empty list in place of objects is believed at the third time.
//! - An object's JSON is dropped as soon as the object is converted.

mod access;
mod causes;
mod connection;
mod events;
mod failure;
mod files;
mod follower;
mod limit;
mod pod;
mod proxy;
mod recorder;
mod retry;
mod trust;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use caps::{CapSet, Capability, CapsHashSet};
use futures::StreamExt as _;
use futures::future::{Either, FutureExt as _, abortable};
use futures::stream::FuturesUnordered;
use nix::sys::prctl;
use sluice_model::ApiRequest;
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, oneshot};

pub use crate::hub::ORIGIN;
pub use access::{Access, Certificates, Client, Plugins, check, connect, is_in_pod};
pub use files::Files;
pub use pod::{pod_addresses, read, ready};
pub use recorder::record;

use crate::SourceError;
use crate::convert::Interner;
use crate::hub::{Core, Hub, Request};
use connection::Connection;
use follower::{Follower, Shared};

/// Timeouts and waits of requests. The default is for clusters; tests use shorter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout for the head of an answer, and for the next object of a list. kube-apiserver itself ends a request after
    /// 60 s (`--request-timeout`).
    pub answer: Duration,
    /// An answer that has not begun after this time is reported. It is still waited for.
    pub late: Duration,
    /// Timeout for the next event or bookmark of a watch; then another watch goes on from the last version. A server
    /// sends a bookmark each minute, and none while nothing is newer than the version the watch began with
    /// (`apiserver/pkg/storage/cacher`), so a quiet watch is no sign of a dead server. `silence` and `late` together
    /// are less than a minute: by then a server that says nothing on a living connection is reported.
    pub silence: Duration,
    /// Watches in a row without an event or bookmark before a list follows: the version may be one that the server has
    /// not reached, because etcd was restored from a backup.
    pub silent_watches: u32,
    /// Timeout for the first lists of kinds that are not [`Need::Required`](crate::Need::Required); then the source
    /// goes on without them.
    pub node: Duration,
    /// The wait after the first failure. It doubles with each further failure. Every wait is multiplied by a random
    /// number from 0.5 to 1.5.
    pub retry: Duration,
    /// The longest wait after a failure.
    pub longest_retry: Duration,
    /// The longest wait while the server cannot be reached, and for [`Timeouts::recovery`] after.
    /// 150 % of the default and the time of a list are less than 3 s.
    pub reconnect: Duration,
    /// How long a server may still be starting after it was unreachable.
    pub recovery: Duration,
    /// The wait before a server is asked again for a kind that it does not have, or refuses to show. That of client-go
    /// (`tools/cache/reflector.go`): ClusterNetworkPolicies may be defined at any time, and drop nothing until then.
    pub absent: Duration,
    /// A watch that has been open for this long works, though no event has come.
    pub steady: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(70),
            late: Duration::from_secs(10),
            silence: Duration::from_secs(45),
            silent_watches: 15,
            node: Duration::from_secs(30),
            retry: Duration::from_millis(800),
            longest_retry: Duration::from_secs(30),
            reconnect: Duration::from_millis(1500),
            recovery: Duration::from_secs(60),
            absent: Duration::from_secs(30),
            steady: Duration::from_secs(1),
        }
    }
}

/// Called for every request, to count it.
pub type Observer = Arc<dyn Fn(&ApiRequest<'_>) + Send + Sync>;

/// A running source. Dropping it ends it; the sink is not called any more after that.
#[derive(Debug)]
pub struct Follow {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Feeds this hub from an API server. A hub has one feed. `observer` is called for every request.
    ///
    /// The first list of each kind is one batch. The consumer's [`Notice::Synced`] comes with or after the last first
    /// list for which it waits. From then on a batch is what one read of a watch brought, or the differences that a
    /// new list showed.
    ///
    /// An object that cannot be used keeps its last good version; [`Notice::Problems`] say so, with
    /// the object as origin (`Service default/web`). While a kind cannot be followed, the origin
    /// [`ORIGIN`] says which and since when.
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
        follow_hub(client, self.clone(), timeouts, observer)
    }
}

/// Follows what the consumers of a hub want.
fn follow_hub(
    client: &Client,
    hub: Hub,
    timeouts: Timeouts,
    observer: Observer,
) -> Result<Follow, SourceError> {
    let (stop, stopped) = oneshot::channel();
    let runtime = runtime().map_err(SourceError::Follow)?;
    let client = client.clone();
    let run = move || {
        runtime.block_on(async {
            tokio::select! {
                () = follow_all(client, &hub, timeouts, observer) => {}
                _ = stopped => {}
            }
        });
        // A plugin may still be running: it is not waited for.
        runtime.shutdown_background();
    };
    let thread = spawn("api-server", run).map_err(SourceError::Follow)?;
    Ok(Follow {
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Drop for Follow {
    fn drop(&mut self) {
        // Dropping the sender stops the thread.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the sink has been reported on its own thread.
            let _ = thread.join();
        }
    }
}

async fn follow_all(client: Client, hub: &Hub, timeouts: Timeouts, observer: Observer) {
    let core = Core::of(&client.host);
    let connection = Connection::new(client, observer, timeouts.answer);
    let shared = Shared {
        client: connection.client(),
        connection,
        core: RefCell::new(core),
        names: RefCell::new(Interner::default()),
        timeouts,
        probe: Mutex::new(()),
    };
    let mut running = FuturesUnordered::new();
    let mut followed = HashMap::new();
    loop {
        for request in hub.requests() {
            let mut core = shared.core.borrow_mut();
            match request {
                Request::Join(join) => {
                    let joined = join(&mut core);
                    core.welcome(&joined);
                    for topic in joined.new {
                        let follower = Follower::of(&shared, &core, topic);
                        let (follow, end) = abortable(follower.run());
                        followed.insert(topic, end);
                        running.push(Either::Left(follow.map(drop)));
                    }
                    running.push(Either::Right(go_on_without(&shared, joined.consumer)));
                }
                Request::Leave(consumer) => {
                    let left = core.leave(consumer).into_iter();
                    let ended = left.filter_map(|it| followed.remove(&it));
                    ended.for_each(|it| it.abort());
                }
            }
        }
        tokio::select! {
            () = hub.added() => {}
            _ = running.next(), if !running.is_empty() => {}
        }
    }
}

async fn go_on_without(shared: &Shared, consumer: usize) {
    tokio::time::sleep(shared.timeouts.node).await;
    shared.core.borrow_mut().go_on_without(consumer);
}

/// Starts a thread whose children can never change rules: a credential plugin has the capabilities of
/// the thread that starts it. A runtime starts its threads from the one that drives it.
fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let run = || {
        if let Err(error) = give_up_capabilities() {
            tracing::warn!(
                error,
                "credential plugins get the capabilities of the agent"
            );
        }
        run()
    };
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Gives up the calling thread's capabilities, but for the one to read files of other users.
fn give_up_capabilities() -> Result<(), String> {
    // Without it root's children get capabilities again.
    prctl::set_no_new_privs().map_err(|it| it.to_string())?;
    let read = caps::read(None, CapSet::Permitted);
    let mut kept = read.map_err(|it| it.to_string())?;
    kept.retain(|it| *it == Capability::CAP_DAC_READ_SEARCH);
    let nothing = CapsHashSet::new();
    for (set, capabilities) in [
        (CapSet::Ambient, &nothing),
        (CapSet::Inheritable, &nothing),
        (CapSet::Effective, &kept),
        (CapSet::Permitted, &kept),
    ] {
        caps::set(None, set, capabilities).map_err(|it| it.to_string())?;
    }
    Ok(())
}

/// The runtime of one thread.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
