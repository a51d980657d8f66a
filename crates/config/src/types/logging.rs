//! `logging`: `LoggingConfiguration` of `k8s.io/component-base/logs/api/v1`.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::duration::{self, GoDuration};

/// What to log, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    /// `text` or `json`.
    pub format: String,
    /// How often buffers are flushed. Sluice has none.
    #[serde(deserialize_with = "duration::text_or_nanos")]
    pub flush_frequency: GoDuration,
    /// How much to log, from 0.
    pub verbosity: u32,
    /// Another verbosity for some source files of kube-proxy.
    pub vmodule: Vec<VmoduleItem>,
    /// Details of each format.
    pub options: LoggingOptions,
}

/// Another verbosity for some source files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmoduleItem {
    /// File name without `.go`, or a pattern.
    pub file_pattern: String,
    /// Its verbosity.
    pub verbosity: u32,
}

/// Details of each format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoggingOptions {
    /// Of `text`.
    pub text: FormatOptions,
    /// Of `json`.
    pub json: FormatOptions,
}

/// Details of a format. Sluice writes each line at once, to stderr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormatOptions {
    /// Errors to stderr, the rest to stdout.
    pub split_stream: bool,
    /// Bytes of a buffer, as a quantity such as `64Ki`.
    #[serde(deserialize_with = "quantity")]
    pub info_buffer_size: String,
}

/// A quantity may be written as text or as number.
fn quantity<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    struct Either;
    impl Visitor<'_> for Either {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a quantity such as 64Ki")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }
    from.deserialize_any(Either)
}
