//! Durations as Go writes them.

use std::time::Duration;

use super::quoted;

/// Units of `time.ParseDuration` in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration that is not negative: `1m30s`, `1.5s`, `0`.
pub(crate) fn duration(word: &str) -> Result<Duration, String> {
    let unsigned = word.strip_prefix('+').unwrap_or(word);
    if word.starts_with('-') {
        return Err(format!("{} is negative", quoted(word)));
    }
    let nanos = if unsigned == "0" {
        Some(0)
    } else {
        nanos(unsigned)
    };
    // Go keeps durations as signed 64 bits of nanoseconds.
    let nanos = nanos
        .and_then(|it| i64::try_from(it).ok())
        .and_then(|it| u64::try_from(it).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| {
        let unit = match word.parse::<u64>() {
            Ok(_) => ": the unit is missing",
            Err(_) => "",
        };
        format!(
            "{} is no duration such as 30s, 1m30s, 100ms{unit}",
            quoted(word)
        )
    })
}

fn nanos(mut rest: &str) -> Option<u128> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut sum = 0_u128;
    while {
        let (number, after) = rest.split_at(rest.find(|c| !is_digit(c))?);
        let (unit, after) = after.split_at(after.find(is_digit).unwrap_or(after.len()));
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(scaled(number, *scale)?)?;
        rest = after;
        !rest.is_empty()
    } {}
    Some(sum)
}

/// A decimal number times `scale`; what is below 1 is cut.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut sum = match whole {
        "" => 0,
        _ => whole.parse::<u64>().ok().map(u128::from)? * scale,
    };
    let mut place = scale;
    for digit in part.chars() {
        place /= 10;
        sum += u128::from(digit.to_digit(10)?) * place;
    }
    Some(sum)
}
