//! Logs and announces problems, once when they begin; logs once when they are over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use sluice_model::{Announcement, NamespacedName, Reference, Service};
use sluice_plan::issue::{Issue, Kind};
use tracing::{info, warn};

/// Most lines logged at once; `sluice status` has the rest.
const SHOWN: usize = 50;

/// The Service whose users get an Event, and the Event's reason.
type EventKey = (NamespacedName, &'static str);

/// A problem that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    /// The finder: `object`, `source` or `kernel`.
    pub(super) from: &'static str,
    /// The object, file or family. A new text about the same object replaces the old finding.
    pub(super) about: String,
    /// One line for a person.
    pub(super) text: String,
    /// `None` when no user of a Service can do anything about it.
    pub(super) event: Option<EventKey>,
}

/// Findings that change together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// The plan of a Service.
    Issues(NamespacedName),
    /// The plan of the node.
    Node,
    /// The problems of a source, by origin.
    Source(Arc<str>),
    /// The families that cannot be served.
    Kernel,
    /// The ports of a Service that need a feature that the machine lacks.
    Refusals(NamespacedName),
}

/// All findings of the last sync: they were logged and announced, and still exist.
#[derive(Debug, Default)]
pub(super) struct Findings {
    logged: BTreeMap<Topic, BTreeSet<Finding>>,
    /// The first finding of each Event, and the number of findings.
    announced: BTreeMap<EventKey, (String, usize)>,
}

impl Findings {
    /// The Services that had refused ports.
    pub(super) fn refused(&self) -> impl Iterator<Item = NamespacedName> {
        let topics = self.logged.keys();
        topics.filter_map(|it| match it {
            Topic::Refusals(service) => Some(service.clone()),
            _ => None,
        })
    }

    /// Logs and announces the difference to the last update. The topics are those that may have changed.
    /// The findings of one Event belong to one topic.
    pub(super) fn update(
        &mut self,
        now: BTreeMap<Topic, BTreeSet<Finding>>,
        announce: &Sender<Announcement>,
    ) {
        let (mut news, mut solved) = (Lines::default(), Lines::default());
        for (topic, now) in now {
            let known = self.logged.remove(&topic).unwrap_or_default();
            if known != now {
                let (new, gone) = compare(&known, &now);
                news.show(&new, |it| warn!(from = it.from, "{}", it.text));
                solved.show(&gone, |it| info!(from = it.from, "solved: {}", it.text));
                self.announce(&known, &now, announce);
            }
            if !now.is_empty() {
                self.logged.insert(topic, now);
            }
        }
        if news.more > 0 {
            let more = news.more;
            warn!(more, "further problems: `sluice status` lists them");
        }
        if solved.more > 0 {
            info!(more = solved.more, "further problems solved");
        }
    }

    fn announce(
        &mut self,
        known: &BTreeSet<Finding>,
        now: &BTreeSet<Finding>,
        announce: &Sender<Announcement>,
    ) {
        let mut notes = BTreeMap::new();
        for it in now {
            if let Some(key) = &it.event {
                let first = || (it.text.clone(), 0);
                let (_, count) = notes.entry(key.clone()).or_insert_with(first);
                *count += 1;
            }
        }
        for key in known.iter().filter_map(|it| it.event.as_ref()) {
            if !notes.contains_key(key) {
                self.announced.remove(key);
            }
        }
        for (key, note) in notes {
            if self.announced.get(&key) == Some(&note) {
                continue;
            }
            let text = match &note {
                (text, 1) => text.clone(),
                (text, count) => format!("{text} (and {} more)", count - 1),
            };
            // The receiver may have ended; log and status have the finding too.
            let _ = announce.send(Announcement {
                about: Reference::to::<Service>(key.0.clone()),
                is_warning: true,
                reason: key.1,
                action: "Sync",
                note: text,
            });
            self.announced.insert(key, note);
        }
    }
}

/// Counts the lines of one update.
#[derive(Debug, Default)]
struct Lines {
    shown: usize,
    more: usize,
}

impl Lines {
    fn show(&mut self, all: &[&Finding], log: impl Fn(&Finding)) {
        let shown = all.len().min(SHOWN - self.shown);
        all[..shown].iter().for_each(|it| log(it));
        self.shown += shown;
        self.more += all.len() - shown;
    }
}

/// New and solved findings. A finding whose text alone changed is not solved.
fn compare<'a>(
    known: &'a BTreeSet<Finding>,
    now: &'a BTreeSet<Finding>,
) -> (Vec<&'a Finding>, Vec<&'a Finding>) {
    let new: Vec<&Finding> = now.difference(known).collect();
    let changed: BTreeSet<_> = new.iter().map(|it| (it.from, &it.about)).collect();
    let gone = known.difference(now);
    let solved = gone.filter(|it| !changed.contains(&(it.from, &it.about)));
    (new, solved.collect())
}

/// The reason of the Event about an issue; `None` when the Service's users can do nothing about
/// it, or when it passes as soon as another controller has done its work.
pub(super) fn event_reason(issue: &Issue) -> Option<&'static str> {
    issue.is_for_users.then_some(match issue.kind {
        Kind::FrontendTaken => "FrontendConflict",
        kind => kind.name(),
    })
}

/// The Service that a source could not read: its origin is the object, as [`Reference`] displays it.
pub(super) fn service_of(origin: &str) -> Option<NamespacedName> {
    let (namespace, name) = origin.strip_prefix("Service ")?.split_once('/')?;
    Some(NamespacedName::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(all: &[(&str, &str)]) -> BTreeSet<Finding> {
        let finding = |(about, text): &(&str, &str)| Finding {
            from: "object",
            about: (*about).to_owned(),
            text: (*text).to_owned(),
            event: None,
        };
        all.iter().map(finding).collect()
    }

    #[test]
    fn a_finding_in_other_words_is_not_solved() {
        let port = ("default/web", "lacks the extension statistic");
        let reworded = ("default/web", "lacks the family IPv6");
        let file = ("a.yaml", "line 3: no");
        for (known, now, new, solved) in [
            (vec![], vec![port], vec![port.1], vec![]),
            (vec![port], vec![port], vec![], vec![]),
            (vec![port], vec![reworded], vec![reworded.1], vec![]),
            (vec![port, reworded], vec![port], vec![], vec![reworded.1]),
            (vec![port, file], vec![file], vec![], vec![port.1]),
        ] {
            let (known, now) = (findings(&known), findings(&now));
            let texts = |all: Vec<&Finding>| -> Vec<String> {
                all.into_iter().map(|it| it.text.clone()).collect()
            };
            let (found_new, found_solved) = compare(&known, &now);
            assert_eq!(texts(found_new), new, "{known:?} {now:?}");
            assert_eq!(texts(found_solved), solved, "{known:?} {now:?}");
        }
    }
}
