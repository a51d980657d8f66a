//! Announcements → Events (events.k8s.io/v1), for those who ask `kubectl describe`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use ::http::Request;
use serde_json::{Value, json};
use sluice_model::Announcement;
use sluice_model::ObjectKey;

use super::access::Client;
use super::http::{Failure, Http, Pace};
use super::observe::Observe;
use crate::SourceError;

/// The same thing is said about the same object once in this time.
const QUIET: Duration = Duration::from_secs(600);

/// Announcements that wait for the server. What comes on top of these is dropped.
const MAX_WAITING: usize = 256;

/// What was said in the last [`QUIET`], at most.
const MAX_SAID: usize = 4_096;

/// The longest note (`pkg/apis/events/validation`).
const MAX_NOTE: usize = 1_024;

/// For the server to take one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes Events on its own thread, until the other end of the channel is gone. Nothing waits
/// for it, and what it cannot write is lost.
#[derive(Debug)]
pub struct Recorder {
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Starts writing what comes through the channel. `node_name` signs.
    ///
    /// # Errors
    /// [`SourceError::Follow`] when the machine has no thread left.
    pub fn start(
        client: &Client,
        node_name: Arc<str>,
        announcements: Receiver<Announcement>,
        observer: impl Observe + 'static,
    ) -> Result<Self, SourceError> {
        let runtime = super::runtime().map_err(SourceError::Follow)?;
        let http = (client.clone(), Arc::new(observer));
        let run = move || {
            let http = Http::new(http.0, http.1);
            let mut queue = Queue::default();
            while let Ok(first) = announcements.recv() {
                queue.push(first, Instant::now());
                while let Some(next) = {
                    announcements
                        .try_iter()
                        .for_each(|it| queue.push(it, Instant::now()));
                    queue.waiting.pop_front()
                } {
                    if let Err(error) = runtime.block_on(write(&http, &node_name, &next)) {
                        tracing::debug!(%error, reason = next.reason, "an Event was not written");
                    }
                }
            }
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("api-events".to_owned());
        let thread = thread.spawn(run).map_err(SourceError::Follow)?;
        Ok(Self { thread })
    }

    /// Waits until everything that was sent is written or lost. The sender must be gone.
    pub fn finish(self) {
        // It does not panic; if it did, that has been reported.
        let _ = self.thread.join();
    }
}

/// What waits, without what has been said lately.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Announcement>,
    said: HashMap<Announcement, Instant>,
}

impl Queue {
    fn push(&mut self, announcement: Announcement, now: Instant) {
        let is_recent = |then: &Instant| now.duration_since(*then) < QUIET;
        if self.said.get(&announcement).is_some_and(is_recent) {
            return;
        }
        if self.said.len() >= MAX_SAID {
            self.said.retain(|_, then| is_recent(then));
        }
        if self.waiting.len() >= MAX_WAITING || self.said.len() >= MAX_SAID {
            tracing::debug!(
                reason = announcement.reason,
                "too many Events: one is dropped"
            );
            return;
        }
        self.said.insert(announcement.clone(), now);
        self.waiting.push_back(announcement);
    }
}

async fn write(http: &Http, node_name: &str, announcement: &Announcement) -> Result<(), Failure> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since_epoch.unwrap_or_default().as_nanos();
    let event = event(node_name, announcement, nanos);
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default();
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let body = event.to_string().into_bytes();
    match post(http, &path, &body).await {
        // The connection had been idle, and nobody had looked at it. If it was taken all the
        // same, the name is there already.
        Err(Failure::Unreachable(_)) => post(http, &path, &body).await,
        done => done,
    }
}

async fn post(http: &Http, path: &str, body: &[u8]) -> Result<(), Failure> {
    let request = Request::post(path);
    let sent = http.send(request, body.to_vec(), (Pace::Limited, PATIENCE));
    let mut answer = sent.await?;
    // What the server says beyond "created" is read, so that the connection can be used again.
    let rest = async {
        while answer.next().await?.is_some() {}
        Ok(())
    };
    tokio::time::timeout(PATIENCE, rest).await.unwrap_or(Ok(()))
}

/// The Event as kube-proxy writes it (client-go, `tools/events/event_recorder.go`): about a Node
/// in the namespace `default`, with the name in place of the uid.
fn event(node_name: &str, announcement: &Announcement, nanos: u128) -> Value {
    let (api_version, kind, namespace, name) = match &announcement.about {
        ObjectKey::Service(it) => ("v1", "Service", Some(&it.namespace), &it.name),
        ObjectKey::EndpointSlice(it) => (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            Some(&it.namespace),
            &it.name,
        ),
        ObjectKey::Node(name) => ("v1", "Node", None, name),
        ObjectKey::ServiceCidr(name) => ("networking.k8s.io/v1", "ServiceCIDR", None, name),
    };
    let mut regarding = json!({"apiVersion": api_version, "kind": kind, "name": &**name});
    match namespace {
        Some(namespace) => regarding["namespace"] = json!(&**namespace),
        None => regarding["uid"] = json!(&**name),
    }
    let time = i128::try_from(nanos).ok();
    let time = time.and_then(|it| jiff::Timestamp::from_nanosecond(it).ok());
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{name}.{nanos:x}"),
            "namespace": namespace.map_or("default", |it| it),
        },
        "eventTime": format!("{:.6}", time.unwrap_or_default()),
        "reportingController": "kube-proxy",
        "reportingInstance": node_name,
        "action": announcement.action,
        "reason": announcement.reason,
        "regarding": regarding,
        "note": cut(&announcement.note),
        "type": match announcement.is_warning {
            true => "Warning",
            false => "Normal",
        },
    })
}

/// As much as the server takes.
fn cut(note: &str) -> &str {
    &note[..note.floor_char_boundary(MAX_NOTE)]
}

#[cfg(test)]
mod tests;
