//! Logs and announces problems, once when they begin; logs once when they are over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluice_model::{Announcement, NamespacedName, Reference, Service};
use sluice_plan::issue::{Issue, Kind};
use tracing::{info, warn};

use super::allowance::Allowance;

/// Most lines about new findings of one kind in a [`WINDOW`], and about those that are over; `sluice status` has the
/// rest.
const SHOWN: usize = 50;

/// The time for which lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// How long a finding must last that is usually over as soon as another object has followed: EndpointSlices follow a Service's
/// ports within a second or two, an address moves from one Service to another, a Node is registered again.
const LASTS: Duration = Duration::from_secs(5);

/// The Service whose users get an Event, and the Event's reason.
type EventKey = (NamespacedName, &'static str);

/// A problem that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    /// The finder: `object`, `source` or `kernel`.
    pub(super) from: &'static str,
    /// The kind in one word, for which lines are bounded.
    pub(super) kind: &'static str,
    /// How long it must last before it is logged and announced.
    pub(super) lasts: Duration,
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
    /// Findings that have not lasted long enough, with the time at which they were found.
    young: BTreeMap<Topic, BTreeMap<Finding, Instant>>,
    limit: Limit,
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
        found: BTreeMap<Topic, BTreeSet<Finding>>,
        now: Instant,
        announce: &Sender<Announcement>,
    ) {
        self.limit.end_windows(now);
        for (topic, found) in found {
            let known = self.logged.remove(&topic).unwrap_or_default();
            let found = self.lasting(&topic, found, &known, now);
            if known != found {
                let (new, gone) = compare(&known, &found);
                for it in new {
                    if self.limit.admits(it.kind, Said::New, now) {
                        warn!(from = it.from, "{}", it.text);
                    }
                }
                for it in gone {
                    if self.limit.admits(it.kind, Said::Solved, now) {
                        info!(from = it.from, "solved: {}", it.text);
                    }
                }
                self.announce(&known, &found, announce);
            }
            if !found.is_empty() {
                self.logged.insert(topic, found);
            }
        }
    }

    /// The findings that are known or have lasted long enough; the others wait.
    fn lasting(
        &mut self,
        topic: &Topic,
        found: BTreeSet<Finding>,
        known: &BTreeSet<Finding>,
        now: Instant,
    ) -> BTreeSet<Finding> {
        let before = self.young.remove(topic).unwrap_or_default();
        let (mut lasting, mut young) = (BTreeSet::new(), BTreeMap::new());
        for it in found {
            let since = before.get(&it).copied().unwrap_or(now);
            if known.contains(&it) || since + it.lasts <= now {
                lasting.insert(it);
            } else {
                young.insert(it, since);
            }
        }
        if !young.is_empty() {
            self.young.insert(topic.clone(), young);
        }
        lasting
    }

    /// Whether there are findings of a topic.
    #[cfg(test)]
    pub(super) fn has(&self, topic: &Topic) -> bool {
        self.logged.contains_key(topic)
    }

    /// When to call [`ripen`](Self::ripen).
    pub(super) fn due(&self) -> Option<Instant> {
        let young = self.young.values().flatten();
        let ripe = young.map(|(it, since)| *since + it.lasts).min();
        ripe.into_iter().chain(self.limit.due()).min()
    }

    /// Logs and announces the findings that have lasted long enough by now.
    pub(super) fn ripen(&mut self, now: Instant, announce: &Sender<Announcement>) {
        if self.due().is_none_or(|it| now < it) {
            return;
        }
        let is_ripe = |(it, since): (&Finding, &Instant)| *since + it.lasts <= now;
        let ripe = self.young.iter().filter(|(_, all)| all.iter().any(is_ripe));
        let all = ripe.map(|(topic, young)| {
            let known = self.logged.get(topic).into_iter().flatten();
            (topic.clone(), known.chain(young.keys()).cloned().collect())
        });
        self.update(all.collect(), now, announce);
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

/// Whether a line is about a new finding or about one that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    New,
    Solved,
}

/// Bounds the lines of each kind: objects of one tenant that come and go would fill the disk.
#[derive(Debug, Default)]
struct Limit(BTreeMap<(&'static str, Said), Allowance>);

impl Limit {
    /// Whether one more line of a kind may be logged now.
    fn admits(&mut self, kind: &'static str, said: Said, now: Instant) -> bool {
        let lines = self.0.entry((kind, said));
        lines
            .or_insert(Allowance::new(SHOWN, now + WINDOW))
            .admits()
    }

    /// Ends the windows whose time is over, and logs how many lines each of them left out.
    fn end_windows(&mut self, now: Instant) {
        self.0.retain(|(kind, said), window| {
            let (is_over, more) = (window.end <= now, window.more);
            match said {
                _ if !is_over || more == 0 => {}
                Said::New => warn!(kind, more, "further problems: `sluice status` lists them"),
                Said::Solved => info!(kind, more, "further problems solved"),
            }
            !is_over
        });
    }

    /// When a window ends that left out lines.
    fn due(&self) -> Option<Instant> {
        let cut = self.0.values().filter(|it| it.more > 0);
        cut.map(|it| it.end).min()
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

/// See [`Finding::lasts`].
pub(super) fn lasts(kind: Kind) -> Duration {
    match kind {
        Kind::ClusterIpShared
        | Kind::ClusterIpTaken
        | Kind::FrontendTaken
        | Kind::NoNode
        | Kind::PortMismatch => LASTS,
        _ => Duration::ZERO,
    }
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
            kind: "PortMismatch",
            lasts: LASTS,
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

    #[test]
    fn a_finding_is_said_when_it_has_lasted() {
        let (announce, _announced) = std::sync::mpsc::channel();
        let (mut all, start) = (Findings::default(), Instant::now());
        let mut found = |second: u64, found: &[(&str, &str)]| {
            let now = start + Duration::from_secs(second);
            let found = BTreeMap::from([(Topic::Node, findings(found))]);
            all.update(found, now, &announce);
            let due = all.due().map(|it| (it - start).as_secs());
            (all.logged.get(&Topic::Node).map_or(0, BTreeSet::len), due)
        };
        let (one, two) = (
            ("default/web", "no endpoint"),
            ("default/dns", "no endpoint"),
        );
        assert_eq!(found(0, &[one]), (0, Some(5)));
        assert_eq!(found(1, &[]), (0, None), "the slice has followed");
        assert_eq!(found(2, &[one]), (0, Some(7)));
        assert_eq!(found(4, &[one, two]), (0, Some(7)));
        assert_eq!(found(7, &[one, two]), (1, Some(9)));
        all.ripen(start + Duration::from_secs(8), &announce);
        assert_eq!(all.logged[&Topic::Node].len(), 1);
        all.ripen(start + Duration::from_secs(9), &announce);
        assert_eq!((all.logged[&Topic::Node].len(), all.due()), (2, None));
    }

    #[test]
    fn lines_of_one_kind_are_bounded() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        let mut storm = |second: u64, kind| {
            let now = start + Duration::from_secs(second);
            limit.end_windows(now);
            let said = (0..1_000).filter(|_| limit.admits(kind, Said::New, now));
            let said = said.count();
            (said, limit.due().map(|it| (it - start).as_secs()))
        };
        assert_eq!(storm(0, "Shadows"), (SHOWN, Some(60)));
        assert_eq!(storm(30, "Shadows"), (0, Some(60)));
        assert_eq!(storm(31, "NoNode"), (SHOWN, Some(60)), "another kind");
        assert_eq!(storm(60, "Shadows"), (SHOWN, Some(91)));
    }
}
