//! `logging`: `LoggingConfiguration` of `k8s.io/component-base/logs/api/v1`.

use serde::{Deserialize, Deserializer, Serialize};

use crate::duration::{self, GoDuration};

/// Format and verbosity of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    /// `text` or `json`.
    pub format: String,
    /// Interval between flushes of the buffer. Sluice has no buffer.
    #[serde(deserialize_with = "duration::text_or_nanos")]
    pub flush_frequency: GoDuration,
    /// Verbosity, from 0.
    pub verbosity: u32,
    /// Another verbosity for some source files of kube-proxy.
    pub vmodule: Vec<VmoduleItem>,
    /// Options of each format.
    pub options: LoggingOptions,
}

/// Another verbosity for some source files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmoduleItem {
    /// File name without `.go`, or a pattern.
    pub file_pattern: String,
    pub verbosity: u32,
}

/// Options of each format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoggingOptions {
    pub text: FormatOptions,
    pub json: FormatOptions,
}

/// Options of a format. Sluice writes each line at once, to stderr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormatOptions {
    /// Writes errors to stderr and the rest to stdout.
    pub split_stream: bool,
    /// Size of the buffer in bytes, as a quantity such as `64Ki`.
    #[serde(deserialize_with = "quantity")]
    pub info_buffer_size: String,
}

/// A quantity written as text or as number.
fn quantity<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a quantity such as 64Ki")]
    enum Quantity {
        Text(String),
        Whole(i64),
        Fraction(f64),
    }
    Ok(match Quantity::deserialize(from)? {
        Quantity::Text(text) => text,
        Quantity::Whole(number) => number.to_string(),
        Quantity::Fraction(number) => number.to_string(),
    })
}
