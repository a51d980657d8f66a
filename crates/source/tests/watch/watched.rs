//! A watch and its events.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use sluice_source::{Subscription, Watch};

use crate::support::{Event, Kinds, Object};

/// Long enough for a loaded machine, short enough for a person.
const DEADLINE: Duration = Duration::from_secs(20);

/// The names of the objects that a batch sets.
pub(crate) fn set_names(batch: &[Event]) -> Vec<String> {
    let sets = batch.iter().filter_map(|it| match it {
        Event::Set(object) => Some(object.key().to_string()),
        _ => None,
    });
    sets.collect()
}

/// A running watch and its events.
pub(crate) struct Watched {
    watch: Option<(Watch, Subscription)>,
    batches: Receiver<Vec<Event>>,
}

impl Watched {
    pub(crate) fn start(dir: &Path) -> Self {
        let (sender, batches) = channel();
        let sink = move |it| {
            let _ = sender.send(it);
        };
        let watch = Some(crate::support::watch(dir, Kinds::PROXY.wants(), sink).unwrap());
        Self { watch, batches }
    }

    pub(crate) fn stop(&mut self) {
        self.watch = None;
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.batches.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Disconnected)
    }

    pub(crate) fn next(&mut self) -> Vec<Event> {
        self.batches
            .recv_timeout(DEADLINE)
            .expect("a batch in time")
    }

    /// The first batch.
    pub(crate) fn first(&mut self) -> Vec<Event> {
        let batch = self.next();
        assert!(batch.contains(&Event::Synced), "{batch:?}");
        batch
    }

    /// The events until now, in order: `+Service ns/name:port`, `-Service ns/name`,
    /// `!origin[problem|problem]`. Changes that a loaded machine spreads over two batches are
    /// put together, but never one that deletes what the next one sets.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &str) {
        let (deadline, mut said) = (Instant::now() + DEADLINE, Vec::new());
        while said.join(" ").len() < expected.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.batches.recv_timeout(left) {
                Ok(batch) => said.extend(batch.iter().map(brief)),
                Err(_) => break,
            }
        }
        said.sort_by_key(|it| it[1..].to_owned());
        let mut wanted = split(expected);
        wanted.sort_by_key(|it| it[1..].to_owned());
        assert_eq!(said, wanted);
    }

    /// Waits for an event, and ignores the events before it.
    #[track_caller]
    pub(crate) fn until(&mut self, expected: &str) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let batch = self.batches.recv_timeout(left).expect("the event in time");
            if batch.iter().any(|it| brief(it) == expected) {
                return;
            }
        }
    }
}

/// Cuts ` +`, ` -` and ` !` apart.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, it) in text.char_indices() {
        match it {
            '[' => depth += 1,
            ']' => depth -= 1,
            ' ' if depth == 0 && text[i + 1..].starts_with(['+', '-', '!']) => {
                parts.push(text[start..i].to_owned());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].to_owned());
    parts
}

fn brief(event: &Event) -> String {
    match event {
        Event::Set(object) => match object {
            Object::Service(it) => format!("+{}:{}", object.key(), it.ports[0].port),
            other => format!("+{}", other.key()),
        },
        Event::Delete(key) => format!("-{key}"),
        Event::Problems { origin, problems } => format!("!{origin}[{}]", problems.join("|")),
        Event::Synced => "synced".to_owned(),
    }
}
