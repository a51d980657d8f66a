//! What a change of policies does to connections between pods.

use std::collections::BTreeSet;

use sluice_model::NamespacedName;

use crate::classes::{Class, Traffic, classes, push, starts, traffic};
use crate::lookup::{Decision, lookup};
use crate::plan::Plan;
use crate::planner::Planner;
use crate::policy::Direction;

/// What changes from some pods to others. The same holds for each pair of them but a pod and itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairChange {
    /// The pods that connect.
    pub from: Vec<NamespacedName>,
    /// The pods that are connected to.
    pub to: Vec<NamespacedName>,
    /// What is allowed before and dropped after.
    pub closed: Vec<Traffic>,
    /// What is dropped before and allowed after.
    pub opened: Vec<Traffic>,
    /// Why the first of `closed` is dropped; empty without any.
    pub why: String,
}

/// What changes between all pods. Both planners have the same pods and namespaces, and are [of a
/// cluster](Planner::of_cluster).
#[must_use]
pub fn diff(before: &Planner, after: &Planner) -> Vec<PairChange> {
    let plans = [before.plan(), after.plan()];
    let starts = starts(plans);
    let classes = classes(before, plans);
    let mut changes = BTreeSet::new();
    for from in &classes {
        for to in &classes {
            if from.changes.egress || to.changes.ingress {
                changes.extend(change(plans, from, to, &starts));
            }
        }
    }
    changes.into_iter().collect()
}

fn change(
    plans: [&Plan; 2],
    from: &Class,
    to: &Class,
    starts: &BTreeSet<u16>,
) -> Option<PairChange> {
    let (source, destination) = from.pair(to)?;
    let mut change = PairChange {
        from: from.names(),
        to: to.names(),
        closed: Vec::new(),
        opened: Vec::new(),
        why: String::new(),
    };
    let mut ask = |traffic: Traffic| {
        let packet = traffic.packet(source, destination);
        let [before, after] = plans.map(|it| lookup(it, &packet));
        match (before.is_allowed(), after.is_allowed()) {
            (true, false) => {
                if change.closed.is_empty() {
                    change.why = dropped(&after);
                }
                push(&mut change.closed, traffic);
            }
            (false, true) => push(&mut change.opened, traffic),
            _ => {}
        }
    };
    traffic(starts).for_each(&mut ask);
    let is_one = !(change.closed.is_empty() && change.opened.is_empty());
    is_one.then_some(change)
}

/// The reason of the end that drops.
fn dropped(decision: &Decision) -> String {
    if decision.egress.is_allowed() {
        decision.ingress.words(Direction::Ingress)
    } else {
        decision.egress.words(Direction::Egress)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use sluice_model::Protocol;

    use super::*;
    use crate::testing::{World, events, packets, parse, worlds};

    fn planner(world: &World) -> Planner {
        let mut planner = Planner::of_cluster();
        events(world).iter().for_each(|it| planner.absorb(it));
        planner
    }

    fn has(traffic: &[Traffic], port: Option<(Protocol, u16)>) -> bool {
        traffic.iter().any(|it| match (it, port) {
            (Traffic::Ports(range), Some((protocol, port))) => range.contains(protocol, port),
            (Traffic::Other, None) => true,
            _ => false,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Of every packet between two pods the difference says what the plans say.
        #[test]
        fn every_pair_is_as_the_plans_say(world in worlds(), other in worlds()) {
            let mut world = world;
            for (index, pod) in world.pods.iter_mut().enumerate() {
                // One pod for each address, so that pods are told apart.
                let last = u8::try_from(index).expect("few");
                pod.addresses = vec![IpAddr::from([10, 0, 0, last])];
            }
            let changed = World {
                policies: other.policies,
                cluster_policies: other.cluster_policies,
                ..world.clone()
            };
            let planners = [planner(&world), planner(&changed)];
            let changes = diff(&planners[0], &planners[1]);
            for packet in packets().filter(|it| it.source != it.destination) {
                let ends = [packet.source, packet.destination].map(|it| planners[0].pods_at(&it));
                let [[from], [to]] = [&ends[0][..], &ends[1][..]] else {
                    continue;
                };
                let of_pair = changes.iter().filter(|it| it.from.contains(from) && it.to.contains(to));
                let found: Vec<_> = of_pair
                    .map(|it| (has(&it.closed, packet.port), has(&it.opened, packet.port)))
                    .filter(|it| *it != (false, false))
                    .collect();
                let [before, after] =
                    [0, 1].map(|it| lookup(planners[it].plan(), &packet).is_allowed());
                let expected = match (before, after) {
                    (true, false) => vec![(true, false)],
                    (false, true) => vec![(false, true)],
                    _ => Vec::new(),
                };
                prop_assert_eq!(found, expected, "{:?}: {:?}", packet, changes);
            }
        }
    }

    #[test]
    fn equal_pods_are_one_line() {
        let pods = "ns a team=red
            pod a/web-0 n1 10.0.0.1 app=web
            pod a/web-1 n2 10.0.0.2 app=web
            pod a/db n1 10.0.0.3 app=db
            pod a/other n3 10.0.0.4 app=other";
        let before = planner(&parse(pods));
        let policy = "np a/db ingress pods=app=db from=/app=web port=tcp:5432";
        let after = planner(&parse(&format!("{pods}\n{policy}")));
        let lines = |before: &Planner, after: &Planner| -> Vec<String> {
            let changes = diff(before, after);
            let line = |it: PairChange| {
                let names = |it: &[NamespacedName]| {
                    it.iter()
                        .map(|it| it.name.to_string())
                        .collect::<Vec<_>>()
                        .join(",")
                };
                let traffic = |it: &[Traffic]| {
                    it.iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                let (from, to) = (names(&it.from), names(&it.to));
                let (closed, opened) = (traffic(&it.closed), traffic(&it.opened));
                format!("{from} {to}: -{closed} +{opened} {}", it.why)
            };
            changes.into_iter().map(line).collect()
        };
        let why = "dropped: isolated by NetworkPolicy a/db, no rule of which matches";
        assert_eq!(
            lines(&before, &after),
            [
                format!("other db: -tcp udp sctp other protocols + {why}"),
                format!(
                    "web-0,web-1 db: -tcp/0-5431 tcp/5433-65535 udp sctp other protocols + {why}"
                ),
            ]
        );
        assert_eq!(
            lines(&after, &before),
            [
                "other db: - +tcp udp sctp other protocols ",
                "web-0,web-1 db: - +tcp/0-5431 tcp/5433-65535 udp sctp other protocols ",
            ]
        );
        assert!(lines(&after, &after).is_empty());
    }
}
