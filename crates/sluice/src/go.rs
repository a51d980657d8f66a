//! Values as Go programs write them, because kube-proxy's flags do.

use std::time::Duration;

/// Units of `time.ParseDuration` in nanoseconds, longer names first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads `1h`, `1m30s`, `100ms`, `1.5s`, `0`. A sign is refused: no flag of ours can be negative.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration such as 30s, 1m30s, 100ms");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.');
        let (number, after) = rest.split_at(digits.ok_or_else(wrong)?);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = UNITS.iter().find(|(name, _)| {
            let next = after.strip_prefix(name).map(|it| it.chars().next());
            next.is_some_and(|it| it.is_none_or(|it| it.is_ascii_digit() || it == '.'))
        });
        let (name, scale) = unit.ok_or_else(wrong)?;
        nanos += number * scale;
        rest = &after[name.len()..];
    }
    // The largest duration that Go can hold: 2^63 - 1 ns, some 292 years.
    if text.is_empty() || nanos >= i64::MAX as f64 {
        return Err(wrong());
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads what `strconv.ParseBool` reads.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is not true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Duration>) {
        assert_eq!(parse_duration(text).ok(), expected, "{text:?}");
    }

    #[test]
    fn durations_as_in_go() {
        check("0", Some(Duration::ZERO));
        check("0s", Some(Duration::ZERO));
        check("30s", Some(Duration::from_secs(30)));
        check("1m30s", Some(Duration::from_secs(90)));
        check("100ms", Some(Duration::from_millis(100)));
        check("1.5h", Some(Duration::from_secs(5400)));
        check(".5s", Some(Duration::from_millis(500)));
        check("7us", Some(Duration::from_micros(7)));
        check("7µs", Some(Duration::from_micros(7)));
        check("1h2m3s4ms", Some(Duration::from_millis(3_723_004)));
    }

    #[test]
    fn what_go_refuses() {
        for text in [
            "",
            "30",
            "s",
            "1d",
            "1m30",
            "-1s",
            "1 s",
            "1..5s",
            "999999999h",
            "1ss",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn booleans_as_in_go() {
        assert_eq!(parse_bool("True"), Ok(true));
        assert_eq!(parse_bool("0"), Ok(false));
        assert!(parse_bool("yes").is_err());
    }
}
