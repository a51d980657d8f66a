//! `errors`: one line for each failed query, or one for many alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hickory_proto::op::Query;
use hickory_proto::op::ResponseCode;
use sluice_corefile::{Consolidate, Errors as Config, LogLevel};
use tokio::runtime::Handle;

/// One `errors` of a server block.
#[derive(Debug)]
pub(crate) struct Errors {
    rules: Vec<Arc<Rule>>,
    runtime: Handle,
}

#[derive(Debug)]
struct Rule {
    config: Consolidate,
    /// Errors of the present period.
    count: AtomicU64,
}

impl Errors {
    /// Periods end on `runtime`.
    pub(crate) fn new(config: &Config, runtime: Handle) -> Self {
        let rule = |config: &Consolidate| {
            Arc::new(Rule {
                config: config.clone(),
                count: AtomicU64::new(0),
            })
        };
        Self {
            rules: config.consolidate.iter().map(rule).collect(),
            runtime,
        }
    }

    /// Logs an error, now or together with others at the end of the period.
    pub(crate) fn log(&self, query: &Query, code: ResponseCode, error: &str) {
        let matches = |it: &&Arc<Rule>| it.config.pattern.is_match(error);
        let line = || {
            let Query {
                name, query_type, ..
            } = query;
            format!(
                "plugin/errors: {} {name} {query_type}: {error}",
                u16::from(code)
            )
        };
        let Some(rule) = self.rules.iter().find(matches) else {
            tracing::error!("{}", line());
            return;
        };
        if rule.count.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        if rule.config.show_first {
            write(rule.config.level, &line());
        }
        let rule = rule.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(rule.config.period).await;
            rule.end_period();
        });
    }
}

impl Rule {
    fn end_period(&self) {
        let count = self.count.swap(0, Ordering::Relaxed);
        let Consolidate {
            period,
            pattern,
            level,
            ..
        } = &self.config;
        let pattern = pattern.as_str();
        let line =
            format!("plugin/errors: {count} errors like '{pattern}' occurred in last {period:?}");
        write(*level, &line);
    }
}

fn write(level: LogLevel, line: &str) {
    match level {
        LogLevel::Debug => tracing::debug!("{line}"),
        LogLevel::Info => tracing::info!("{line}"),
        LogLevel::Warning => tracing::warn!("{line}"),
        LogLevel::Error => tracing::error!("{line}"),
    }
}
