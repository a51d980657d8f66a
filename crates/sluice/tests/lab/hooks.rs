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
