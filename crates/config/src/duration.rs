//! Durations as Go writes them: `metav1.Duration` and the flags of kube-proxy.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A signed time in nanoseconds, `time.Duration` of Go.
///
/// In a configuration it is a text such as `1m30s`; a number is refused, as in Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

impl GoDuration {
    /// This many seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as i64 * 1_000_000_000)
    }

    /// Whether it is 0, which many fields read as "not set".
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// As a [`Duration`]; `None` when it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

/// Reads what `time.ParseDuration` reads: `1h`, `-1m30s`, `1.5s`, `0`.
impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        sluice_model::parse_go_duration(text)
            .map(Self)
            .ok_or_else(|| {
                let text = sluice_yaml::quoted(text);
                format!("{text} is no duration such as 30s, 1m30s, 100ms")
            })
    }
}

/// As `Duration.String` of Go: `1m30s`, `1h0m0s`, `1.5ms`, `0s`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{nanos}ns"),
            1_000..1_000_000 => return write!(f, "{}µs", decimal(nanos, 3)),
            1_000_000..1_000_000_000 => return write!(f, "{}ms", decimal(nanos, 6)),
            _ => {}
        }
        let (minutes, rest) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write!(f, "{}s", decimal(rest, 9))
    }
}

/// `value` with the point moved left by `places`, without zeros at the end.
fn decimal(value: u64, places: usize) -> String {
    let digits = format!("{value:0>width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    let text = format!("{whole}.{part}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// `logging.flushFrequency`: a text as above, or a number of nanoseconds.
pub(crate) fn text_or_nanos<'de, D: Deserializer<'de>>(from: D) -> Result<GoDuration, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a duration such as 5s, or a number of nanoseconds"
    )]
    enum TextOrNanos {
        Text(String),
        Nanos(i64),
    }
    match TextOrNanos::deserialize(from)? {
        TextOrNanos::Text(text) => text.parse().map_err(de::Error::custom),
        TextOrNanos::Nanos(nanos) => Ok(GoDuration(nanos)),
    }
}

/// A time as Go writes it, at most an hour.
///
/// # Errors
///
/// What is wrong with the text.
pub fn time(text: &str) -> Result<Duration, String> {
    time_from(text, "0s")
}

/// A time as Go writes it, between a tenth of a second and an hour.
///
/// # Errors
///
/// What is wrong with the text.
pub fn interval(text: &str) -> Result<Duration, String> {
    time_from(text, "100ms")
}

fn time_from(text: &str, least: &str) -> Result<Duration, String> {
    let from = least.parse::<GoDuration>()?.to_std();
    let time = text.parse::<GoDuration>()?.to_std();
    let time = time.filter(|it| Some(*it) >= from && *it <= Duration::from_secs(3600));
    time.ok_or_else(|| format!("not between {least} and 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, nanos: Option<i64>) {
        assert_eq!(text.parse().ok(), nanos.map(GoDuration), "{text:?}");
    }

    #[test]
    fn as_in_go() {
        const SECOND: i64 = 1_000_000_000;
        check("0", Some(0));
        check("-0", Some(0));
        check("0s", Some(0));
        check("30s", Some(30 * SECOND));
        check("1m30s", Some(90 * SECOND));
        check("-1m30s", Some(-90 * SECOND));
        check("+5s", Some(5 * SECOND));
        check("100ms", Some(SECOND / 10));
        check("1.5h", Some(5400 * SECOND));
        check(".5s", Some(SECOND / 2));
        check("5.s", Some(5 * SECOND));
        check("7us", Some(7_000));
        check("7µs", Some(7_000));
        check("0.1ns", Some(0));
        check("1h2m3s4ms", Some(3_723_004_000_000));
        check("2562047h47m16.854775807s", Some(i64::MAX));
    }

    #[test]
    fn what_go_refuses() {
        for text in [
            "",
            "-",
            "+",
            "30",
            "s",
            ".s",
            "1d",
            "1m30",
            "1 s",
            "1..5s",
            "999999999h",
            "1ss",
            "--1s",
            "1s ",
            "é",
            "99999999999999999999999s",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn written_as_in_go() {
        for text in [
            "0s", "1ns", "1.5µs", "2ms", "1s", "1.5s", "30s", "1m0s", "1m30s", "15m0s", "1h0m0s",
            "24h0m0s", "1h0m0.5s", "-30s",
        ] {
            let duration: GoDuration = text.parse().expect("a duration");
            assert_eq!(duration.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(nanos in any::<i64>()) {
            prop_assume!(nanos != i64::MIN);
            let text = GoDuration(nanos).to_string();
            prop_assert_eq!(text.parse(), Ok(GoDuration(nanos)), "{}", text);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
