//! The API server as a source: four resources, each listed once and watched from then on.
//!
//! ```text
//!            ┌ course: what to ask next (pure)
//! http ─▶ wire: bytes → objects ─▶ resource: model objects ─▶ known: differences ─▶ hub ─▶ sink
//!            one at a time          (api, convert)             to what was said      one for all
//! ```
//!
//! One thread with one runtime follows all of them. JSON is read object by object and dropped,
//! so memory is that of the model objects, which the planner shares: the reason why this is not
//! built on kube's own reflector, which holds lists of whole API objects.
//!
//! # Invariants
//! - Only a complete list deletes what it lacks. A list that breaks off, garbage, an error: what
//!   was delivered stays.
//! - Time goes forward: a list may not be older than what was delivered, unless a consistent read
//!   says so (a restored etcd).
//! - An empty list in place of objects is believed at the third time.
//! - What an event says is in the sink before the next byte is read.

mod access;
mod course;
mod http;
mod hub;
mod known;
mod observe;
mod pace;
mod proxy;
mod recorder;
mod reflect;
mod resource;
mod wire;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_model::Event;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

pub use access::{Access, Client, connect};
pub use observe::{Observe, Observed};
pub use recorder::Recorder;

use crate::SourceError;
use crate::convert::Interner;
use http::Http;
use hub::Hub;
use reflect::{Reflector, Shared};
use resource::Resource;

/// How long the API server may take. The default is for clusters; tests are less patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the head of an answer, and for the next object of a list.
    pub answer: Duration,
    /// Without any line of a watch: longer than any watch lasts. A server that has nothing newer
    /// than the version it began with sends no bookmark (`apiserver/pkg/storage/cacher`), so a
    /// quiet watch is no sign of a dead one; keepalive finds a peer that is gone.
    pub silence: Duration,
    /// For the Node and the ServiceCIDRs to be there at first, before we go on without them.
    pub node: Duration,
    /// The first wait after a failure; it doubles with each.
    pub retry: Duration,
    /// The longest wait after a failure.
    pub longest_retry: Duration,
    /// Until a server without ServiceCIDRs is asked for them again.
    pub absent: Duration,
    /// A watch that has been open for so long works, though it has said nothing.
    pub steady: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(630),
            node: Duration::from_secs(30),
            retry: Duration::from_millis(800),
            longest_retry: Duration::from_secs(30),
            absent: Duration::from_secs(600),
            steady: Duration::from_secs(1),
        }
    }
}

/// A running source. Dropping it ends it; the sink is not called any more after that.
#[derive(Debug)]
pub struct Follow {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Follows Services, EndpointSlices, ServiceCIDRs and the Node of this name.
///
/// `sink` is called on the source's own thread. Each resource's first list is one batch; with or
/// after the last of them comes [`Event::Synced`]. From then on a batch is what one read of a
/// watch brought, or the differences that a new list showed. `observer` is told of every request.
///
/// An object that cannot be used keeps its last good version; [`Event::Problems`] say so, with
/// the object as origin (`Service default/web`). While the connection of a resource fails, the
/// origin `API server` says which and since when.
///
/// # Errors
/// [`SourceError::Follow`] when the machine has no thread left.
pub fn follow(
    client: &Client,
    node_name: Arc<str>,
    patience: Patience,
    sink: impl FnMut(Vec<Event>) + Send + 'static,
    observer: impl Observe + 'static,
) -> Result<Follow, SourceError> {
    let (stop, stopped) = oneshot::channel();
    let runtime = runtime().map_err(SourceError::Follow)?;
    let (client, observer) = (client.clone(), Arc::new(observer));
    let run = move || {
        let follow = all(client, &node_name, patience, Box::new(sink), observer);
        runtime.block_on(async {
            tokio::select! {
                () = follow => {}
                _ = stopped => {}
            }
        });
        // A plugin may still be running: it is not waited for.
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new()
        .name("api-server".to_owned())
        .spawn(run)
        .map_err(SourceError::Follow)?;
    Ok(Follow {
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Drop for Follow {
    fn drop(&mut self) {
        // Dropping the sender is the word to stop.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the sink has been reported on its own thread.
            let _ = thread.join();
        }
    }
}

async fn all(
    client: Client,
    node_name: &str,
    patience: Patience,
    sink: Box<dyn FnMut(Vec<Event>) + Send>,
    observer: Arc<dyn Observe>,
) {
    let http = Http::new(client, observer);
    let hub = RefCell::new(Hub::new(sink));
    let names = RefCell::new(Interner::default());
    let shared = Shared {
        http: &http,
        hub: &hub,
        names: &names,
        node_name,
        patience,
    };
    let follow = |resource| Reflector::new(&shared, resource).run();
    let grace = async {
        tokio::time::sleep(patience.node).await;
        hub.borrow_mut().grace_over();
    };
    tokio::join!(
        follow(Resource::Node),
        follow(Resource::ServiceCidrs),
        follow(Resource::Services),
        follow(Resource::EndpointSlices),
        grace,
    );
}

/// The runtime of one thread.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// `a=b&c=d`, with everything but letters, digits and `-._~` escaped.
fn query<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in parameters {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
                _ if byte.is_ascii_alphanumeric() => text.push(byte.into()),
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    text
}
