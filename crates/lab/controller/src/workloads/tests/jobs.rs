//! Jobs and CronJobs.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use super::simulator::Simulator;
use crate::workloads::validate_job;

/// A Job whose pods end as `how` says: `succeed`, `fail` or `run` (they do not end).
fn job(how: &str, spec: &Value) -> Job {
    let mut object = json!({
        "metadata": {"name": "work", "namespace": "ns"},
        "spec": {"template": template(how)},
    });
    super::manifests::merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

fn template(how: &str) -> Value {
    json!({
        "metadata": {"annotations": {"ends": how}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    })
}

/// Succeeded, failed and active pods, and the conditions that are true.
fn state(simulator: &Simulator, name: &str) -> String {
    let status = simulator
        .jobs
        .get("ns", name)
        .unwrap()
        .status
        .clone()
        .unwrap();
    let conditions = status
        .conditions
        .iter()
        .flatten()
        .filter(|it| it.status == "True");
    let conditions: Vec<&str> = conditions.map(|it| it.type_.as_str()).collect();
    format!(
        "{}+{}+{} {}",
        status.succeeded.unwrap_or(0),
        status.failed.unwrap_or(0),
        status.active.unwrap_or(0),
        conditions.join(",")
    )
}

fn reason(simulator: &Simulator) -> String {
    let status = simulator
        .jobs
        .get("ns", "work")
        .unwrap()
        .status
        .clone()
        .unwrap();
    status
        .conditions
        .unwrap()
        .last()
        .unwrap()
        .reason
        .clone()
        .unwrap()
}

/// Every pod is counted, and none is held back.
#[track_caller]
fn assert_settled(simulator: &Simulator) {
    for job in simulator.jobs.all() {
        let uncounted = job
            .status
            .as_ref()
            .unwrap()
            .uncounted_terminated_pods
            .as_ref()
            .unwrap();
        assert_eq!((&uncounted.succeeded, &uncounted.failed), (&None, &None));
    }
    for pod in simulator.pods.all() {
        assert_eq!(
            pod.metadata.finalizers.as_deref().unwrap_or_default(),
            [""; 0]
        );
    }
}

#[test]
fn a_job_ends_after_its_completions() {
    for refusals in [0, 2, 3] {
        let mut simulator = Simulator::new(2);
        simulator.refusals = refusals;
        let spec = json!({"completions": 5, "parallelism": 2});
        assert_eq!(simulator.apply(job("succeed", &spec)), [""; 0]);
        simulator.rest();
        assert_eq!(state(&simulator, "work"), "0+0+2 ");
        simulator.settle(40);
        assert_eq!(
            state(&simulator, "work"),
            "5+0+0 SuccessCriteriaMet,Complete"
        );
        assert_settled(&simulator);
        assert_eq!(simulator.pods.all().len(), 5);
        let done = simulator.jobs.get("ns", "work").unwrap().clone();
        assert!(done.status.as_ref().unwrap().completion_time.is_some());
        // Its pods go with it.
        simulator.jobs.remove(&("ns".to_owned(), "work".to_owned()));
        simulator.settle(10);
        assert!(simulator.pods.all().is_empty());
    }
}

#[test]
fn a_queue_ends_with_its_first_success() {
    let mut simulator = Simulator::new(1);
    let spec = json!({"completions": null, "parallelism": 3});
    simulator.apply(job("succeed", &spec));
    simulator.settle(20);
    assert_eq!(
        state(&simulator, "work"),
        "3+0+0 SuccessCriteriaMet,Complete"
    );
}

#[test]
fn failures_are_tried_again_ever_later_until_the_limit() {
    for refusals in [0, 2] {
        let mut simulator = Simulator::new(1);
        simulator.refusals = refusals;
        simulator.apply(job("fail", &json!({"backoffLimit": 2})));
        simulator.settle(5);
        assert_eq!(simulator.pods.all().len(), 2);
        simulator.settle(60);
        assert_eq!(state(&simulator, "work"), "0+3+0 FailureTarget,Failed");
        assert_eq!(reason(&simulator), "BackoffLimitExceeded");
        assert_settled(&simulator);
    }
}

#[test]
fn a_pod_that_is_deleted_counts_as_failed() {
    let mut simulator = Simulator::new(1);
    simulator.apply(job("run", &json!({})));
    simulator.settle(5);
    let first = super::store::key(&simulator.pods.all()[0].metadata);
    simulator.kill(&first);
    simulator.settle(10);
    assert_eq!(state(&simulator, "work"), "0+1+1 ");
    assert!(simulator.pods.get(&first.0, &first.1).is_none());
    // So does one whose node is gone.
    simulator.nodes.remove(&(String::new(), "n0".to_owned()));
    simulator.add_node("n1");
    simulator.settle(10);
    assert_eq!(state(&simulator, "work"), "0+2+1 ");
    assert_settled_pods(&simulator);
}

/// Every pod but those that run is released.
fn assert_settled_pods(simulator: &Simulator) {
    assert_eq!(simulator.pods.all().len(), 1);
}

#[test]
fn a_deadline_ends_what_runs() {
    let mut simulator = Simulator::new(1);
    let spec = json!({"activeDeadlineSeconds": 10, "parallelism": 2, "completions": 2});
    simulator.apply(job("run", &spec));
    simulator.settle(8);
    assert_eq!(state(&simulator, "work"), "0+0+2 ");
    simulator.settle(10);
    assert_eq!(state(&simulator, "work"), "0+2+0 FailureTarget,Failed");
    assert_eq!(reason(&simulator), "DeadlineExceeded");
    assert!(simulator.pods.all().is_empty());
}

#[test]
fn a_job_is_suspended_and_resumed() {
    let mut simulator = Simulator::new(1);
    simulator.apply(job("run", &json!({"suspend": true})));
    simulator.settle(3);
    assert_eq!(state(&simulator, "work"), "0+0+0 Suspended");
    simulator.apply(job("run", &json!({"suspend": false})));
    simulator.settle(5);
    assert_eq!(state(&simulator, "work"), "0+0+1 ");
    simulator.apply(job("run", &json!({"suspend": true})));
    simulator.settle(10);
    assert!(simulator.pods.all().is_empty());
    let status = simulator
        .jobs
        .get("ns", "work")
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(status.start_time, None);
    let reasons: Vec<&str> = simulator
        .events
        .iter()
        .map(|(reason, _)| reason.as_str())
        .collect();
    for it in ["Suspended", "Resumed"] {
        assert!(reasons.contains(&it), "{it}");
    }
}

#[test]
fn a_finished_job_goes_after_its_time() {
    let mut simulator = Simulator::new(1);
    simulator.apply(job("succeed", &json!({"ttlSecondsAfterFinished": 20})));
    simulator.settle(15);
    assert!(state(&simulator, "work").ends_with("Complete"));
    simulator.settle(30);
    assert!(simulator.jobs.all().is_empty() && simulator.pods.all().is_empty());
}

#[test]
fn each_index_succeeds_once() {
    let mut simulator = Simulator::new(1);
    simulator.refusals = 3;
    let spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 3});
    simulator.apply(job("succeed", &spec));
    simulator.settle(40);
    assert_eq!(
        state(&simulator, "work"),
        "4+0+0 SuccessCriteriaMet,Complete"
    );
    let status = simulator
        .jobs
        .get("ns", "work")
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-3"));
    let pods = simulator.pods.all();
    let hosts = pods
        .iter()
        .map(|it| it.spec.as_ref().unwrap().hostname.clone().unwrap());
    let mut hosts: Vec<String> = hosts.collect();
    hosts.sort();
    assert_eq!(hosts, ["work-0", "work-1", "work-2", "work-3"]);
    assert!(
        pods[0]
            .metadata
            .name
            .as_ref()
            .unwrap()
            .starts_with("work-0-")
    );
}

#[test]
fn wrong_jobs_are_refused() {
    let check = |spec: &Value, expected: &str| {
        let mut simulator = Simulator::new(0);
        let problems = simulator.apply(job("run", spec)).join("; ");
        assert!(problems.contains(expected), "{problems}: {expected}");
    };
    for (restarts, expected) in [
        (
            json!("Always"),
            "Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            json!(null),
            "Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            json!("Once"),
            "Unsupported value: \"Once\": supported values: \"OnFailure\", \"Never\"",
        ),
    ] {
        let spec = json!({"template": {"spec": {"restartPolicy": restarts}}});
        check(
            &spec,
            &format!("spec.template.spec.restartPolicy: {expected}"),
        );
    }
    check(&json!({"completions": -1}), "spec.completions");
    check(&json!({"parallelism": -1}), "spec.parallelism");
    check(
        &json!({"completionMode": "Indexed", "parallelism": 2}),
        "spec.completions: Required value",
    );
    check(&json!({"completionMode": "Other"}), "spec.completionMode");
    check(&json!({"manualSelector": true}), "spec.selector");
    let old = {
        let mut simulator = Simulator::new(0);
        simulator.apply(job("run", &json!({})));
        simulator.jobs.get("ns", "work").unwrap().clone()
    };
    let mut new = Job::clone(&old);
    new.spec.as_mut().unwrap().completions = Some(9);
    let problems = validate_job(&new, Some(&old));
    assert_eq!(problems[0].field, "spec.completions");
    let mut scaled = Job::clone(&old);
    scaled.spec.as_mut().unwrap().parallelism = Some(9);
    assert_eq!(validate_job(&scaled, Some(&old)), []);
}

/// What of its template may change while a Job is suspended, and in which states.
#[test]
fn a_suspended_job_may_run_elsewhere() {
    let with = |spec: Value, status: Value| -> Job {
        let mut object = serde_json::to_value(job("run", &spec)).unwrap();
        object["status"] = status;
        serde_json::from_value(object).unwrap()
    };
    let pods = |fields: Value| json!({"suspend": true, "template": {"spec": fields}});
    let node =
        pods(json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}));
    let affinity = pods(json!({"affinity": {"nodeAffinity": {}}}));
    let limits = pods(
        json!({"containers": [{"name": "main", "image": "image", "resources": {"limits": {"cpu": "1"}}}]}),
    );
    let user = pods(json!({"serviceAccountName": "other"}));
    let stopped = json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]});
    let stopping = json!({"active": 1, "conditions": stopped["conditions"]});
    let base = pods(json!({"containers": [{"name": "main", "image": "image"}]}));
    for (status, change, expect) in [
        (json!({}), &node, ""),
        (json!({}), &affinity, ""),
        (json!({}), &limits, ""),
        (json!({}), &user, "spec.template.spec"),
        (stopped.clone(), &limits, ""),
        (
            json!({"startTime": stopped["startTime"]}),
            &node,
            "spec.template",
        ),
        (stopping, &node, "spec.template"),
    ] {
        let old = with(base.clone(), status.clone());
        let mut spec = base.clone();
        super::manifests::merge(&mut spec, change);
        let problems = validate_job(&with(spec, status), Some(&old));
        let fields: Vec<_> = problems.iter().map(|it| it.field.as_str()).collect();
        let fields: Vec<_> = fields
            .into_iter()
            .filter(|it| it.starts_with("spec.template"))
            .collect();
        assert_eq!(fields.join(" "), expect, "{change}");
    }
    let running = with(json!({}), json!({}));
    let problems = validate_job(&with(node, json!({})), Some(&running));
    assert!(
        problems.iter().any(|it| it.field == "spec.template"),
        "{problems:?}"
    );
}

fn cron_job(how: &str, spec: &Value) -> CronJob {
    let mut object = json!({
        "metadata": {"name": "tick", "namespace": "ns"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template(how)}}},
    });
    super::manifests::merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

/// The minutes since the start for which there are Jobs, with `!` where they run.
fn minutes(simulator: &Simulator) -> Vec<String> {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let jobs = simulator.jobs.all();
    let texts = jobs.iter().map(|it| {
        let name = it.metadata.name.clone().unwrap();
        let minute: i64 = name.strip_prefix("tick-").unwrap().parse().unwrap();
        let status = it.status.clone().unwrap_or_default();
        let runs = if status.completion_time.is_none() {
            "!"
        } else {
            ""
        };
        format!("{}{runs}", minute - start.as_second() / 60)
    });
    texts.collect()
}

#[test]
fn a_cron_job_runs_each_minute_and_keeps_few() {
    for refusals in [0, 3] {
        let mut simulator = Simulator::new(1);
        simulator.refusals = refusals;
        let spec = json!({"successfulJobsHistoryLimit": 2});
        assert_eq!(simulator.apply(cron_job("succeed", &spec)), [""; 0]);
        simulator.settle(30);
        assert_eq!(minutes(&simulator), [""; 0]);
        simulator.settle(31);
        assert_eq!(minutes(&simulator), ["1!"]);
        simulator.settle(240);
        assert_eq!(minutes(&simulator), ["3", "4", "5!"]);
        simulator.settle(30);
        assert_eq!(minutes(&simulator), ["4", "5"]);
        let status = simulator
            .cron_jobs
            .get("ns", "tick")
            .unwrap()
            .status
            .clone()
            .unwrap();
        assert_eq!(status.active, None);
        assert!(status.last_successful_time.is_some());
        let last = status.last_schedule_time.unwrap().0.to_string();
        assert_eq!(last, "2026-01-01T00:05:00Z");
    }
}

#[test]
fn concurrency_is_allowed_forbidden_or_a_replacement() {
    for (policy, expected) in [
        ("Allow", vec!["1!", "2!", "3!"]),
        ("Forbid", vec!["1!"]),
        ("Replace", vec!["3!"]),
    ] {
        let mut simulator = Simulator::new(1);
        simulator.apply(cron_job("run", &json!({"concurrencyPolicy": policy})));
        simulator.settle(200);
        assert_eq!(minutes(&simulator), expected, "{policy}");
    }
}

#[test]
fn missed_times_are_made_up_for_once_and_not_too_late() {
    for (spec, expected) in [
        (json!({}), vec!["10!"]),
        (json!({"startingDeadlineSeconds": 20}), vec![]),
        (json!({"startingDeadlineSeconds": 200}), vec!["10!"]),
        (json!({"suspend": true}), vec![]),
    ] {
        let mut simulator = Simulator::new(1);
        simulator.apply(cron_job("run", &spec));
        simulator.rest();
        // Nobody looks for ten minutes and a half.
        simulator.now += SignedDuration::from_secs(630);
        simulator.rest();
        assert_eq!(minutes(&simulator), expected, "{spec}");
    }
}

#[test]
fn wrong_cron_jobs_are_refused() {
    let check = |spec: &Value, expected: &str| {
        let problems = Simulator::new(0).apply(cron_job("run", spec));
        let found = problems.join("; ");
        if expected.is_empty() {
            assert_eq!(found, "");
        }
        assert!(found.contains(expected), "{found}: {expected}");
    };
    check(&json!({}), "");
    check(&json!({"timeZone": "Europe/Berlin"}), "");
    check(&json!({"schedule": ""}), "spec.schedule: Required value");
    check(
        &json!({"schedule": "* * *"}),
        "spec.schedule: Invalid value: \"* * *\": expected exactly 5 fields",
    );
    check(
        &json!({"schedule": "TZ=UTC * * * * *"}),
        "cannot use TZ or CRON_TZ in schedule",
    );
    check(
        &json!({"timeZone": "Mars/North"}),
        "spec.timeZone: Invalid value: \"Mars/North\": unknown time zone Mars/North",
    );
    check(
        &json!({"concurrencyPolicy": "Never"}),
        "spec.concurrencyPolicy",
    );
    check(
        &json!({"startingDeadlineSeconds": -1}),
        "spec.startingDeadlineSeconds",
    );
    check(
        &json!({"successfulJobsHistoryLimit": -1}),
        "spec.successfulJobsHistoryLimit",
    );
    let always =
        json!({"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}});
    check(&always, "spec.jobTemplate.spec.template.spec.restartPolicy");
}

/// What each policy makes of pods that all end in one way.
#[test]
fn policies_decide_what_failures_and_successes_mean() {
    let indexed = |more: &Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
        super::manifests::merge(&mut spec, more);
        spec
    };
    let rule = |action: &str, code: i32| {
        let codes = json!({"operator": "In", "values": [code]});
        json!({"podFailurePolicy": {"rules": [{"action": action, "onExitCodes": codes}]}})
    };
    let limited = |more: Value| {
        let mut spec = indexed(&json!({"backoffLimitPerIndex": 1}));
        super::manifests::merge(&mut spec, &more);
        spec
    };
    let failed = "FailureTarget,Failed";
    let met = "SuccessCriteriaMet,Complete";
    for (how, spec, state_then, reason_then, indexes) in [
        (
            "fail",
            rule("FailJob", 1),
            format!("0+1+0 {failed}"),
            "PodFailurePolicy",
            Value::Null,
        ),
        (
            "fail",
            limited(json!({})),
            format!("0+6+0 {failed}"),
            "FailedIndexes",
            json!("0-2"),
        ),
        (
            "fail",
            limited(json!({"maxFailedIndexes": 0})),
            format!("0+6+0 {failed}"),
            "MaxFailedIndexesExceeded",
            json!("0-2"),
        ),
        (
            "fail",
            limited(rule("FailIndex", 1)),
            format!("0+3+0 {failed}"),
            "FailedIndexes",
            json!("0-2"),
        ),
        (
            "succeed",
            indexed(&json!({"parallelism": 1, "successPolicy": {"rules": [
                {"succeededIndexes": "2"}, {"succeededIndexes": "0-1", "succeededCount": 1},
            ]}})),
            format!("1+0+0 {met}"),
            "SuccessPolicy",
            Value::Null,
        ),
    ] {
        let mut simulator = Simulator::new(1);
        assert_eq!(simulator.apply(job(how, &spec)), [""; 0], "{spec}");
        simulator.settle(60);
        assert_eq!(state(&simulator, "work"), state_then, "{spec}");
        assert_eq!(reason(&simulator), reason_then, "{spec}");
        let status = simulator.jobs.get("ns", "work").unwrap().status.clone();
        assert_eq!(json!(status.unwrap().failed_indexes), indexes, "{spec}");
        assert_settled(&simulator);
    }
    // What is ignored is tried again and again.
    let mut simulator = Simulator::new(1);
    let mut spec = rule("Ignore", 1);
    spec["backoffLimit"] = 0.into();
    simulator.apply(job("fail", &spec));
    simulator.settle(20);
    assert!(simulator.pods.all().len() > 1);
    assert!(!state(&simulator, "work").contains("Fail"));
}

#[test]
fn policies_that_cannot_work_are_refused() {
    for (spec, field) in [
        (
            json!({"backoffLimitPerIndex": 1}),
            "spec.backoffLimitPerIndex",
        ),
        (
            json!({"successPolicy": {"rules": [{"succeededCount": 1}]}}),
            "spec.successPolicy",
        ),
        (
            json!({"completionMode": "Indexed", "completions": 1, "maxFailedIndexes": 1}),
            "spec.backoffLimitPerIndex",
        ),
        (
            json!({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onPodConditions": []}]}}),
            "spec.podFailurePolicy.rules[0].action",
        ),
    ] {
        let refused = Simulator::new(1).apply(job("run", &spec));
        assert!(refused[0].starts_with(field), "{refused:?}");
    }
}
