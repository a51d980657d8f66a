//! Hooks of containers.

use std::fs;

use crate::lab::Lab;

#[test]
fn a_hook_comes_before_sigterm_and_both_within_the_grace_period() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let folder = lab.files.path().join("seen");
    fs::create_dir(&folder).unwrap();
    let serves = "trap 'echo term >> /seen/$0; exit' TERM; while :; do sleep 0.05; done";
    let pod = |name: &str, grace: u64, hook: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: {grace}\n  \
             containers:\n  - name: c\n    image: any\n    command: [sh, -c, \"{serves}\", {name}]\n    \
             lifecycle: {{preStop: {hook}}}\n    volumeMounts: [{{name: v, mountPath: /seen}}]\n  \
             volumes: [{{name: v, hostPath: {{path: {}}}}}]\n---\n",
            folder.display()
        )
    };
    let writes = |name: &str, more: &str| {
        format!("{{exec: {{command: [sh, -c, 'echo hook >> /seen/{name}{more}']}}}}")
    };
    let pods = [
        pod("exec", 30, &writes("exec", "")),
        pod("sleep", 30, "{sleep: {seconds: 1}}"),
        pod("fails", 30, "{exec: {command: ['false']}}"),
        // It takes longer than the pod has.
        pod("slow", 1, &writes("slow", "; sleep 1000")),
    ];
    assert!(lab.apply(&pods.concat()).status.success());
    let names = ["exec", "sleep", "fails", "slow"];
    for name in names {
        lab.until(name, || {
            let ready = &lab.json(&["pod", name])["status"]["containerStatuses"][0]["ready"];
            (ready == true).then_some(())
        });
    }
    lab.good(&[&["delete", "pod"], &names[..]].concat());
    lab.until("the pods are gone", || {
        lab.items(&["pods"]).is_empty().then_some(())
    });
    let [exec, sleep, fails, slow] =
        names.map(|it| fs::read_to_string(folder.join(it)).unwrap_or_default());
    assert_eq!([exec, sleep, fails], ["hook\nterm\n", "term\n", "term\n"]);
    assert!(slow.starts_with("hook\n"), "{slow}");
    let events = lab.items(&["events"]);
    assert!(
        events.iter().any(|it| it["reason"] == "FailedPreStopHook"),
        "{events:?}"
    );
}

const DEAF: &str = "
apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: side
    image: any
    restartPolicy: Always
    command: [sh, -c, 'trap \"\" TERM; touch /tmp/deaf; while :; do sleep 0.05; done']
    startupProbe: {exec: {command: [test, -e, /tmp/deaf]}}
  containers:
  - {name: c, image: any, command: ['true']}
";

#[test]
fn a_sidecar_has_the_grace_period_once_its_pod_has_done_its_work() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    assert!(lab.apply(DEAF).status.success());
    let status = lab.until("the pod has ended", || {
        let status = lab.json(&["pod", "deaf"])["status"].clone();
        (status["phase"] == "Succeeded").then_some(status)
    });
    let side = &status["initContainerStatuses"][0]["state"]["terminated"];
    assert_eq!(side["exitCode"], 137, "{status}");
}

const FADES: &str = "
apiVersion: v1
kind: Pod
metadata: {name: fades}
spec:
  terminationGracePeriodSeconds: 1000
  containers:
  - name: c
    image: any
    command: [sh, -c, 'touch /tmp/ready; trap \"rm /tmp/ready\" TERM; while :; do sleep 0.05; done']
    readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, failureThreshold: 1}
";

#[test]
fn a_pod_that_ends_may_become_unready_and_is_not_started_again() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    assert!(lab.apply(FADES).status.success());
    let is_ready = |expect: bool| {
        lab.until(&format!("the pod is ready: {expect}"), || {
            let status = &lab.json(&["pod", "fades"])["status"]["containerStatuses"][0];
            (status["ready"] == expect && status["restartCount"] == 0).then_some(())
        });
    };
    is_ready(true);
    lab.good(&["delete", "pod", "fades"]);
    is_ready(false);
}

#[test]
fn a_container_runs_when_its_first_hook_is_done_and_is_started_again_when_it_fails() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let folder = lab.files.path().join("seen");
    fs::create_dir(&folder).unwrap();
    let pod = |name: &str, hook: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: first\n    \
             image: any\n    command: [sh, -c, 'trap \"touch /seen/term; exit\" TERM; while :; do sleep 0.05; done']\n    \
             lifecycle: {{postStart: {{exec: {{command: [sh, -c, '{hook}']}}}}, \
             preStop: {{exec: {{command: [touch, /seen/{name}-stop]}}}}}}\n    \
             volumeMounts: [{{name: v, mountPath: /seen}}]\n  - {{name: second, image: any, command: [sleep, '1000']}}\n  \
             volumes: [{{name: v, hostPath: {{path: {}}}}}]\n---\n",
            folder.display()
        )
    };
    let waits = "touch /seen/begun; while ! test -e /seen/go; do sleep 0.05; done";
    assert!(
        lab.apply(&[pod("waits", waits), pod("fails", "exit 3")].concat())
            .status
            .success()
    );
    lab.until("the hook runs", || {
        folder.join("begun").exists().then_some(())
    });
    let first = |name: &str| lab.json(&["pod", name])["status"].clone();
    let status = lab.until("the pod has a status", || {
        let status = first("waits");
        status["containerStatuses"].is_array().then_some(status)
    });
    assert_eq!(status["phase"], "Pending");
    for container in status["containerStatuses"].as_array().unwrap() {
        let reason = &container["state"]["waiting"]["reason"];
        assert_eq!(reason, "ContainerCreating", "{status}");
    }
    fs::write(folder.join("go"), "").unwrap();
    lab.until("both containers run", || {
        let status = first("waits");
        let all = status["containerStatuses"].as_array()?.clone();
        all.iter().all(|it| it["ready"] == true).then_some(())
    });
    lab.until("the other one is started again and again", || {
        let restarts = first("fails")["containerStatuses"][0]["restartCount"].as_i64();
        (restarts >= Some(2)).then_some(())
    });
    // It ends as any container does that is to end.
    assert!(folder.join("fails-stop").exists() && folder.join("term").exists());
    let events = lab.items(&["events"]);
    let found = |reason: &str, message: &str| {
        let is_it = |it: &serde_json::Value| {
            it["reason"] == reason && it["message"].as_str().unwrap().starts_with(message)
        };
        events.iter().any(is_it)
    };
    assert!(
        found("FailedPostStartHook", "PostStartHook failed")
            && found("Killing", "FailedPostStartHook"),
        "{events:?}"
    );
}
