//! Checks of values. After a problem a check goes on with a value that nobody uses.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use sluice_model::is_subdomain;
use sluice_yaml::quoted;

use super::{ApiClient, ConntrackLimits, IpvsSettings, LogFormat, Mode, Periods, node_name};
use crate::duration::GoDuration;
use crate::problem::Problem;
use crate::types::{ClientConnection, Conntrack, Ipvs, Logging};

/// The minor version of Kubernetes whose hidden metrics may be shown.
const PREVIOUS_MINOR: &str = "1.35";

/// The problems that were found.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    /// Adds a problem. A `value` that is a text must be [`quoted`].
    pub(super) fn push(&mut self, field: &str, value: impl Display, must: impl Display) {
        self.0.push(Problem::new(field, format!("{value}: {must}")));
    }

    /// As [`push`](Self::push); returns a value with which the check can go on.
    pub(super) fn refuse<T: Default>(&mut self, field: &str, value: impl Display, must: &str) -> T {
        self.push(field, value, must);
        T::default()
    }

    pub(super) fn mode(&mut self, text: &str) -> Option<Mode> {
        if text.is_empty() {
            return None;
        }
        let mode = Mode::ALL.into_iter().find(|it| it.name() == text);
        if mode.is_none() {
            let names = Mode::ALL.map(Mode::name).join(", ");
            let must = format!("must be empty or one of {names}");
            self.push("mode", quoted(text), must);
        }
        mode
    }

    /// The mark with this bit.
    pub(super) fn bit(&mut self, field: &str, bit: Option<i32>) -> u32 {
        let bit = bit.unwrap_or(14);
        let mark = u32::try_from(bit).ok().and_then(|it| 1_u32.checked_shl(it));
        mark.unwrap_or_else(|| self.refuse(field, bit, "must be within 0 to 31"))
    }

    pub(super) fn count(&mut self, field: &str, value: i32) -> u32 {
        let count = u32::try_from(value);
        count.unwrap_or_else(|_| self.refuse(field, value, "must not be negative"))
    }

    pub(super) fn duration(&mut self, field: &str, value: GoDuration) -> Duration {
        let duration = value.to_std();
        duration.unwrap_or_else(|| self.refuse(field, value, "must not be negative"))
    }

    pub(super) fn positive(&mut self, field: &str, value: GoDuration) -> Duration {
        let duration = value.to_std().filter(|it| !it.is_zero());
        duration.unwrap_or_else(|| self.refuse(field, value, "must be longer than 0"))
    }

    pub(super) fn oom_score_adj(&mut self, value: Option<i32>) -> i32 {
        let value = value.unwrap_or(-999);
        if !(-1000..=1000).contains(&value) {
            self.push("oomScoreAdj", value, "must be within -1000 to 1000");
        }
        value
    }

    /// `None` for an empty text: no server.
    pub(super) fn server(&mut self, field: &str, text: &str) -> Option<SocketAddr> {
        if text.is_empty() {
            return None;
        }
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        // A colon outside brackets is part of an address, as in Go.
        let host = bare.or(Some(host).filter(|it| !it.contains(':')));
        let ip = host.and_then(|it| it.parse::<IpAddr>().ok());
        let must = match (ip, port.parse::<u16>()) {
            (Some(ip), Ok(port @ 1..)) => return Some(SocketAddr::new(ip, port)),
            (Some(_), _) => "the port must be within 1 to 65535",
            (None, _) => "must be an address and a port such as 0.0.0.0:10256",
        };
        self.refuse(field, quoted(text), must)
    }

    /// The prefixes of a list. `must` says how a wrong text should be.
    pub(super) fn prefixes(
        &mut self,
        field: &str,
        list: &[String],
        must: fn(&str) -> &'static str,
    ) -> Vec<IpNet> {
        let mut nets = Vec::new();
        for (i, text) in list.iter().enumerate() {
            match text.parse() {
                Ok(net) => nets.push(net),
                Err(_) => self.push(&format!("{field}[{i}]"), quoted(text), must(text)),
            }
        }
        nets
    }

    /// `None` where the configuration names no node.
    pub(super) fn hostname(&mut self, text: &str) -> Option<String> {
        let name = node_name(text);
        if !text.is_empty() && !is_subdomain(&name) {
            let must = "must be a node's name such as node-1.example: at most 253 of a-z, 0-9, '-' \
                        and '.', with a letter or digit at both ends and beside each '.'";
            self.push("hostnameOverride", quoted(text), must);
        }
        (!text.is_empty()).then_some(name)
    }

    pub(super) fn periods(
        &mut self,
        section: &str,
        sync: GoDuration,
        min_sync: GoDuration,
    ) -> Periods {
        let sync_field = format!("{section}.syncPeriod");
        let min_field = format!("{section}.minSyncPeriod");
        if min_sync > sync {
            let limit = format!("must not be longer than {sync_field}, {sync}");
            self.push(&min_field, min_sync, limit);
        }
        Periods {
            sync: self.positive(&sync_field, sync),
            min_sync: self.duration(&min_field, min_sync),
        }
    }

    pub(super) fn conntrack(&mut self, it: &Conntrack) -> ConntrackLimits {
        let established = it.tcp_established_timeout.unwrap_or_default();
        let close_wait = it.tcp_close_wait_timeout.unwrap_or_default();
        ConntrackLimits {
            tcp_established: self.duration("conntrack.tcpEstablishedTimeout", established),
            tcp_close_wait: self.duration("conntrack.tcpCloseWaitTimeout", close_wait),
            udp: self.duration("conntrack.udpTimeout", it.udp_timeout),
            udp_stream: self.duration("conntrack.udpStreamTimeout", it.udp_stream_timeout),
            max_per_core: self.count("conntrack.maxPerCore", it.max_per_core.unwrap_or_default()),
            min: self.count("conntrack.min", it.min.unwrap_or_default()),
            tcp_be_liberal: it.tcp_be_liberal,
        }
    }

    pub(super) fn client(&mut self, it: &ClientConnection) -> ApiClient {
        ApiClient {
            kubeconfig: (!it.kubeconfig.is_empty()).then(|| (&it.kubeconfig).into()),
            qps: it.qps,
            burst: self.count("clientConnection.burst", it.burst),
        }
    }

    pub(super) fn ipvs(&mut self, it: &Ipvs) -> IpvsSettings {
        let exclude_cidrs = it.exclude_cidrs.as_deref().unwrap_or_default();
        let must = |_: &str| "must be a prefix such as 10.0.0.0/8";
        IpvsSettings {
            scheduler: it.scheduler.clone(),
            exclude_cidrs: self.prefixes("ipvs.excludeCIDRs", exclude_cidrs, must),
            strict_arp: it.strict_arp,
            tcp_timeout: self.duration("ipvs.tcpTimeout", it.tcp_timeout),
            tcp_fin_timeout: self.duration("ipvs.tcpFinTimeout", it.tcp_fin_timeout),
            udp_timeout: self.duration("ipvs.udpTimeout", it.udp_timeout),
        }
    }

    pub(super) fn metrics_version(&mut self, text: &str) {
        if !text.is_empty() && text != PREVIOUS_MINOR {
            let must = format!("must be empty or the previous minor version, {PREVIOUS_MINOR}");
            self.push("showHiddenMetricsForVersion", quoted(text), must);
        }
    }

    pub(super) fn logging(&mut self, logging: &Logging) -> LogFormat {
        if i32::try_from(logging.verbosity).is_err() {
            let must = format!("must not be larger than {}", i32::MAX);
            self.push("logging.verbosity", logging.verbosity, must);
        }
        for (i, item) in logging.vmodule.iter().enumerate() {
            let pattern = &item.file_pattern;
            if pattern.is_empty() || pattern.contains(['=', ',']) {
                let field = format!("logging.vmodule[{i}].filePattern");
                let must = "must be a name without `=` and `,`";
                self.push(&field, quoted(pattern), must);
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
        match &*logging.format {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => self.refuse("logging.format", quoted(other), "must be text or json"),
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
