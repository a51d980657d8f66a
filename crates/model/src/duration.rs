//! Go's grammar of durations, for configurations and Corefiles.

/// Units of `time.ParseDuration` in nanoseconds.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads what `time.ParseDuration` of Go reads, as nanoseconds: `1h`, `-1m30s`, `1.5s`, `0`. `None`: it is no
/// duration, or has more than 63 bits of nanoseconds.
#[must_use]
pub fn parse_go_duration(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Some(0);
    }
    if unsigned.is_empty() {
        return None;
    }
    let is_digit = |it: char| it.is_ascii_digit() || it == '.';
    let (mut rest, mut nanos) = (unsigned, 0_i128);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|it| !is_digit(it))?);
        let (unit, after) = after.split_at(after.find(is_digit).unwrap_or(after.len()));
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanos += scaled(number, *scale)?;
        rest = after;
    }
    let is_negative = text.starts_with('-');
    i64::try_from(if is_negative { -nanos } else { nanos }).ok()
}

/// `number` such as `1.5`, in units of `scale` nanoseconds; fractions of a nanosecond are cut.
fn scaled(number: &str, scale: i128) -> Option<i128> {
    /// Digits after the point that are read: the largest unit, 1 h, has 13 digits of nanoseconds.
    const PRECISION: usize = 18;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + part.len() == 0 || part.contains('.') || whole.len() > 20 {
        return None;
    }
    let part = &part[..part.len().min(PRECISION)];
    let whole: i128 = format!("0{whole}").parse().ok()?;
    let tenths: i128 = format!("0{part}").parse().ok()?;
    Some(whole * scale + tenths * scale / 10_i128.pow(part.len() as u32))
}
