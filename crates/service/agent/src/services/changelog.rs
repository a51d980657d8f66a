//! Logs the changes of a sync, by name: `default/web:http endpoints 3 -> 0`.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_model::NamespacedName;
use sluice_plan::{Frontend, Plan, PortKey, PortPlan};
use sluice_plane::Superseded;
use tracing::info;

use super::allowance::Allowance;

/// Most lines in a [`WINDOW`]: many changes cost no more, and the log stays readable.
const LINES: usize = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// Most lines about one Service, and about syncs, in a [`PERIOD`].
const OF_ONE: usize = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// Most lines about all Services in a [`PERIOD`]: Services may come and go under new names without end.
const OF_ALL: usize = 200;

/// The lines that were logged in the present window.
#[derive(Debug, Default)]
pub(super) struct Changelog {
    /// When the window ends; `None` while nothing was logged.
    end: Option<Instant>,
    shown: usize,
    /// Service ports that changed and were not logged.
    more: usize,
    /// The Services that lines were about, until their period has ended.
    services: HashMap<NamespacedName, Allowance>,
    /// The lines about any Service.
    all: Option<Allowance>,
    syncs: Option<Allowance>,
}

fn of_one(now: Instant) -> Allowance {
    Allowance::new(OF_ONE, now + PERIOD)
}

/// A service port whose rules were replaced.
struct Written<'a> {
    key: &'a PortKey,
    old: Option<&'a PortPlan>,
    new: Option<&'a PortPlan>,
}

impl Changelog {
    /// Logs the service ports that were written, those that lost their last endpoint first.
    pub(super) fn written(&mut self, superseded: &Superseded, plan: &Plan, now: Instant) {
        self.end_window(now);
        let written = superseded.iter().map(|(key, old)| Written {
            key,
            old: old.as_deref(),
            new: plan.ports.get(key).map(AsRef::as_ref),
        });
        let (lost, others): (Vec<_>, Vec<_>) = written.partition(Written::lost_all);
        for (index, it) in lost.iter().chain(&others).enumerate() {
            if self.shown == LINES {
                self.more += superseded.len() - index;
                break;
            }
            if let Some(what) = it.describe() {
                let service = it.key.name.service.clone();
                let of_all = || Allowance::new(OF_ALL, now + PERIOD);
                let lines = self.services.entry(service);
                if lines.or_insert_with(|| of_one(now)).admits()
                    && self.all.get_or_insert_with(of_all).admits()
                {
                    info!(family = %it.key.family, "{} {what}", it.key.name);
                    self.shown += 1;
                }
            }
        }
        if self.shown > 0 {
            self.end.get_or_insert(now + WINDOW);
        }
    }

    /// Whether there may be a line about one more sync.
    pub(super) fn tells_sync(&mut self, now: Instant) -> bool {
        self.end_window(now);
        self.syncs.get_or_insert_with(|| of_one(now)).admits()
    }

    /// When [`end_window`](Self::end_window) has something to log.
    pub(super) fn due(&self) -> Option<Instant> {
        let window = self.end.filter(|_| self.more > 0);
        let periods = self.services.values().chain(&self.syncs).chain(&self.all);
        let periods = periods.filter(|it| it.more > 0).map(|it| it.end);
        periods.chain(window).min()
    }

    /// Logs how much was left out, once the window or a period has ended.
    pub(super) fn end_window(&mut self, now: Instant) {
        if self.end.is_some_and(|it| it <= now) {
            if self.more > 0 {
                info!("and {} more service ports changed", self.more);
            }
            (self.end, self.shown, self.more) = (None, 0, 0);
        }
        if let Some(it) = self.all.take_if(|it| it.end <= now)
            && it.more > 0
        {
            info!("and {} more changes of Services", it.more);
        }
        let ended = self.services.extract_if(|_, it| it.end <= now);
        for (service, it) in ended.filter(|(_, it)| it.more > 0) {
            info!("{service} and {} more changes", it.more);
        }
        if let Some(it) = self.syncs.take_if(|it| it.end <= now)
            && it.more > 0
        {
            info!("and {} more syncs", it.more);
        }
    }
}

impl Written<'_> {
    fn lost_all(&self) -> bool {
        let has_any = |it: &PortPlan| it.cluster.is_some() || it.local.is_some();
        self.old.is_some_and(has_any) && !self.new.is_some_and(has_any)
    }

    /// The difference, as part of a line; `None` when there is none.
    fn describe(&self) -> Option<String> {
        match (self.old, self.new) {
            (None, None) => None,
            (None, Some(new)) => {
                let (frontends, endpoints) = (new.frontends.len(), new.reachable().len());
                Some(format!(
                    "added: frontends {frontends}, endpoints {endpoints}"
                ))
            }
            (Some(_), None) => Some("removed".to_owned()),
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => {
                let parts = [
                    difference("endpoints", &endpoints(old), &endpoints(new)),
                    difference("frontends", &frontends(old), &frontends(new)),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                Some(if parts.is_empty() {
                    "settings changed".to_owned()
                } else {
                    parts.join(", ")
                })
            }
        }
    }
}

fn endpoints(port: &PortPlan) -> BTreeSet<SocketAddr> {
    let all = port.reachable().into_iter();
    all.map(|it| it.addr).collect()
}

fn frontends(port: &PortPlan) -> BTreeSet<Frontend> {
    port.frontends.iter().map(|it| it.frontend).collect()
}

/// `endpoints 3 -> 0`, or `endpoints 3, 1 replaced`; `None` when the sets are equal.
fn difference<T: Ord>(what: &str, old: &BTreeSet<T>, new: &BTreeSet<T>) -> Option<String> {
    let (before, after) = (old.len(), new.len());
    match new.difference(old).count() {
        _ if before != after => Some(format!("{what} {before} -> {after}")),
        0 => None,
        replaced => Some(format!("{what} {after}, {replaced} replaced")),
    }
}

#[cfg(test)]
mod tests;
