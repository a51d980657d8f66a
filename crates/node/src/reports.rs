//! Says once what is wrong, and once that it is over.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

/// Lines logged at once; `sluice status` has the rest.
const SHOWN: usize = 50;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    /// What it is about: an object, a file, a family. Of two complaints about one thing the newer
    /// may be the older in other words.
    pub(crate) about: String,
    /// One line for a person.
    pub(crate) text: String,
}

/// What has been logged as wrong and has not gone since, by who found it.
#[derive(Debug, Default)]
pub(crate) struct Reports(BTreeMap<&'static str, BTreeSet<Complaint>>);

impl Reports {
    /// Compares with what was logged before and logs the difference. `from` says who found it:
    /// `object`, `source` or `kernel`.
    pub(crate) fn update(&mut self, from: &'static str, now: BTreeSet<Complaint>) {
        let known = self.0.entry(from).or_default();
        let (fresh, solved) = compare(known, &now);
        for text in fresh.iter().take(SHOWN) {
            warn!(from, "{text}");
        }
        if fresh.len() > SHOWN {
            let more = fresh.len() - SHOWN;
            warn!(from, more, "further problems: `sluice status` lists them");
        }
        for text in solved.iter().take(SHOWN) {
            info!(from, "solved: {text}");
        }
        if solved.len() > SHOWN {
            info!(from, more = solved.len() - SHOWN, "further problems solved");
        }
        *known = now;
    }
}

/// What is new, and what is over. Something is not over when only the words about it change.
fn compare<'a>(
    known: &'a BTreeSet<Complaint>,
    now: &'a BTreeSet<Complaint>,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let fresh: Vec<&Complaint> = now.difference(known).collect();
    let changed: BTreeSet<&str> = fresh.iter().map(|it| &*it.about).collect();
    let gone = known.difference(now);
    let solved = gone.filter(|it| !changed.contains(&*it.about));
    (
        fresh.iter().map(|it| &*it.text).collect(),
        solved.map(|it| &*it.text).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(all: &[(&str, &str)]) -> BTreeSet<Complaint> {
        let complaint = |(about, text): &(&str, &str)| Complaint {
            about: (*about).to_owned(),
            text: (*text).to_owned(),
        };
        all.iter().map(complaint).collect()
    }

    #[test]
    fn a_complaint_in_other_words_is_not_solved() {
        let port = ("default/web", "lacks the extension statistic");
        let reworded = ("default/web", "lacks the family IPv6");
        let file = ("a.yaml", "line 3: no");
        for (known, now, fresh, solved) in [
            (vec![], vec![port], vec![port.1], vec![]),
            (vec![port], vec![port], vec![], vec![]),
            (vec![port], vec![reworded], vec![reworded.1], vec![]),
            (vec![port, reworded], vec![port], vec![], vec![reworded.1]),
            (vec![port, file], vec![file], vec![], vec![port.1]),
        ] {
            let (known, now) = (complaints(&known), complaints(&now));
            assert_eq!(compare(&known, &now), (fresh, solved), "{known:?} {now:?}");
        }
    }
}
