//! Examples of Deployments.

use serde_json::{Value, json};

use super::manifests::deployment;
use super::simulator::Simulator;
use super::store::key;

/// Sizes of the ReplicaSets by image, newest revision last.
fn sizes(simulator: &Simulator) -> Vec<(String, i32)> {
    let mut sets = simulator.replica_sets.all();
    sets.sort_by_key(|it| {
        let annotations = it.metadata.annotations.as_ref().unwrap();
        annotations["deployment.kubernetes.io/revision"]
            .parse::<i64>()
            .unwrap()
    });
    let sizes = sets.iter().map(|it| {
        let spec = it.spec.as_ref().unwrap();
        let template = spec.template.as_ref().unwrap().spec.as_ref().unwrap();
        let image = template.containers[0].image.clone().unwrap();
        (image.replace("image:", ""), spec.replicas.unwrap())
    });
    sizes.collect()
}

#[track_caller]
fn check(simulator: &Simulator, expected: &[(&str, i32)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(it, size)| ((*it).to_owned(), *size))
        .collect();
    assert_eq!(sizes(simulator), expected);
}

fn rolling(replicas: i32, surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    let rolling = json!({"maxSurge": surge.into(), "maxUnavailable": unavailable.into()});
    json!({"replicas": replicas, "strategy": {"rollingUpdate": rolling}})
}

/// A Deployment with version 1, after its rollout.
fn running(spec: &Value) -> Simulator {
    let mut simulator = Simulator::new(3);
    assert_eq!(simulator.apply(deployment("web", "1", spec)), [""; 0]);
    simulator.settle(10);
    simulator
}

fn condition(simulator: &Simulator, type_: &str) -> (String, String) {
    let web = simulator.deployments.get("ns", "web").unwrap();
    let mut conditions = web.status.as_ref().unwrap().conditions.iter().flatten();
    let condition = conditions.find(|it| it.type_ == type_).unwrap();
    (condition.status.clone(), condition.reason.clone().unwrap())
}

fn text(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Sizes of the old and the new ReplicaSet before any new pod is ready.
#[test]
fn first_step_of_a_rolling_update() {
    let quarter = "25%";
    let table = [
        (rolling(4, quarter, quarter), 3, 2),
        // 25 % of 5 are 2 more and 1 less.
        (rolling(5, quarter, quarter), 4, 3),
        (rolling(3, 1, 0), 3, 1),
        (rolling(3, 0, 1), 2, 1),
        (rolling(3, 0, "10%"), 2, 1),
        (rolling(10, 3, 2), 8, 5),
        (rolling(2, "100%", 0), 2, 2),
    ];
    for (spec, old, new) in table {
        let mut simulator = running(&spec);
        simulator.apply(deployment("web", "2", &spec));
        simulator.rest();
        check(&simulator, &[("1", old), ("2", new)]);
    }
}

#[test]
fn recreate_ends_old_pods_before_the_first_new_one() {
    let spec = json!({"replicas": 3, "strategy": {"type": "Recreate"}});
    let mut simulator = running(&spec);
    simulator.apply(deployment("web", "2", &spec));
    simulator.rest();
    check(&simulator, &[("1", 0)]);
    simulator.tick();
    simulator.rest();
    check(&simulator, &[("1", 0)]);
    simulator.tick();
    simulator.rest();
    check(&simulator, &[("1", 0), ("2", 3)]);
}

/// The example of the documentation (concepts/workloads/controllers/deployment, "Proportional scaling").
#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let mut simulator = running(&rolling(10, 3, 2));
    simulator.delays.0 = 1000;
    simulator.apply(deployment("web", "2", &rolling(10, 3, 2)));
    simulator.settle(5);
    check(&simulator, &[("1", 8), ("2", 5)]);
    simulator.apply(deployment("web", "2", &rolling(15, 3, 2)));
    simulator.settle(5);
    check(&simulator, &[("1", 11), ("2", 7)]);
}

/// Of two ReplicaSets of one size the newer one grows, and the older one shrinks.
#[test]
fn what_rounding_leaves_goes_to_the_newer_one() {
    for (replicas, old, new) in [(5, 2, 3), (3, 1, 2)] {
        let mut simulator = running(&rolling(4, 0, 2));
        simulator.delays.0 = 1000;
        simulator.apply(deployment("web", "2", &rolling(4, 0, 2)));
        simulator.settle(5);
        check(&simulator, &[("1", 2), ("2", 2)]);
        let spec = rolling(replicas, 0, 2);
        simulator.apply(deployment("web", "2", &spec));
        simulator.settle(5);
        check(&simulator, &[("1", old), ("2", new)]);
    }
}

#[test]
fn paused_deployments_scale_and_do_not_roll() {
    let mut simulator = running(&json!({"replicas": 2}));
    simulator.apply(deployment(
        "web",
        "2",
        &json!({"replicas": 4, "paused": true}),
    ));
    simulator.settle(10);
    check(&simulator, &[("1", 4)]);
    assert_eq!(
        condition(&simulator, "Progressing"),
        text("Unknown", "DeploymentPaused")
    );
    simulator.apply(deployment("web", "2", &json!({"replicas": 4})));
    simulator.settle(20);
    check(&simulator, &[("1", 0), ("2", 4)]);
    assert_eq!(
        condition(&simulator, "Progressing"),
        text("True", "NewReplicaSetAvailable")
    );
}

#[test]
fn an_old_template_gets_its_replica_set_back_with_a_new_revision() {
    let mut simulator = running(&json!({}));
    for version in ["2", "3", "1"] {
        simulator.apply(deployment("web", version, &json!({})));
        simulator.settle(10);
    }
    check(&simulator, &[("2", 0), ("3", 0), ("1", 1)]);
    let web = simulator.deployments.get("ns", "web").unwrap();
    let annotations = web.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "4");
}

#[test]
fn history_is_limited() {
    let spec = json!({"revisionHistoryLimit": 1});
    let mut simulator = running(&spec);
    for version in ["2", "3", "4"] {
        simulator.apply(deployment("web", version, &spec));
        simulator.settle(10);
    }
    check(&simulator, &[("3", 0), ("4", 1)]);
}

#[test]
fn restarting_is_a_change_of_the_template() {
    let mut simulator = running(&json!({"replicas": 2}));
    let before = simulator.names("web");
    let annotations = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"});
    let spec = json!({"replicas": 2, "template": {"metadata": {"annotations": annotations}}});
    simulator.apply(deployment("web", "1", &spec));
    simulator.settle(20);
    let after = simulator.names("web");
    assert_eq!(after.len(), 2);
    assert!(after.iter().all(|it| !before.contains(it)));
}

/// A pod is available after `minReadySeconds`, and the plan wakes then.
#[test]
fn availability_takes_its_time() {
    let mut simulator = Simulator::new(1);
    let spec = json!({"minReadySeconds": 30, "progressDeadlineSeconds": 100});
    simulator.apply(deployment("web", "1", &spec));
    simulator.settle(3);
    let wake = simulator.rest().unwrap();
    assert_eq!(condition(&simulator, "Available").0, "False");
    assert!((27..=30).contains(&wake.duration_since(simulator.now).as_secs()));
    simulator.now = wake;
    simulator.rest();
    assert_eq!(
        condition(&simulator, "Available"),
        text("True", "MinimumReplicasAvailable")
    );
    assert_eq!(simulator.rest(), None);
}

#[test]
fn a_rollout_without_progress_is_late() {
    let mut simulator = Simulator::new(1);
    simulator.delays.0 = 10_000;
    let spec = json!({"progressDeadlineSeconds": 60});
    simulator.apply(deployment("web", "1", &spec));
    simulator.settle(5);
    assert_eq!(condition(&simulator, "Progressing").0, "True");
    simulator.now = simulator.rest().expect("the deadline");
    simulator.rest();
    assert_eq!(
        condition(&simulator, "Progressing"),
        text("False", "ProgressDeadlineExceeded")
    );
    assert_eq!(simulator.rest(), None);
    simulator.delays.0 = 1;
    simulator.settle(5);
    assert_eq!(
        condition(&simulator, "Progressing"),
        text("True", "NewReplicaSetAvailable")
    );
}

#[test]
fn a_pod_that_dies_later_is_no_rollout() {
    let mut simulator = running(&json!({"replicas": 2}));
    let name = simulator.names("web").remove(0);
    simulator.kill(&("ns".to_owned(), name));
    for _ in 0..5 {
        simulator.settle(1);
        let expected = text("True", "NewReplicaSetAvailable");
        assert_eq!(condition(&simulator, "Progressing"), expected);
    }
}

/// Another object has the ReplicaSet's name: the hash changes with the collision count.
#[test]
fn a_taken_name_is_a_collision() {
    let mut simulator = running(&json!({}));
    let key = key(&simulator.replica_sets.all()[0].metadata);
    simulator.replica_sets.edit(&key, 1000, |it| {
        it.metadata.owner_references.as_mut().unwrap()[0].kind = "Foreign".to_owned();
        it.metadata.owner_references.as_mut().unwrap()[0].uid = "foreign".to_owned();
    });
    simulator.settle(10);
    let web = simulator.deployments.get("ns", "web").unwrap();
    assert_eq!(web.status.as_ref().unwrap().collision_count, Some(1));
    assert_eq!(web.status.as_ref().unwrap().available_replicas, Some(1));
    assert_eq!(simulator.replica_sets.all().len(), 2);
}

#[test]
fn people_are_told_of_sizes() {
    let simulator = running(&json!({"replicas": 2}));
    let name = simulator.replica_sets.all()[0]
        .metadata
        .name
        .clone()
        .unwrap();
    let message = format!("Scaled up replica set {name} from 0 to 2");
    let event = ("ScalingReplicaSet".to_owned(), message);
    assert!(simulator.events.contains(&event), "{:?}", simulator.events);
}

#[test]
fn what_a_deleted_deployment_owned_goes() {
    let mut simulator = running(&json!({"replicas": 3}));
    simulator
        .deployments
        .remove(&("ns".to_owned(), "web".to_owned()));
    simulator.settle(5);
    assert_eq!(simulator.replica_sets.all(), []);
    assert_eq!(simulator.pods.all(), []);
}
