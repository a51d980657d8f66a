//! Writes announcements as Events (events.k8s.io/v1), which `kubectl describe` shows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use ::http::Request;
use serde_json::{Value, json};
use sluice_model::{Announcement, Reference};

use super::Observer;
use super::access::Client;
use super::connection::Connection;
use super::failure::Failure;
use crate::SourceError;

/// The same announcement about the same object is written once in this time.
const QUIET: Duration = Duration::from_secs(600);

/// Announcements that wait for the server. Further ones are dropped.
const MAX_WAITING: usize = 256;

/// Different announcements that are remembered for [`QUIET`]; more are dropped.
const MAX_RECENT: usize = 4_096;

/// The longest note (`pkg/apis/events/validation`).
const MAX_NOTE: usize = 1_024;

/// Timeout for writing one Event.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes the announcements of a channel as Events, on a thread that ends when the sender is gone.
/// Nothing waits for it. An Event that it cannot write is lost. `node_name` is the
/// `reportingInstance`.
///
/// # Errors
/// [`SourceError::Follow`] when the machine has no thread left.
pub fn record(
    client: &Client,
    node_name: Arc<str>,
    announcements: Receiver<Announcement>,
    observer: Observer,
) -> Result<JoinHandle<()>, SourceError> {
    let runtime = super::runtime().map_err(SourceError::Follow)?;
    let connection = Connection::new(client.clone(), observer, TIMEOUT);
    let run = move || {
        let client = runtime.block_on(async { connection.client() });
        let mut queue = Queue::default();
        while let Ok(first) = announcements.recv() {
            queue.push(first, Instant::now());
            while let Some(next) = queue.waiting.pop_front() {
                if let Err(error) = runtime.block_on(write(&client, &node_name, &next)) {
                    tracing::debug!(%error, reason = next.reason, "an Event was not written");
                }
                let now = Instant::now();
                announcements.try_iter().for_each(|it| queue.push(it, now));
            }
        }
        runtime.shutdown_background();
    };
    super::spawn("api-events", run).map_err(SourceError::Follow)
}

/// Announcements that wait, without those that were made in the last [`QUIET`].
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Announcement>,
    recent: HashMap<Announcement, Instant>,
}

impl Queue {
    fn push(&mut self, announcement: Announcement, now: Instant) {
        let is_recent = |then: &Instant| now.duration_since(*then) < QUIET;
        if self.recent.get(&announcement).is_some_and(is_recent) {
            return;
        }
        if self.recent.len() >= MAX_RECENT {
            self.recent.retain(|_, then| is_recent(then));
        }
        if self.waiting.len() >= MAX_WAITING || self.recent.len() >= MAX_RECENT {
            tracing::debug!(
                reason = announcement.reason,
                "too many Events: one is dropped"
            );
            return;
        }
        self.recent.insert(announcement.clone(), now);
        self.waiting.push_back(announcement);
    }
}

async fn write(
    client: &kube::Client,
    node_name: &str,
    announcement: &Announcement,
) -> Result<(), Failure> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since_epoch.unwrap_or_default().as_nanos();
    let event = event(node_name, announcement, nanos);
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default();
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let body = event.to_string().into_bytes();
    match post(client, &path, &body).await {
        // The idle connection may have been dead. If the server has accepted the Event all the same,
        // its name is there already, and the second attempt is refused.
        Err(failure) if failure.is_without_answer() => post(client, &path, &body).await,
        done => done,
    }
}

async fn post(client: &kube::Client, path: &str, body: &[u8]) -> Result<(), Failure> {
    let request = Request::post(path).body(body.to_vec());
    let request = request.map_err(kube::Error::HttpError)?;
    // The whole answer is read, so that the connection can be used again.
    client.request_text(request).await?;
    Ok(())
}

/// The Event as kube-proxy writes it (client-go, `tools/events/event_recorder.go`): about a Node
/// in the namespace `default`, with the name in place of the uid.
fn event(node_name: &str, announcement: &Announcement, nanos: u128) -> Value {
    let Reference { kind, name: about } = &announcement.about;
    let (name, namespace) = (&about.name, &*about.namespace);
    let mut regarding = json!({"apiVersion": kind.version, "kind": kind.name, "name": &**name});
    match namespace {
        "" => regarding["uid"] = json!(&**name),
        _ => regarding["namespace"] = json!(namespace),
    }
    let time = i128::try_from(nanos).ok();
    let time = time.and_then(|it| jiff::Timestamp::from_nanosecond(it).ok());
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{name}.{nanos:x}"),
            "namespace": if namespace.is_empty() { "default" } else { namespace },
        },
        "eventTime": format!("{:.6}", time.unwrap_or_default()),
        "reportingController": "kube-proxy",
        "reportingInstance": node_name,
        "action": announcement.action,
        "reason": announcement.reason,
        "regarding": regarding,
        "note": cut(&announcement.note),
        "type": if announcement.is_warning { "Warning" } else { "Normal" },
    })
}

/// The part that the server accepts.
fn cut(note: &str) -> &str {
    &note[..note.floor_char_boundary(MAX_NOTE)]
}

#[cfg(test)]
mod tests;
