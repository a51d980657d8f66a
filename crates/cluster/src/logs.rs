//! Logs of containers, for the API.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use sluice_api::answer::Pieces;
use sluice_api::{LogOptions, Status};

use crate::log_file;
use crate::place::Place;
use crate::pods::Record;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The most bytes of one log: kubelet's `containerLogMaxSize`, whose newest file is all that `kubectl logs` reads.
const MOST: u64 = 10 * 1024 * 1024;

/// How often all logs are looked at. kubelet's `containerLogMonitorInterval` is 10 s.
const PERIOD: Duration = Duration::from_secs(1);

/// Keeps the logs of containers, of agents and of the lab itself short, for ever.
pub(crate) fn keep_short(place: &Place) {
    loop {
        let folders = [place.node(""), place.pod("")];
        let entries = |it: PathBuf| fs::read_dir(it).into_iter().flatten().flatten();
        let folders = folders.into_iter().flat_map(entries);
        let files = folders.flat_map(|it| entries(it.path()));
        let logs = files.map(|it| it.path());
        let logs = logs.filter(|it| it.extension().is_some_and(|it| it == "log"));
        for path in logs.chain([place.log()]) {
            match log_file::shorten(&path, MOST) {
                // Its pod went meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(%error, path = %path.display(), "a log grows"),
                Ok(()) => {}
            }
        }
        thread::sleep(PERIOD);
    }
}

/// Finds the files.
pub(crate) struct Logs {
    pub(crate) place: Place,
}

impl sluice_api::Logs for Logs {
    fn read(&self, pod: &Value, options: &LogOptions) -> Result<Pieces, Status> {
        if options.timestamps || options.since_seconds.is_some() || options.since_time.is_some() {
            let why =
                "the lab's logs have no times: leave out --timestamps, --since and --since-time";
            return Err(Status::bad_request(why));
        }
        let container = container(pod, options.container.as_deref())?;
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let suffix = if options.previous {
            ".previous.log"
        } else {
            ".log"
        };
        let path = self.place.pod(uid).join(format!("{container}{suffix}"));
        let refused = |error: io::Error| {
            let pod = pod["metadata"]["name"].as_str().unwrap_or_default();
            // kubelet's words (`pkg/kubelet/kubelet_pods.go`, `validateContainerLogStatus`).
            Status::bad_request(match error.kind() {
                io::ErrorKind::NotFound if options.previous => {
                    format!("previous terminated container {container:?} in pod {pod:?} not found")
                }
                io::ErrorKind::NotFound => {
                    format!("container {container:?} in pod {pod:?} is waiting to start")
                }
                _ => format!("the log of container {container:?} in pod {pod:?}: {error}"),
            })
        };
        let file = File::open(&path).map_err(refused)?;
        let end = file.metadata().map_err(refused)?.len();
        let at = match options.tail_lines {
            Some(lines) => log_file::tail(&file, end, lines).map_err(refused)?,
            None => 0,
        };
        let reading = Reading {
            file,
            at,
            end,
            followed: options.follow.then(|| Followed {
                place: self.place.clone(),
                path,
                uid: uid.to_owned(),
                container: container.to_owned(),
                seemed_over: false,
            }),
        };
        Ok(stream::unfold(reading, Reading::next).boxed())
    }
}

/// A log that somebody reads.
struct Reading {
    file: File,
    /// The next byte.
    at: u64,
    /// Where it ended when the reading began.
    end: u64,
    followed: Option<Followed>,
}

/// Of a log that is read as it is written.
struct Followed {
    place: Place,
    path: PathBuf,
    uid: String,
    container: String,
    /// The container did not run at the last look.
    seemed_over: bool,
}

impl Reading {
    /// The next that was written. None at the end: of a followed log when the container has ended, or has another log.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            let end = self.followed.is_none().then_some(self.end);
            if let Some(piece) = log_file::read(&self.file, &mut self.at, end).ok()? {
                return Some((piece.into(), self));
            }
            let now = self.file.metadata().ok()?;
            // It began anew.
            self.at = self.at.min(now.len());
            if self.followed.as_mut()?.is_over(now.ino()) {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Followed {
    /// Whether nothing more will come. A container counts as ended at the second look: it is written down a moment after
    /// it starts, and its last words come a moment before it ends.
    fn is_over(&mut self, ino: u64) -> bool {
        if fs::metadata(&self.path).map_or(true, |it| it.ino() != ino) {
            return true;
        }
        let runs = Record::of(&self.place, &self.uid).is_some_and(|it| {
            let mut containers = it.containers.iter();
            containers.any(|it| it.name == self.container && it.identity.is_running())
        });
        std::mem::replace(&mut self.seemed_over, !runs) && !runs
    }
}

fn container<'a>(pod: &'a Value, wanted: Option<&str>) -> Result<&'a str, Status> {
    let containers = pod["spec"]["containers"].as_array();
    let mut names = containers
        .into_iter()
        .flatten()
        .filter_map(|it| it["name"].as_str());
    let found = match wanted {
        None => names.next(),
        Some(name) => names.find(|it| *it == name),
    };
    found.ok_or_else(|| {
        let name = wanted.unwrap_or("none");
        Status::bad_request(format!("container {name} is not valid for this pod"))
    })
}
