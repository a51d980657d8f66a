//! Properties of every history.

use std::collections::BTreeSet;

use crate::workloads::{Workload, Write, reconcile};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::manifests::{daemon_set, deployment, foreign_pod, stateful_set};
use super::simulator::{Simulator, is_ready};
use super::store::key;

/// An event in a cluster.
#[derive(Clone, Debug)]
enum Action {
    Deploy {
        replicas: i32,
        version: u8,
        strategy: &'static str,
    },
    Pause,
    Stateful {
        replicas: i32,
        version: u8,
        policy: bool,
    },
    Daemon {
        version: u8,
        surge: i32,
        disk: bool,
    },
    DeleteDeployment,
    Kill(usize),
    Fail(usize),
    Unready(usize),
    NodeState(usize, &'static str),
    NodeGone(usize),
    Cordon(usize, bool),
    Label(usize, bool),
    Time(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let strategies = ["1/0", "0/1", "25%/25%", "100%/0", "Recreate"];
    prop_oneof![
        3 => (0..6, 0..3_u8, select(strategies.to_vec()))
            .prop_map(|(replicas, version, strategy)| Action::Deploy { replicas, version, strategy }),
        1 => Just(Action::Pause),
        2 => (0..5, 0..3_u8, any::<bool>())
            .prop_map(|(replicas, version, policy)| Action::Stateful { replicas, version, policy }),
        2 => (0..3_u8, 0..2, any::<bool>())
            .prop_map(|(version, surge, disk)| Action::Daemon { version, surge, disk }),
        1 => Just(Action::DeleteDeployment),
        2 => any::<usize>().prop_map(Action::Kill),
        1 => any::<usize>().prop_map(Action::Fail),
        1 => any::<usize>().prop_map(Action::Unready),
        2 => (0..4_usize, select(vec!["True", "False", "Unknown"]))
            .prop_map(|(node, state)| Action::NodeState(node, state)),
        1 => (0..4_usize).prop_map(Action::NodeGone),
        1 => (0..4_usize, any::<bool>()).prop_map(|(node, cordoned)| Action::Cordon(node, cordoned)),
        1 => (0..4_usize, any::<bool>()).prop_map(|(node, label)| Action::Label(node, label)),
        4 => (1..8_usize).prop_map(Action::Time),
    ]
}

fn strategy(text: &str) -> serde_json::Value {
    let number = |it: &str| it.parse::<i32>().map_or(json!(it), |it| json!(it));
    match text.split_once('/') {
        None => json!({"type": "Recreate"}),
        Some((surge, unavailable)) => json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": number(surge), "maxUnavailable": number(unavailable)},
        }),
    }
}

fn apply(simulator: &mut Simulator, object: impl Into<Workload>) {
    assert_eq!(simulator.apply(object), [""; 0]);
}

fn make(simulator: &mut Simulator, action: &Action) {
    let pods = simulator.pods.all();
    let own = |at: &usize| {
        let mut own = pods.clone();
        own.retain(|it| !it.metadata.name.as_ref().unwrap().starts_with("foreign"));
        own.get(at % own.len().max(1)).map(|it| key(&it.metadata))
    };
    let node = |at: &usize| format!("n{at}");
    let exists = |it: &Simulator, at: &usize| it.nodes.get("", &node(at)).is_some();
    match action {
        Action::Deploy {
            replicas,
            version,
            strategy: text,
        } => {
            let spec = json!({"replicas": replicas, "strategy": strategy(text)});
            apply(simulator, deployment("web", &version.to_string(), &spec));
        }
        Action::Pause => {
            apply(
                simulator,
                deployment("web", "9", &json!({"paused": true, "replicas": 3})),
            );
        }
        Action::Stateful {
            replicas,
            version,
            policy,
        } => {
            if simulator.stateful_sets.get("ns", "db").is_none() || !policy {
                let spec = json!({"replicas": replicas, "serviceName": "db"});
                apply(simulator, stateful_set("db", &version.to_string(), &spec));
            }
            let spec = json!({"replicas": replicas, "podManagementPolicy": "Parallel",
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}});
            apply(simulator, stateful_set("par", &version.to_string(), &spec));
        }
        Action::Daemon {
            version,
            surge,
            disk,
        } => {
            let selector = if *disk {
                json!({"disk": "ssd"})
            } else {
                json!({})
            };
            let spec = json!({
                "template": {"spec": {"nodeSelector": selector}},
                "updateStrategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}},
            });
            apply(simulator, daemon_set("agent", &version.to_string(), &spec));
        }
        Action::DeleteDeployment => simulator.deployments.remove(&("ns".into(), "web".into())),
        Action::Kill(at) => own(at).iter().for_each(|it| simulator.kill(it)),
        Action::Fail(at) => own(at).iter().for_each(|it| simulator.fail(it)),
        Action::Unready(at) => own(at).iter().for_each(|it| simulator.make_unready(it)),
        Action::NodeState(at, state) => {
            simulator.add_node(&node(at));
            simulator.set_ready(&node(at), state);
        }
        Action::NodeGone(at) => {
            simulator.nodes.remove(&(String::new(), node(at)));
        }
        Action::Cordon(at, cordoned) if exists(simulator, at) => {
            simulator.edit_node(&node(at), |it| {
                it.spec.get_or_insert_default().unschedulable = Some(*cordoned);
            });
        }
        Action::Label(at, labelled) if exists(simulator, at) => {
            simulator.edit_node(&node(at), |it| {
                let labels = it.metadata.labels.get_or_insert_default();
                labels.remove("disk");
                if *labelled {
                    labels.insert("disk".to_owned(), "ssd".to_owned());
                }
            });
        }
        Action::Time(seconds) => simulator.settle(*seconds),
        Action::Cordon(..) | Action::Label(..) => {}
    }
}

/// Repairs every node, ends every pause, and lets time pass.
fn mend(simulator: &mut Simulator) {
    for node in simulator.nodes.all() {
        let name = node.metadata.name.clone().unwrap();
        simulator.set_ready(&name, "True");
        simulator.edit_node(&name, |it| {
            it.spec.get_or_insert_default().unschedulable = None
        });
    }
    if let Some(web) = simulator.deployments.get("ns", "web") {
        let mut web = (**web).clone();
        web.spec.as_mut().unwrap().paused = None;
        apply(simulator, web);
    }
    simulator.calm();
}

fn images(simulator: &Simulator, prefix: &str) -> BTreeSet<String> {
    let pods = simulator.active(prefix).into_iter();
    pods.map(|it| {
        it.spec.as_ref().unwrap().containers[0]
            .image
            .clone()
            .unwrap()
    })
    .collect()
}

fn check_deployment(simulator: &Simulator) {
    let Some(web) = simulator.deployments.get("ns", "web") else {
        assert_eq!(simulator.names("web"), [""; 0]);
        return assert_eq!(simulator.replica_sets.all().len(), 0);
    };
    let spec = web.spec.as_ref().unwrap();
    let wanted = spec.replicas.unwrap();
    assert_eq!(
        simulator.names("web").len(),
        usize::try_from(wanted).unwrap()
    );
    let image = spec.template.spec.as_ref().unwrap().containers[0]
        .image
        .clone();
    assert!(
        images(simulator, "web")
            .into_iter()
            .all(|it| Some(it) == image)
    );
    let status = web.status.as_ref().unwrap();
    assert_eq!(status.available_replicas.unwrap_or(0), wanted);
    assert_eq!(status.updated_replicas.unwrap_or(0), wanted);
    assert_eq!(status.observed_generation, web.metadata.generation);
}

fn check_stateful_set(simulator: &Simulator, name: &str) {
    let Some(set) = simulator.stateful_sets.get("ns", name) else {
        return;
    };
    let spec = set.spec.as_ref().unwrap();
    let wanted: Vec<_> = (0..spec.replicas.unwrap())
        .map(|it| format!("{name}-{it}"))
        .collect();
    assert_eq!(simulator.names(&format!("{name}-")), wanted);
    let image = spec.template.spec.as_ref().unwrap().containers[0]
        .image
        .clone();
    let mut images = images(simulator, &format!("{name}-")).into_iter();
    assert!(images.all(|it| Some(it) == image));
    let status = set.status.as_ref().unwrap();
    assert_eq!(status.current_revision, status.update_revision);
}

fn check_daemon_set(simulator: &Simulator) {
    let Some(set) = simulator.daemon_sets.get("ns", "agent") else {
        return;
    };
    let template = set.spec.as_ref().unwrap().template.spec.clone().unwrap();
    let needs_disk = template
        .node_selector
        .is_some_and(|it| it.contains_key("disk"));
    let mut fitting = simulator.nodes.all();
    fitting.retain(|it| !needs_disk || it.metadata.labels.as_ref().unwrap().contains_key("disk"));
    let wanted: Vec<_> = fitting.iter().map(|it| it.metadata.name.clone()).collect();
    let pods = simulator.active("agent");
    let mut found: Vec<_> = pods
        .iter()
        .map(|it| it.spec.as_ref().unwrap().node_name.clone())
        .collect();
    found.sort();
    assert_eq!(found, wanted);
    let image = template.containers[0].image.clone();
    assert!(
        images(simulator, "agent")
            .into_iter()
            .all(|it| Some(it) == image)
    );
}

/// In an ordered StatefulSet a pod is created only when all before it are ready.
fn in_order(simulator: &Simulator, write: &Write) {
    let Write::Create(Workload::Pod(pod)) = write else {
        return;
    };
    let name = pod.metadata.name.as_deref().unwrap();
    let Some(ordinal) = name
        .strip_prefix("db-")
        .and_then(|it| it.parse::<u32>().ok())
    else {
        return;
    };
    for before in 0..ordinal {
        let before = simulator.pods.get("ns", &format!("db-{before}"));
        assert!(
            before.is_some_and(|it| is_ready(it)),
            "{name} came too early"
        );
    }
}

/// Available pods, and existing pods.
fn counts(simulator: &Simulator) -> (i32, i32) {
    let pods = simulator.active("web");
    let ready = pods.iter().filter(|it| is_ready(it)).count();
    (
        i32::try_from(ready).unwrap(),
        i32::try_from(pods.len()).unwrap(),
    )
}

/// `maxSurge` and `maxUnavailable` of the Deployment `web`, as numbers.
fn limits(simulator: &Simulator) -> (i32, i32, i32) {
    let web = simulator.deployments.get("ns", "web").unwrap();
    let replicas = web.spec.as_ref().unwrap().replicas.unwrap();
    let annotation = |it: &str| {
        let annotations = web.metadata.annotations.as_ref().unwrap();
        annotations[it].parse::<i32>().unwrap()
    };
    (
        replicas,
        annotation("test/surge"),
        annotation("test/unavailable"),
    )
}

/// No write deletes or creates more pods than the limits allow.
fn within_limits(simulator: &Simulator, write: &Write) {
    let (available, existing) = counts(simulator);
    let (replicas, surge, unavailable) = limits(simulator);
    match write {
        Write::Create(Workload::Pod(_)) => assert!(existing < replicas + surge, "too many pods"),
        Write::Delete {
            kind: "Pod", key, ..
        } => {
            let pod = simulator.pods.get(&key.namespace, &key.name).unwrap();
            assert!(
                !is_ready(pod) || available > replicas - unavailable,
                "too few pods: {available} of {replicas} less {unavailable}"
            );
        }
        _ => {}
    }
}

#[derive(Clone, Debug)]
enum Disturbance {
    Template(u8),
    Kill(usize),
    Unready(usize),
    Delays(i64, i64),
    Time(usize),
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        2 => (0..4_u8).prop_map(Disturbance::Template),
        1 => any::<usize>().prop_map(Disturbance::Kill),
        1 => any::<usize>().prop_map(Disturbance::Unready),
        1 => (0..5_i64, 0..5_i64).prop_map(|(start, end)| Disturbance::Delays(start, end)),
        4 => (1..6_usize).prop_map(Disturbance::Time),
    ]
}

/// No write leaves more nodes than one without a pod of the DaemonSet `agent`, or more than one node with two.
fn within_limits_of_nodes(simulator: &Simulator, write: &Write) {
    let agent = simulator.daemon_sets.get("ns", "agent").unwrap();
    let strategy = agent
        .spec
        .as_ref()
        .unwrap()
        .update_strategy
        .clone()
        .unwrap();
    let surges = strategy.rolling_update.unwrap().max_surge == Some(IntOrString::Int(1));
    let (pods, nodes) = (simulator.active("agent"), simulator.nodes.all().len());
    let ready = pods.iter().filter(|it| is_ready(it)).count();
    match write {
        Write::Create(Workload::Pod(_)) => assert!(pods.len() < nodes + usize::from(surges)),
        Write::Delete {
            kind: "Pod", key, ..
        } => {
            let pod = simulator.pods.get(&key.namespace, &key.name).unwrap();
            assert!(!is_ready(pod) || ready >= nodes + usize::from(surges));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any history the desired pods exist, and nothing is left to write.
    #[test]
    fn comes_to_rest(actions in prop::collection::vec(action(), 1..25), refusals in select(vec![0_usize, 2, 3, 7])) {
        let mut simulator = Simulator::new(4);
        // Half a second, which times in objects cannot hold.
        simulator.now += SignedDuration::from_millis(500);
        simulator.check = Some(in_order);
        simulator.refusals = refusals;
        // Nothing happens to this node, so no controller has a reason to delete foreign pods on it.
        simulator.add_node("stable");
        for name in ["web", "db", "agent"] {
            let foreign = foreign_pod(&format!("foreign-{name}"), name, "stable");
            apply(&mut simulator, foreign);
        }
        for action in &actions {
            make(&mut simulator, action);
            simulator.rest();
        }
        mend(&mut simulator);
        check_deployment(&simulator);
        check_stateful_set(&simulator, "db");
        check_stateful_set(&simulator, "par");
        check_daemon_set(&simulator);
        prop_assert_eq!(simulator.pods.all().iter().filter(|it| it.metadata.name.as_ref().unwrap().starts_with("foreign")).count(), 3);
        let plan = reconcile(&simulator.cluster(), simulator.now);
        prop_assert_eq!(plan.writes, []);
        prop_assert_eq!(plan.wake, None);
    }

    /// The same for a DaemonSet, with and without a surge.
    #[test]
    fn daemon_sets_keep_their_limits(
        surge in 0..2,
        steps in prop::collection::vec((0..4_u8, 0..5_i64, 0..5_i64, 0..6_usize), 1..12),
    ) {
        let mut simulator = Simulator::new(4);
        let agent = |version: u8| {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": 1 - surge});
            let spec = json!({"updateStrategy": {"rollingUpdate": rolling}});
            daemon_set("agent", &version.to_string(), &spec)
        };
        apply(&mut simulator, agent(0));
        simulator.settle(5);
        simulator.check = Some(within_limits_of_nodes);
        for (version, start, end, seconds) in steps {
            simulator.delays = (start, end);
            apply(&mut simulator, agent(version));
            simulator.settle(seconds);
        }
        simulator.calm();
        check_daemon_set(&simulator);
    }

    /// A rolling update never exceeds its surge, and deletes no pod that must be available.
    #[test]
    fn rolling_update_keeps_its_limits(
        (replicas, surge, unavailable) in (1..7_i32, 0..4_i32, 0..4_i32),
        disturbances in prop::collection::vec(disturbance(), 1..25),
        refusals in select(vec![0_usize, 2, 5]),
    ) {
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        let mut simulator = Simulator::new(3);
        let web = |version: u8| {
            let strategy = strategy(&format!("{surge}/{unavailable}"));
            let mut web = deployment("web", &version.to_string(), &json!({"replicas": replicas, "strategy": strategy}));
            let annotations = [("test/surge", surge), ("test/unavailable", unavailable)];
            let annotations = annotations.map(|(name, it)| (name.to_owned(), it.to_string()));
            web.metadata.annotations = Some(annotations.into());
            web
        };
        apply(&mut simulator, web(0));
        simulator.settle(10);
        simulator.check = Some(within_limits);
        simulator.refusals = refusals;
        for disturbance in &disturbances {
            let pods = simulator.active("web");
            let chosen = |at: &usize| pods.get(at % pods.len().max(1)).map(|it| key(&it.metadata));
            match disturbance {
                Disturbance::Template(version) => apply(&mut simulator, web(*version)),
                Disturbance::Kill(at) => chosen(at).iter().for_each(|it| simulator.kill(it)),
                Disturbance::Unready(at) => chosen(at).iter().for_each(|it| simulator.make_unready(it)),
                Disturbance::Delays(start, end) => simulator.delays = (*start, *end),
                Disturbance::Time(seconds) => simulator.settle(*seconds),
            }
            simulator.rest();
        }
        mend(&mut simulator);
        check_deployment(&simulator);
    }
}
