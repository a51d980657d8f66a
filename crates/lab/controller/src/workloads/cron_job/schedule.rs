//! The schedule of a CronJob: the five fields of cron, `@daily` and its like, and `@every` (`ParseStandard` of
//! `github.com/robfig/cron/v3`).

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// How far into the future a time is looked for.
const YEARS: i16 = 5;

/// When a CronJob runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    Times(Times),
    /// `@every`: the time from one run to the next.
    Every(SignedDuration),
}

/// The minutes at which all fields match. A set has one bit for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Bit 0 is Sunday.
    weekdays: u64,
    /// Whether days of the month and of the week must both match, because one of them is `*`.
    both: bool,
}

/// One field: its values, and the names that some have.
struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        first: 0,
        last: 59,
        names: &[],
    },
    Field {
        name: "hour",
        first: 0,
        last: 23,
        names: &[],
    },
    Field {
        name: "day of month",
        first: 1,
        last: 31,
        names: &[],
    },
    Field {
        name: "month",
        first: 1,
        last: 12,
        names: MONTHS,
    },
    Field {
        name: "day of week",
        first: 0,
        last: 6,
        names: WEEKDAYS,
    },
];

impl Schedule {
    /// Reads a schedule; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(distance) = text.strip_prefix("@every ") {
            let distance =
                every(distance).ok_or_else(|| format!("failed to parse duration {text}"))?;
            return Ok(Self::Every(distance));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => {
                return Err(format!("unrecognized descriptor: {other}"));
            }
            other => other,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = words[..] else {
            let found = words.len();
            return Err(format!(
                "expected exactly 5 fields, found {found}: [{}]",
                words.join(" ")
            ));
        };
        let is_star = |it: &str| it.split(',').any(|it| it.starts_with(['*', '?']));
        let [minute, hour, day, month, weekday] = &FIELDS;
        Ok(Self::Times(Times {
            minutes: minute.set(minutes)?,
            hours: hour.set(hours)?,
            days: day.set(days)?,
            months: month.set(months)?,
            weekdays: weekday.set(weekdays)?,
            both: is_star(days) || is_star(weekdays),
        }))
    }

    /// The first time after `since`; `None` when there is none in five years. Times that a change of clocks leaves out are left
    /// out; those that it repeats come once.
    pub(crate) fn next(&self, since: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(distance) => since.checked_add(*distance).ok(),
            Self::Times(times) => times.next(since, zone),
        }
    }

    /// The last time after `since` and not after `until`.
    pub(crate) fn last(
        &self,
        since: Timestamp,
        until: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        if let Self::Every(distance) = self {
            let passed = until
                .duration_since(since)
                .as_secs()
                .checked_div(distance.as_secs())?;
            let passed = i32::try_from(passed).ok().filter(|it| *it > 0)?;
            return since.checked_add(*distance * passed).ok();
        }
        // A short look back finds what is frequent in few steps.
        [2, 48, 24 * 40, 24 * 366, 24 * 366 * i64::from(YEARS)]
            .into_iter()
            .find_map(|hours| {
                let begin = until.checked_sub(hours.hours()).unwrap_or(since).max(since);
                let mut last = None;
                let mut at = begin;
                while let Some(next) = self.next(at, zone).filter(|it| *it <= until) {
                    last = Some(next);
                    at = next;
                }
                last
            })
    }
}

impl Times {
    fn next(&self, since: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(since);
        let end = start.year() + YEARS;
        let mut at = start.with().second(0).subsec_nanosecond(0).build().ok()?;
        at = at.checked_add(1.minute()).ok()?;
        while at.year() <= end {
            let date = at.date();
            if !has(self.months, date.month()) {
                at = midnight(date.last_of_month().tomorrow().ok()?);
            } else if !self.has_day(date) {
                at = midnight(date.tomorrow().ok()?);
            } else if !has(self.hours, at.hour()) {
                let hour = date.to_datetime(Time::constant(at.hour(), 0, 0, 0));
                at = hour.checked_add(1.hour()).ok()?;
            } else if !has(self.minutes, at.minute()) {
                at = at.checked_add(1.minute()).ok()?;
            } else {
                let ambiguous = zone.to_ambiguous_timestamp(at);
                match ambiguous.offset() {
                    jiff::tz::AmbiguousOffset::Gap { .. } => {}
                    _ => {
                        let found = ambiguous.compatible().ok()?;
                        if found > since {
                            return Some(found);
                        }
                    }
                }
                at = at.checked_add(1.minute()).ok()?;
            }
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.both {
            day && weekday
        } else {
            day || weekday
        }
    }
}

fn midnight(date: Date) -> DateTime {
    date.to_datetime(Time::midnight())
}

fn has(set: u64, value: i8) -> bool {
    set & (1 << value) != 0
}

impl Field {
    /// The values of a list.
    fn set(&self, text: &str) -> Result<u64, String> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.range(part)?;
        }
        Ok(set)
    }

    /// The values of `*`, `N`, `N-M`, each with `/STEP`.
    fn range(&self, text: &str) -> Result<u64, String> {
        let wrong = |why: &str| format!("{why} in the {}: {text}", self.name);
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (self.first, self.last),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None => {
                let first = self.value(range)?;
                // `N/STEP` goes on to the end.
                (first, if step.is_some() { self.last } else { first })
            }
        };
        let step = match step {
            None => 1,
            Some(step) => step.parse::<usize>().map_err(|_| wrong("no number"))?,
        };
        if step == 0 {
            return Err(wrong("a step of 0"));
        }
        if first > last {
            return Err(wrong("the beginning is beyond the end"));
        }
        Ok((first..=last)
            .step_by(step)
            .fold(0, |set, it| set | 1 << it))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_lowercase();
        let named = self.names.iter().position(|it| *it == lower);
        let named = named
            .and_then(|it| u32::try_from(it).ok())
            .map(|it| it + self.first);
        let value = named.or(text.parse().ok());
        let value = value.ok_or_else(|| format!("no number in the {}: {text}", self.name))?;
        if !(self.first..=self.last).contains(&value) {
            let (first, last) = (self.first, self.last);
            return Err(format!(
                "{value} is not in {first}-{last}, the {}",
                self.name
            ));
        }
        Ok(value)
    }
}

/// A duration as Go writes it: `1h30m`; whole seconds, at least one.
fn every(text: &str) -> Option<SignedDuration> {
    let mut seconds = 0_f64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let (number, unit) = rest.split_at(end);
        let (factor, length) = match unit {
            _ if unit.starts_with("ms") => (0.001, 2),
            _ if unit.starts_with('h') => (3600.0, 1),
            _ if unit.starts_with('m') => (60.0, 1),
            _ if unit.starts_with('s') => (1.0, 1),
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = &unit[length..];
    }
    let whole = SignedDuration::try_from_secs_f64(seconds.trunc()).ok()?;
    Some(whole.max(SignedDuration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of a schedule after a time, in a zone.
    #[track_caller]
    fn check(schedule: &str, zone: &str, since: &str, expected: &[&str]) {
        let schedule = Schedule::parse(schedule).unwrap();
        let zone = TimeZone::posix(zone).unwrap();
        let mut at: Timestamp = since.parse().unwrap();
        for it in expected {
            let next = schedule.next(at, &zone).unwrap();
            assert_eq!(next.to_string(), *it, "{schedule:?} after {at}");
            assert_eq!(schedule.last(at, next, &zone), Some(next));
            at = next;
        }
    }

    #[test]
    fn times_are_those_of_cron() {
        let since = "2026-01-01T10:07:30Z";
        for (schedule, expected) in [
            (
                "* * * * *",
                ["2026-01-01T10:08:00Z", "2026-01-01T10:09:00Z"],
            ),
            (
                "*/15 * * * *",
                ["2026-01-01T10:15:00Z", "2026-01-01T10:30:00Z"],
            ),
            (
                "5/20 * * * *",
                ["2026-01-01T10:25:00Z", "2026-01-01T10:45:00Z"],
            ),
            (
                "7 10 * * *",
                ["2026-01-02T10:07:00Z", "2026-01-03T10:07:00Z"],
            ),
            (
                "0 9-17/4 * * mon-FRI",
                ["2026-01-01T13:00:00Z", "2026-01-01T17:00:00Z"],
            ),
            (
                "0 0 31 * *",
                ["2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"],
            ),
            (
                "0 0 29 2 ?",
                ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
            ),
            // One of both days is enough, unless one is a star: 2026-01-02 is a Friday.
            (
                "0 0 13 * fri",
                ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"],
            ),
            (
                "0 0 */2 * fri",
                ["2026-01-09T00:00:00Z", "2026-01-23T00:00:00Z"],
            ),
            (
                "1,3 0 1 jan,jul *",
                ["2026-07-01T00:01:00Z", "2026-07-01T00:03:00Z"],
            ),
            ("@hourly", ["2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z"]),
            ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
            (
                "@every 1h30m",
                ["2026-01-01T11:37:30Z", "2026-01-01T13:07:30Z"],
            ),
        ] {
            check(schedule, "UTC0", since, &expected);
        }
    }

    #[test]
    fn clocks_change() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        check(
            "30 2 * * *",
            berlin,
            "2026-03-28T12:00:00Z",
            // 2:30 of March 29 does not exist.
            &["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"],
        );
        check(
            "30 2 * * *",
            berlin,
            "2026-10-24T12:00:00Z",
            // 2:30 of October 25 exists twice.
            &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        );
    }

    #[test]
    fn what_cron_does_not_know_is_refused() {
        for wrong in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "a * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "*/x * * * *",
            "1- * * * *",
            "@never",
            "@every",
            "@every x",
            "@every 5",
        ] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong:?}");
        }
        let impossible = Schedule::parse("0 0 30 2 *").unwrap();
        let since: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(impossible.next(since, &TimeZone::UTC), None);
    }
}
