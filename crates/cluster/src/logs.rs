//! Logs of containers, for the API.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use sluice_api::answer::Pieces;
use sluice_api::{LogOptions, Status};

use crate::place::Place;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The most that is sent at once.
const PIECE: u64 = 64 * 1024;

/// Finds the files.
pub(crate) struct Logs {
    pub(crate) place: Place,
}

impl sluice_api::Logs for Logs {
    fn read(&self, pod: &Value, options: &LogOptions) -> Result<Pieces, Status> {
        if options.timestamps || options.since_seconds.is_some() {
            let why = "the lab's logs have no times: leave out --timestamps and --since";
            return Err(Status::bad_request(why));
        }
        let name = container(pod, options.container.as_deref())?;
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let suffix = if options.previous {
            ".previous.log"
        } else {
            ".log"
        };
        let path = self.place.pod(uid).join(format!("{name}{suffix}"));
        let waits = |error: io::Error| {
            let why = format!("container {name:?} has written nothing there: {error}");
            Status::bad_request(why)
        };
        let mut file = File::open(&path).map_err(waits)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(waits)?;
        let lines = options.tail_lines.and_then(|it| usize::try_from(it).ok());
        let first = stream::iter([Bytes::from(tail(text, lines))]);
        if !options.follow {
            return Ok(first.boxed());
        }
        Ok(first.chain(stream::unfold((file, path), more)).boxed())
    }
}

/// The next that is written; none when the container has another log, or the pod is gone.
async fn more((mut file, path): (File, PathBuf)) -> Option<(Bytes, (File, PathBuf))> {
    loop {
        let mut text = Vec::new();
        (&mut file).take(PIECE).read_to_end(&mut text).ok()?;
        if !text.is_empty() {
            return Some((text.into(), (file, path)));
        }
        if fs::metadata(&path).ok()?.ino() != file.metadata().ok()?.ino() {
            return None;
        }
        tokio::time::sleep(LOOK).await;
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

/// The last lines of a text.
fn tail(text: Vec<u8>, lines: Option<usize>) -> Vec<u8> {
    let Some(lines) = lines else { return text };
    let ends = text.iter().enumerate().filter(|(_, it)| **it == b'\n');
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    let unfinished = usize::from(ends.last().is_some_and(|it| *it < text.len()));
    let whole = lines.saturating_sub(unfinished);
    match ends.len().checked_sub(whole + 1) {
        Some(position) => text[ends[position]..].to_vec(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines() {
        let of = |text: &str, lines| {
            String::from_utf8(tail(text.as_bytes().to_vec(), Some(lines))).unwrap()
        };
        assert_eq!(of("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(of("a\nb\nc\n", 3), "a\nb\nc\n");
        assert_eq!(of("a\nb\nc", 2), "b\nc");
        assert_eq!(of("a\n", 9), "a\n");
        assert_eq!(of("a\nb\n", 0), "");
    }
}
