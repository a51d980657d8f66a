//! The service ports without endpoints, for metrics.

use std::collections::BTreeSet;

use sluice_plan::{Changes, PortKey};

use crate::metrics::Ours;

/// Most service ports that have a series of their own: users who may write Services choose the names, and every node
/// has the series.
const NAMED: usize = 20;

/// Service ports without endpoints. A named port stays named until it has an endpoint, so that an alert about it does
/// not begin anew.
#[derive(Debug, Default)]
pub(super) struct WithoutEndpoints {
    all: BTreeSet<PortKey>,
    named: BTreeSet<PortKey>,
}

impl WithoutEndpoints {
    /// Takes in the changes of a plan, at a cost proportional to them.
    pub(super) fn update(&mut self, changes: &Changes, metrics: &Ours) {
        for (key, change) in &changes.ports {
            match &change.new {
                Some(port) if port.is_without_endpoints() => {
                    self.all.insert(key.clone());
                }
                _ => {
                    self.all.remove(key);
                }
            }
        }
        for key in self.named.extract_if(.., |it| !self.all.contains(it)) {
            metrics.forget_without_endpoints(&key);
        }
        let places = NAMED - self.named.len();
        let new: Vec<PortKey> = self
            .all
            .difference(&self.named)
            .take(places)
            .cloned()
            .collect();
        for key in new {
            metrics.name_without_endpoints(&key);
            self.named.insert(key);
        }
    }
}
