//! An API server with the objects that every cluster has, and a source that follows it.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;
use sluice_miniapi::{MiniApi, Options};
use sluice_model::ApiRequest;
use sluice_source::apiserver::{Access, Client, Follow, Timeouts, connect};
use sluice_source::{Hub, Subscription, Wants};

use crate::support::{
    DEADLINE, Event, NODE, View, Wanted, cidr_object, node_object, service_object, slice_object,
};

/// The objects that every cluster has, in the form of [`View::brief`].
pub(crate) const BASE: &str = "EndpointSlice default/kubernetes 10.0.0.1; Node n1; \
                               Service default/kubernetes:443; ServiceCIDR kubernetes";

/// The objects of [`BASE`], and further ones.
pub(crate) fn base_and(more: &str) -> String {
    let mut parts: Vec<&str> = BASE.split("; ").chain(more.split("; ")).collect();
    parts.sort_unstable();
    parts.join("; ")
}

/// Short enough for tests, long enough for a loaded machine.
pub(crate) fn timeouts() -> Timeouts {
    Timeouts {
        answer: Duration::from_secs(2),
        late: DEADLINE,
        silence: Duration::from_secs(1),
        silent_watches: 2,
        node: DEADLINE,
        retry: Duration::from_millis(20),
        longest_retry: Duration::from_millis(200),
        reconnect: Duration::from_millis(100),
        recovery: Duration::from_secs(1),
        absent: Duration::from_millis(200),
        steady: Duration::from_millis(50),
    }
}

pub(crate) fn base() -> Vec<Value> {
    vec![
        node_object(NODE, "10.0.0.1"),
        service_object("kubernetes", 443),
        slice_object("kubernetes", "kubernetes", "10.0.0.1"),
        cidr_object("kubernetes", "10.96.0.0/12"),
    ]
}

/// A server without any object.
pub(crate) fn server(options: Options) -> MiniApi {
    let is_default = options.bookmarks == Options::default().bookmarks;
    let bookmarks = if is_default {
        Duration::from_millis(200)
    } else {
        options.bookmarks
    };
    MiniApi::start(Options {
        bookmarks,
        ..options
    })
    .unwrap()
}

/// A server with the objects that every cluster has.
pub(crate) fn cluster(options: Options) -> MiniApi {
    let api = server(options);
    api.put_all(base()).unwrap();
    api
}

/// A kubeconfig in a folder of its own.
pub(crate) struct Files {
    pub(crate) folder: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The way to a server with a kubeconfig of this text.
    pub(crate) fn access(&self, kubeconfig: &str) -> Access {
        Access {
            kubeconfig: Some(self.write("kubeconfig", kubeconfig)),
            qps: -1.0,
            ..Access::default()
        }
    }
}

/// The way to a server, with the file it is read from.
pub(crate) fn client(api: &MiniApi) -> (Client, Files) {
    let files = Files::new();
    let client = connect(&files.access(&api.kubeconfig())).unwrap();
    (client, files)
}

/// Method and status code.
pub(crate) type Request = (String, Option<u16>);

/// Requests as an observer sees them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<(Mutex<Vec<Request>>, Condvar)>);

impl Seen {
    /// Waits until `count` requests matched `wanted`.
    #[track_caller]
    pub(crate) fn until(&self, count: usize, wanted: impl Fn(&Request) -> bool) {
        let (all, changed) = &*self.0;
        let is_short = |all: &mut Vec<Request>| all.iter().filter(|it| wanted(it)).count() < count;
        let all = all.lock().unwrap();
        let (all, waited) = changed.wait_timeout_while(all, DEADLINE, is_short).unwrap();
        assert!(!waited.timed_out(), "{all:?}");
    }
}

impl Seen {
    fn push(&self, observed: &ApiRequest<'_>) {
        let (all, changed) = &*self.0;
        let request = (observed.method.to_owned(), observed.code);
        all.lock().unwrap().push(request);
        changed.notify_all();
    }
}

/// A source that follows a server, and its events.
pub(crate) struct Followed {
    pub(crate) view: View,
    pub(crate) seen: Seen,
    follow: Option<(Follow, Subscription)>,
    /// Files that the client may read again.
    _files: Option<Files>,
}

impl Followed {
    pub(crate) fn start(client: &Client) -> Self {
        Self::with(client, timeouts())
    }

    pub(crate) fn with(client: &Client, timeouts: Timeouts) -> Self {
        Self::wanting(client, Wanted::proxy(), timeouts)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers make it for this")]
    pub(crate) fn wanting(client: &Client, wanted: Wanted, timeouts: Timeouts) -> Self {
        Self::of_wants(client, wanted.wants(), timeouts)
    }

    pub(crate) fn of_wants(client: &Client, wants: Wants<Event>, timeouts: Timeouts) -> Self {
        let (sender, batches) = channel();
        let seen = Seen::default();
        let sink = move |it| {
            let _ = sender.send(it);
        };
        let observer = seen.clone();
        let observer = Arc::new(move |it: &ApiRequest<'_>| observer.push(it));
        let hub = Hub::default();
        let subscription = hub.subscribe(wants, sink);
        let follow = hub.follow(client, timeouts, observer).unwrap();
        Self {
            view: View::new(batches),
            seen,
            follow: Some((follow, subscription)),
            _files: None,
        }
    }

    /// Keeps files that the client may read again.
    pub(crate) fn keep(&mut self, files: Files) {
        self._files = Some(files);
    }

    pub(crate) fn of(api: &MiniApi) -> Self {
        let (client, files) = client(api);
        let followed = Self::start(&client);
        Self {
            _files: Some(files),
            ..followed
        }
    }

    /// Follows a server until its first lists are there.
    #[track_caller]
    pub(crate) fn synced(api: &MiniApi) -> Self {
        let mut followed = Self::of(api);
        followed.view.until("synced", |it| it.synced == 1);
        followed
    }

    /// As [`Followed::synced`], with a very short timeout for the Node.
    pub(crate) fn hasty(api: &MiniApi) -> Self {
        let (client, files) = client(api);
        let node = Duration::from_millis(500);
        let timeouts = Timeouts { node, ..timeouts() };
        let mut followed = Self::with(&client, timeouts);
        followed._files = Some(files);
        followed.view.until("synced", |it| it.synced == 1);
        followed
    }

    pub(crate) fn stop(&mut self) {
        self.follow = None;
    }
}
