//! Checks of single values. Each goes on after a problem, with a value that will not be used.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use sluice_yaml::quoted;

use super::{LogFormat, Mode};
use crate::duration::GoDuration;
use crate::problem::Problem;
use crate::types::Logging;

/// The minor version of Kubernetes whose hidden metrics may be shown.
const PREVIOUS_MINOR: &str = "1.35";

/// Everything that is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    /// `value` is shown as it is: a text must be quoted.
    pub(super) fn push(&mut self, field: &str, value: impl fmt::Display, must: impl fmt::Display) {
        self.0.push(Problem::new(field, format!("{value}: {must}")));
    }

    pub(super) fn mode(&mut self, text: &str) -> Option<Mode> {
        if text.is_empty() {
            return None;
        }
        let mode = Mode::ALL.into_iter().find(|it| it.name() == text);
        if mode.is_none() {
            let names = Mode::ALL.map(Mode::name).join(", ");
            self.push(
                "mode",
                quoted(text),
                format!("must be empty or one of {names}"),
            );
        }
        mode
    }

    /// The mark with this bit.
    pub(super) fn bit(&mut self, field: &str, bit: Option<i32>) -> u32 {
        let bit = bit.unwrap_or(14);
        match u32::try_from(bit).ok().and_then(|it| 1_u32.checked_shl(it)) {
            Some(mark) => mark,
            None => {
                self.push(field, bit, "must be within 0 to 31");
                0
            }
        }
    }

    pub(super) fn not_negative(&mut self, field: &str, value: i32) -> u32 {
        u32::try_from(value).unwrap_or_else(|_| {
            self.push(field, value, "must not be negative");
            0
        })
    }

    pub(super) fn not_before_zero(&mut self, field: &str, value: GoDuration) -> Duration {
        value.to_std().unwrap_or_else(|| {
            self.push(field, value, "must not be negative");
            Duration::ZERO
        })
    }

    pub(super) fn positive(&mut self, field: &str, value: GoDuration) -> Duration {
        match value.to_std().filter(|it| !it.is_zero()) {
            Some(duration) => duration,
            None => {
                self.push(field, value, "must be longer than 0");
                Duration::ZERO
            }
        }
    }

    pub(super) fn oom_score_adj(&mut self, value: Option<i32>) -> i32 {
        let value = value.unwrap_or(-999);
        if !(-1000..=1000).contains(&value) {
            self.push("oomScoreAdj", value, "must be within -1000 to 1000");
        }
        value
    }

    /// `None` for no server.
    pub(super) fn server(&mut self, field: &str, text: &str) -> Option<SocketAddr> {
        if text.is_empty() {
            return None;
        }
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        // A colon outside brackets is part of an address, as in Go.
        let host = bare.or(Some(host).filter(|it| !it.contains(':')));
        let ip = host.and_then(|it| it.parse::<IpAddr>().ok());
        match (ip, port.parse::<u16>()) {
            (Some(ip), Ok(port @ 1..)) => return Some(SocketAddr::new(ip, port)),
            (Some(_), _) => self.push(field, quoted(text), "the port must be within 1 to 65535"),
            (None, _) => {
                let must = "must be an address and a port such as 0.0.0.0:10256";
                self.push(field, quoted(text), must);
            }
        }
        None
    }

    pub(super) fn exclude_cidrs(&mut self, list: &[String]) -> Vec<IpNet> {
        let mut nets = Vec::new();
        for (i, text) in list.iter().enumerate() {
            match text.parse() {
                Ok(net) => nets.push(net),
                Err(_) => {
                    let field = format!("ipvs.excludeCIDRs[{i}]");
                    self.push(&field, quoted(text), "must be a prefix such as 10.0.0.0/8");
                }
            }
        }
        nets
    }

    pub(super) fn metrics_version(&mut self, text: &str) {
        if !text.is_empty() && text != PREVIOUS_MINOR {
            let must = format!("must be empty or the previous minor version, {PREVIOUS_MINOR}");
            self.push("showHiddenMetricsForVersion", quoted(text), must);
        }
    }

    pub(super) fn log_format(&mut self, text: &str) -> LogFormat {
        match text {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => {
                self.push("logging.format", quoted(other), "must be text or json");
                LogFormat::Text
            }
        }
    }

    pub(super) fn logging(&mut self, logging: &Logging) {
        if i32::try_from(logging.verbosity).is_err() {
            let must = format!("must not be larger than {}", i32::MAX);
            self.push("logging.verbosity", logging.verbosity, must);
        }
        for (i, item) in logging.vmodule.iter().enumerate() {
            let pattern = &item.file_pattern;
            if pattern.is_empty() || pattern.contains(['=', ',']) {
                let field = format!("logging.vmodule[{i}].filePattern");
                self.push(
                    &field,
                    quoted(pattern),
                    "must be a name without `=` and `,`",
                );
            }
        }
        if !logging.vmodule.is_empty() && logging.format == "json" {
            let many = format!("{} patterns", logging.vmodule.len());
            self.push("logging.vmodule", many, "only for the text format");
        }
        let options = &logging.options;
        for (name, options) in [("json", &options.json), ("text", &options.text)] {
            if !is_quantity(&options.info_buffer_size) {
                let field = format!("logging.options.{name}.infoBufferSize");
                let value = quoted(&options.info_buffer_size);
                self.push(&field, value, "must be a quantity such as 64Ki");
            }
        }
    }
}

/// `resource.ParseQuantity`: a decimal number with an exponent or a suffix.
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 16] = [
        "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|it: char| !it.is_ascii_digit() && it != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let is_number = number.matches('.').count() <= 1 && number.contains(|it| it != '.');
    let exponent = suffix.strip_prefix(['e', 'E']);
    let is_exponent = exponent.is_some_and(|it| it.parse::<i32>().is_ok());
    is_number && (is_exponent || SUFFIXES.contains(&suffix))
}
