//! Logs of containers, for the API.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use sluice_api::answer::Pieces;
use sluice_api::{LogOptions, Status};
use tokio::sync::watch;

use crate::lab_dir::LabDir;
use crate::log_file;
use crate::machines::Machines;
use crate::record::Record;

/// Interval at which a followed log is read.
const LOOK: Duration = Duration::from_millis(100);

/// Largest log in bytes: kubelet's `containerLogMaxSize`, whose newest file is all that `kubectl logs` reads.
const MOST: u64 = 10 * 1024 * 1024;

/// Interval at which the sizes of all logs are checked. kubelet's `containerLogMonitorInterval` is 10 s.
const PERIOD: Duration = Duration::from_secs(1);

/// Keeps the logs of containers, agents and the lab short; never returns.
pub(crate) fn keep_short(lab_dir: &LabDir) {
    loop {
        let folders = [lab_dir.node(""), lab_dir.pod("")];
        let entries = |it: PathBuf| fs::read_dir(it).into_iter().flatten().flatten();
        let folders = folders.into_iter().flat_map(entries);
        let files = folders.flat_map(|it| entries(it.path()));
        let logs = files.map(|it| it.path());
        let logs = logs.filter(|it| it.extension().is_some_and(|it| it == "log"));
        for path in logs.chain([lab_dir.log()]) {
            match log_file::shorten(&path, MOST) {
                // Its pod was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(%error, path = %path.display(), "a log grows"),
                Ok(()) => {}
            }
        }
        #[expect(clippy::disallowed_methods, reason = "a period")]
        thread::sleep(PERIOD);
    }
}

/// Opens the logs of containers for the API.
pub(crate) struct Logs(pub(crate) Arc<Machines>);

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
        let lab_dir = self.0.lab_dir();
        let path = lab_dir.pod(uid).join(format!("{container}{suffix}"));
        let refused = |error: io::Error| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            // kubelet's words (`pkg/kubelet/kubelet_pods.go`, `validateContainerLogStatus`).
            Status::bad_request(match error.kind() {
                io::ErrorKind::NotFound if options.previous => {
                    format!("previous terminated container {container:?} in pod {name:?} not found")
                }
                io::ErrorKind::NotFound => waiting(pod, name, container),
                _ => format!("the log of container {container:?} in pod {name:?}: {error}"),
            })
        };
        let file = File::open(&path).map_err(refused)?;
        let end = file.metadata().map_err(refused)?.len();
        if let Some(console) = self.0.consoles().get(uid, container)
            && !options.previous
        {
            console.seen(end);
        }
        let at = match options.tail_lines {
            Some(lines) => log_file::tail(&file, end, lines).map_err(refused)?,
            None => 0,
        };
        let reading = Reading {
            file,
            at,
            end,
            followed: options.follow.then(|| Followed {
                lab_dir: lab_dir.clone(),
                path,
                uid: uid.to_owned(),
                container: container.to_owned(),
                seemed_over: false,
                written: None,
            }),
        };
        Ok(stream::unfold(reading, Reading::next).boxed())
    }
}

/// The log of a container as it is written, from an offset or its end on. It ends with the container. `written`: changes
/// with the log; without it the log is looked at every 100 ms.
pub(crate) fn follow(
    lab_dir: &LabDir,
    uid: &str,
    container: &str,
    from: Option<u64>,
    written: Option<watch::Receiver<()>>,
) -> io::Result<Pieces> {
    let path = lab_dir.pod(uid).join(format!("{container}.log"));
    let file = File::open(&path)?;
    let end = file.metadata()?.len();
    let reading = Reading {
        at: from.unwrap_or(end),
        file,
        end,
        followed: Some(Followed {
            lab_dir: lab_dir.clone(),
            path,
            uid: uid.to_owned(),
            container: container.to_owned(),
            seemed_over: false,
            written,
        }),
    };
    Ok(stream::unfold(reading, Reading::next).boxed())
}

/// A log that is being read.
struct Reading {
    file: File,
    /// The offset of the next byte.
    at: u64,
    /// The size when the reading began.
    end: u64,
    followed: Option<Followed>,
}

/// A log that is read while it is written.
struct Followed {
    lab_dir: LabDir,
    path: PathBuf,
    uid: String,
    container: String,
    /// Whether the container was not running at the last check.
    seemed_over: bool,
    /// Tells that the log has grown.
    written: Option<watch::Receiver<()>>,
}

impl Reading {
    /// The next bytes; `None` at the end. A followed log ends when the container has ended, or writes to another file.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            let end = self.followed.is_none().then_some(self.end);
            if let Some(piece) = log_file::read(&self.file, &mut self.at, end).ok()? {
                return Some((piece.into(), self));
            }
            let now = self.file.metadata().ok()?;
            // The log was truncated.
            self.at = self.at.min(now.len());
            let followed = self.followed.as_mut()?;
            if followed.is_over(now.ino()) {
                return None;
            }
            followed.wait().await;
        }
    }
}

impl Followed {
    /// Waits until there may be more.
    async fn wait(&mut self) {
        let look = tokio::time::sleep(LOOK);
        let Some(written) = &mut self.written else {
            return look.await;
        };
        let grown = tokio::select! {
            () = look => Ok(()),
            grown = written.changed() => grown,
        };
        if grown.is_err() {
            // The container has ended.
            self.written = None;
        }
    }

    /// Whether the log is complete. A container must be found ended at two checks in a row: it is recorded a moment
    /// after its start, and its last output comes a moment before its end.
    fn is_over(&mut self, ino: u64) -> bool {
        if fs::metadata(&self.path).map_or(true, |it| it.ino() != ino) {
            return true;
        }
        let runs = Record::of(&self.lab_dir, &self.uid).is_some_and(|it| {
            let mut containers = it.containers.iter();
            containers.any(|it| it.name == self.container && it.identity.is_running())
        });
        std::mem::replace(&mut self.seemed_over, !runs) && !runs
    }
}

/// Why a container has no log, in kubelet's words.
fn waiting(pod: &Value, name: &str, container: &str) -> String {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let all = lists
        .iter()
        .filter_map(|it| pod["status"][*it].as_array())
        .flatten();
    let mut own = all.filter(|it| it["name"] == container);
    let reason = own.find_map(|it| it["state"]["waiting"]["reason"].as_str());
    let begin = format!("container {container:?} in pod {name:?} is waiting to start");
    match reason {
        Some("ErrImagePull") => format!("{begin}: image can't be pulled"),
        Some(reason) => format!("{begin}: {reason}"),
        None => format!("{begin} - no logs yet"),
    }
}

fn container<'a>(pod: &'a Value, wanted: Option<&str>) -> Result<&'a str, Status> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let containers = lists.iter().filter_map(|it| pod["spec"][*it].as_array());
    let mut names = containers.flatten().filter_map(|it| it["name"].as_str());
    let found = match wanted {
        None => names.next(),
        Some(name) => names.find(|it| *it == name),
    };
    found.ok_or_else(|| {
        let name = wanted.unwrap_or("none");
        Status::bad_request(format!("container {name} is not valid for this pod"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_without_log_says_what_it_waits_for() {
        let state = |reason: &str| json!({"waiting": {"reason": reason}});
        let pod = json!({"status": {
            "initContainerStatuses": [{"name": "first", "state": state("ErrImagePull")}],
            "containerStatuses": [{"name": "app", "state": state("PodInitializing")}],
        }});
        for (container, expected) in [
            (
                "app",
                "container \"app\" in pod \"web\" is waiting to start: PodInitializing",
            ),
            (
                "first",
                "container \"first\" in pod \"web\" is waiting to start: image can't be pulled",
            ),
            (
                "new",
                "container \"new\" in pod \"web\" is waiting to start - no logs yet",
            ),
        ] {
            assert_eq!(waiting(&pod, "web", container), expected);
        }
    }
}
