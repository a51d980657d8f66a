//! How many rules of iptables there are.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_plane::RuleCount;
use sluice_reconcile::Delta;
use sluice_xtables::rule::Table;

use crate::object::{Key, Object};

/// Rules by the object that they make up, and what was written last.
#[derive(Debug, Default)]
pub(crate) struct RuleCounts {
    held: BTreeMap<Key, usize>,
    written: BTreeMap<(IpFamily, Table), usize>,
}

impl RuleCounts {
    /// The kernel holds this.
    pub(crate) fn observed(&mut self, objects: &BTreeMap<Key, Object>) {
        let rules = objects.iter().filter_map(rules);
        self.held = rules.map(|(key, count)| (key.clone(), count)).collect();
    }

    /// The kernel was told this.
    pub(crate) fn applied(&mut self, delta: &Delta<Key, Object>) {
        self.written.clear();
        let pairs = delta.add.iter().chain(&delta.replace);
        for (key, count) in pairs.filter_map(|(key, object)| rules((key, object))) {
            self.held.insert(key.clone(), count);
            if let Some(place) = place(key) {
                *self.written.entry(place).or_default() += count;
            }
        }
        delta.delete.iter().for_each(|key| {
            self.held.remove(key);
        });
    }

    /// A number for each table that has rules.
    pub(crate) fn counts(&self) -> Vec<RuleCount> {
        let mut totals: BTreeMap<(IpFamily, Table), usize> = BTreeMap::new();
        for (key, count) in &self.held {
            if let Some(place) = place(key) {
                *totals.entry(place).or_default() += count;
            }
        }
        let counts = totals.into_iter().map(|(place, total)| RuleCount {
            family: place.0,
            table: place.1.as_str(),
            total,
            last: self.written.get(&place).copied().unwrap_or_default(),
        });
        counts.collect()
    }
}

/// `None` for what is no rule.
fn rules<'a>((key, object): (&'a Key, &Object)) -> Option<(&'a Key, usize)> {
    match object {
        Object::Chain(rules) => Some((key, rules.len())),
        Object::Jump(_) => Some((key, 1)),
        _ => None,
    }
}

fn place(key: &Key) -> Option<(IpFamily, Table)> {
    match key {
        Key::Chain(family, table, _) | Key::Jump(family, table, ..) => Some((*family, *table)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sluice_plan::NodePlan;
    use sluice_plan::settings::Settings;
    use sluice_plan::state::ClusterState;

    use super::*;
    use crate::chain;

    fn shown(counts: &RuleCounts) -> Vec<String> {
        let counts = counts.counts().into_iter();
        let shown = counts.map(|it| format!("{} {} {} {}", it.family, it.table, it.total, it.last));
        shown.collect()
    }

    #[test]
    fn rules_are_counted_by_family_and_table() {
        let node = NodePlan::new(&Settings::for_node("node-a"), &ClusterState::default());
        let objects = chain::objects(&node, IpFamily::V4);
        let total = objects.iter().filter_map(|(key, it)| rules((key, it)));
        let total: usize = total.map(|(_, count)| count).sum();
        let mut counts = RuleCounts::default();
        assert_eq!(shown(&counts), [""; 0]);
        counts.applied(&Delta::between(&BTreeMap::new(), objects.clone()));
        let all = counts.counts();
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all.iter().all(|it| it.last == it.total && it.total > 0));
        assert_eq!(all.iter().map(|it| it.total).sum::<usize>(), total);

        counts.observed(&objects.into_iter().collect());
        counts.applied(&Delta::default());
        let before = counts.counts();
        assert!(before.iter().all(|it| it.last == 0), "{before:?}");
        let flushed = chain::objects(&node, IpFamily::V4);
        let flushed = flushed
            .into_iter()
            .filter(|(key, _)| place(key).map(|it| it.1) == Some(Table::Nat));
        counts.applied(&Delta {
            delete: flushed.map(|(key, _)| key).collect(),
            ..Delta::default()
        });
        assert_eq!(counts.counts().len(), 2, "{counts:?}");
    }
}
