//! Jobs and CronJobs.

use crate::lab::{Lab, text};

fn job(name: &str, command: &str, spec: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n  template:\n    \
         metadata: {{annotations: {{sluice.dev/command: '{command}'}}}}\n    \
         spec: {{restartPolicy: Never, containers: [{{name: c, image: any}}]}}\n---\n"
    )
}

#[test]
fn jobs_run_to_their_end() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let cron = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick}\nspec:\n  schedule: \"@every 2s\"\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: any}]}}}}\n---\n";
    let output = lab.apply(
        &[
            job(
                "count",
                "echo $JOB_COMPLETION_INDEX",
                "completions: 3\n  parallelism: 3\n  completionMode: Indexed",
            ),
            job("fails", "exit 3", "backoffLimit: 1"),
            job("short", "exit 0", "ttlSecondsAfterFinished: 0"),
            job("stays", "exec sleep 1000", "backoffLimit: 0"),
            cron.to_owned(),
        ]
        .concat(),
    );
    assert!(output.status.success(), "{output:?}");
    let condition = |name: &str, type_: &str| {
        lab.until(&format!("{name} {type_}"), || {
            let job = lab.json(&["job", name]);
            let conditions = job["status"]["conditions"].as_array()?;
            conditions.iter().find(|it| it["type"] == *type_).cloned()
        })
    };
    condition("count", "Complete");
    let status = lab.json(&["job", "count"])["status"].take();
    assert_eq!(
        (&status["succeeded"], &status["completedIndexes"]),
        (&3.into(), &"0-2".into())
    );
    let pods = lab.items(&["pods", "-l", "job-name=count"]);
    let mut said: Vec<String> = pods
        .iter()
        .map(|it| lab.good(&["logs", it["metadata"]["name"].as_str().unwrap()]))
        .collect();
    said.sort();
    assert_eq!(said, ["0\n", "1\n", "2\n"]);
    let failed = condition("fails", "Failed");
    assert_eq!(failed["reason"], "BackoffLimitExceeded");
    lab.until("a job that goes by itself", || {
        (!lab.run(&["get", "job", "short"]).status.success()).then_some(())
    });
    // A pod that is deleted while it runs is a failure.
    let pod = lab.until("its pod", || {
        let pods = lab.items(&["pods", "-l", "job-name=stays"]);
        let pod = pods
            .first()
            .filter(|it| it["status"]["phase"] == "Running")?;
        pod["metadata"]["name"].as_str().map(str::to_owned)
    });
    lab.good(&["delete", "pod", &pod, "--grace-period", "1"]);
    condition("stays", "Failed");
    lab.until("the end of the pod", || {
        (!lab.run(&["get", "pod", &pod]).status.success()).then_some(())
    });
    lab.until("a job of the cron job", || {
        let cron = lab.json(&["cronjob", "tick"]);
        cron["status"]["lastSuccessfulTime"]
            .is_string()
            .then_some(())
    });
    // The pods go with their jobs.
    lab.good(&["delete", "job", "count", "fails"]);
    lab.good(&["delete", "cronjob", "tick"]);
    lab.until("no pod", || lab.items(&["pods"]).is_empty().then_some(()));
    let wrong = cron
        .replace("@every 2s", "* * *")
        .replace("spec:\n", "spec:\n  timeZone: Mars/North\n");
    let said = text(&lab.apply(&wrong).stderr);
    assert!(
        said.contains("spec.schedule") && said.contains("unknown time zone Mars/North"),
        "{said}"
    );
}
