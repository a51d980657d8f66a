//! Counts of answers per server.

use std::{collections::BTreeMap, fmt};

use crate::Outcome;

/// Counts of outcomes, to be drawn as bars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Answers per server name.
    pub answered: BTreeMap<String, u64>,
    /// Other outcomes, by their text.
    pub failed: BTreeMap<String, u64>,
}

/// Length of the bar of 100 %, in characters.
const WIDTH: u64 = 24;

impl Spread {
    /// Counts one more outcome.
    pub fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Answered { name, .. } => self.answered.entry(name).or_default(),
            other => self.failed.entry(other.to_string()).or_default(),
        } += 1;
    }

    /// Number of outcomes.
    pub fn total(&self) -> u64 {
        self.answered.values().chain(self.failed.values()).sum()
    }

    /// Number of answers from the server `name`.
    pub fn of(&self, name: &str) -> u64 {
        self.answered.get(name).copied().unwrap_or(0)
    }

    /// The outcomes that came after `earlier`. Servers that were silent since then count 0.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        type Counts = BTreeMap<String, u64>;
        let less = |now: &Counts, before: &Counts| -> Counts {
            let before = |name: &String| before.get(name).copied().unwrap_or(0);
            now.iter()
                .map(|(name, count)| (name.clone(), count.saturating_sub(before(name))))
                .collect()
        };
        Self {
            answered: less(&self.answered, &earlier.answered),
            failed: less(&self.failed, &earlier.failed),
        }
    }

    /// Without the entries that count 0.
    pub(crate) fn without_silent(mut self) -> Self {
        self.answered.retain(|_, count| *count > 0);
        self.failed.retain(|_, count| *count > 0);
        self
    }

    /// Number of requests without an answer.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

impl FromIterator<Outcome> for Spread {
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> Self {
        let mut spread = Self::default();
        outcomes.into_iter().for_each(|outcome| spread.add(outcome));
        spread
    }
}

/// One line per server, then per kind of failure: `web-1  ████████▏  34%`.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total().max(1);
        let rows: Vec<(&String, &u64)> = self.answered.iter().chain(&self.failed).collect();
        let widest = rows
            .iter()
            .map(|(label, _)| label.chars().count())
            .max()
            .unwrap_or(0);
        for (position, (label, count)) in rows.iter().enumerate() {
            let end = if position + 1 < rows.len() { "\n" } else { "" };
            write!(
                f,
                "{label:widest$}  {}  {}%{end}",
                bar(**count, total),
                (*count * 100 + total / 2) / total
            )?;
        }
        Ok(())
    }
}

/// A bar in eighths of a character; at least one eighth long unless `count` is 0.
fn bar(count: u64, total: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((count * WIDTH * 8 + total / 2) / total).max(u64::from(count > 0));
    let whole = usize::try_from(eighths / 8).expect("at most the width of a bar");
    format!("{}{}", "█".repeat(whole), EIGHTHS[(eighths % 8) as usize])
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn answer(name: &str) -> Outcome {
        Outcome::Answered {
            name: name.to_owned(),
            source: Ipv4Addr::LOCALHOST.into(),
            source_port: 1,
        }
    }

    #[test]
    fn bars_are_in_proportion() {
        let outcomes = [("web-1", 6), ("web-22", 3)]
            .iter()
            .flat_map(|(name, n)| vec![answer(name); *n]);
        let spread: Spread = outcomes.chain(vec![Outcome::TimedOut; 3]).collect();
        let expected =
            "web-1      ████████████  50%\nweb-22     ██████  25%\ntimed out  ██████  25%";
        assert_eq!(spread.to_string(), expected);
        assert_eq!(
            (spread.total(), spread.of("web-22"), spread.failures()),
            (12, 3, 3)
        );
    }

    #[test]
    fn a_server_that_became_silent_counts_nothing() {
        let before: Spread = [answer("a"), answer("b")].into_iter().collect();
        let mut now = before.clone();
        now.add(answer("a"));
        let since = now.since(&before);
        let bar = "█".repeat(24);
        assert_eq!(since.to_string(), format!("a  {bar}  100%\nb    0%"));
        assert_eq!(since.without_silent(), [answer("a")].into_iter().collect());
    }

    #[test]
    fn a_small_share_is_visible() {
        let spread: Spread = vec![answer("a"); 10_000]
            .into_iter()
            .chain([answer("b")])
            .collect();
        assert!(spread.to_string().ends_with("b  ▏  0%"), "{spread}");
        assert_eq!(Spread::default().to_string(), "");
    }
}
