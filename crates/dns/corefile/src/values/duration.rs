//! Durations as Go writes them.

use std::time::Duration;

use sluice_model::parse_go_duration;

use super::quoted;

/// A duration that is not negative: `1m30s`, `1.5s`, `0`.
pub(crate) fn duration(word: &str) -> Result<Duration, String> {
    if word.starts_with('-') {
        return Err(format!("{} is negative", quoted(word)));
    }
    let nanos = parse_go_duration(word).and_then(|it| u64::try_from(it).ok());
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
