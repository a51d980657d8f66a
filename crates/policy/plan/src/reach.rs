//! Which pods may connect to which.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use sluice_model::NamespacedName;

use crate::classes::{Class, Traffic, classes, push, starts, traffic};
use crate::lookup::lookup;
use crate::plan::Plan;
use crate::planner::Planner;

/// What some pods may send to others. It holds for each pair of them but a pod and itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach {
    /// The pods that connect.
    pub from: Vec<NamespacedName>,
    /// The pods that are connected to.
    pub to: Vec<NamespacedName>,
    /// What is allowed.
    pub allowed: Vec<Traffic>,
}

impl Reach {
    /// Whether all traffic is allowed.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.allowed.iter().copied().eq(everything())
    }
}

fn everything() -> impl Iterator<Item = Traffic> {
    traffic(&BTreeSet::from([0]))
        .collect::<Vec<_>>()
        .into_iter()
}

/// What all pods may send to each other. The planner is [of a cluster](Planner::of_cluster). Where the families differ, pods
/// are there twice.
#[must_use]
pub fn reach(planner: &Planner) -> Vec<Reach> {
    reach_within(planner, usize::MAX).unwrap_or_default()
}

/// The same; `None` if more than so many connections had to be looked up.
#[must_use]
pub fn reach_within(planner: &Planner, most: usize) -> Option<Vec<Reach>> {
    let plan = planner.plan();
    let starts = starts([plan; 2]);
    let classes = classes(planner, [plan; 2]);
    let pairs = classes.len().saturating_mul(classes.len());
    if pairs.saturating_mul(traffic(&starts).count()) > most {
        return None;
    }
    let mut all = BTreeSet::new();
    for from in &classes {
        for to in &classes {
            all.extend(allowed(plan, from, to, &starts).map(|allowed| Reach {
                from: from.names(),
                to: to.names(),
                allowed,
            }));
        }
    }
    Some(all.into_iter().collect())
}

/// What pairs of pods may, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    All,
    /// Nothing.
    None,
    /// Some pairs may, or at some ports.
    Some,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::None => "none",
            Self::Some => "some",
        })
    }
}

/// Namespaces to namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// Those that have pods, in their order.
    pub namespaces: BTreeSet<Arc<str>>,
    /// By who connects and who is connected to; no entry where there is no pair of pods.
    pub cells: BTreeMap<(Arc<str>, Arc<str>), Extent>,
}

impl Matrix {
    /// The matrix of all pods.
    #[must_use]
    pub fn of(all: &[Reach]) -> Self {
        let namespaces = |it: &[NamespacedName]| -> BTreeSet<Arc<str>> {
            it.iter().map(|it| it.namespace.clone()).collect()
        };
        let mut matrix = Self::default();
        for reach in all {
            let (from, to) = (namespaces(&reach.from), namespaces(&reach.to));
            matrix.namespaces.extend(from.iter().chain(&to).cloned());
            let new = match reach.allowed[..] {
                [] => Extent::None,
                _ if reach.is_everything() => Extent::All,
                _ => Extent::Some,
            };
            for from in &from {
                for to in &to {
                    let pair = (from.clone(), to.clone());
                    let cell = matrix.cells.entry(pair).or_insert(new);
                    if *cell != new {
                        *cell = Extent::Some;
                    }
                }
            }
        }
        matrix
    }

    /// The words of a row, `-` where there is no pair of pods.
    pub fn row(&self, from: &Arc<str>) -> impl Iterator<Item = String> {
        self.namespaces.iter().map(|to| {
            let cell = self.cells.get(&(from.clone(), to.clone()));
            cell.map_or_else(|| "-".to_owned(), ToString::to_string)
        })
    }
}

/// `None` where there is no pair.
fn allowed(plan: &Plan, from: &Class, to: &Class, starts: &BTreeSet<u16>) -> Option<Vec<Traffic>> {
    let (source, destination) = from.pair(to)?;
    if !from.rules.egress && !to.rules.ingress {
        return Some(everything().collect());
    }
    let mut allowed = Vec::new();
    for part in traffic(starts) {
        if lookup(plan, &part.packet(source, destination)).is_allowed() {
            push(&mut allowed, part);
        }
    }
    Some(allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{events, packets, parse, worlds};

    fn of(text: &str) -> Vec<String> {
        let mut planner = Planner::of_cluster();
        let world = parse(text);
        events(&world).iter().for_each(|it| planner.absorb(it));
        let names = |it: &[NamespacedName]| {
            let names: Vec<String> = it.iter().map(|it| it.name.to_string()).collect();
            names.join(",")
        };
        let line = |it: &Reach| {
            let allowed: Vec<String> = it.allowed.iter().map(ToString::to_string).collect();
            let allowed = if it.is_everything() {
                "everything".to_owned()
            } else {
                allowed.join(" ")
            };
            format!("{} {}: {allowed}", names(&it.from), names(&it.to))
        };
        reach(&planner).iter().map(line).collect()
    }

    #[test]
    fn classes_of_pods() {
        let pods = "ns a team=red
            pod a/web-0 n1 10.0.0.1 app=web
            pod a/web-1 n2 10.0.0.2 app=web
            pod a/db n1 10.0.0.3 app=db";
        assert_eq!(of(pods), ["db,web-0,web-1 db,web-0,web-1: everything"]);
        let policy = "np a/db ingress pods=app=db from=/app=web port=tcp:5432";
        assert_eq!(
            of(&format!("{pods}\n{policy}")),
            [
                "db web-0,web-1: everything",
                "web-0,web-1 db: tcp/5432",
                "web-0,web-1 web-0,web-1: everything",
            ]
        );
        let denied = "np a/deny egress pods=app=db";
        assert_eq!(of(&format!("{pods}\n{denied}"))[0], "db web-0,web-1: ");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Of every packet between two pods, somebody says what the plan says.
        #[test]
        fn every_pair_is_as_the_plan_says(world in worlds()) {
            let mut planner = Planner::of_cluster();
            events(&world).iter().for_each(|it| planner.absorb(it));
            let all = reach(&planner);
            for packet in packets().filter(|it| it.source != it.destination) {
                let [from, to] = [packet.source, packet.destination].map(|it| planner.pods_at(&it));
                if from.is_empty() || to.is_empty() {
                    continue;
                }
                let mut of_pair = all.iter().filter(|it| {
                    from.iter().all(|from| it.from.contains(from)) && to.iter().all(|to| it.to.contains(to))
                });
                let expected = lookup(planner.plan(), &packet).is_allowed();
                let is_it = |it: &Reach| it.allowed.iter().any(|it| match (it, packet.port) {
                    (Traffic::Ports(range), Some((protocol, port))) => range.contains(protocol, port),
                    (Traffic::Other, None) => true,
                    _ => false,
                });
                prop_assert!(of_pair.any(|it| is_it(it) == expected), "{:?}: {:?}", packet, all);
            }
        }
    }
}
