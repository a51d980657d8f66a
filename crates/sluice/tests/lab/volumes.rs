//! Volumes, variables and init containers.

use std::path::Path;

use serde_json::Value;

use crate::lab::{Lab, text};

const OBJECTS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {index.html: one, other: two}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
data: {password: c2VjcmV0}
---
";

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {sluice.dev/command: exec sleep 1000, sluice.dev/command.second: exec sleep 1000}
spec:
  containers:
  - name: c
    image: any
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: key, key: password}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    envFrom: [{configMapRef: {name: conf}}]
    volumeMounts:
    - {name: conf, mountPath: /no-such-folder/of/this/machine}
    - {name: conf, mountPath: /etc/sluice-test/conf.d/index.html, subPath: index.html}
    - {name: all, mountPath: /etc/sluice-test/all}
    - {name: shared, mountPath: /data}
    - {name: conf, mountPath: /data/conf}
  - name: second
    image: any
    volumeMounts: [{name: shared, mountPath: /tmp/shared, readOnly: true}]
  volumes:
  - {name: conf, configMap: {name: conf}}
  - {name: shared, emptyDir: {}}
  - name: all
    projected:
      sources:
      - secret: {name: key, items: [{key: password, path: deep/password, mode: 0400}]}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
"#;

#[test]
fn volumes_are_files_in_the_container_and_nothing_on_the_machine() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    // The pod waits for its objects.
    let wrong = lab.apply(&POD.replace("{name: all, mountPath", "{name: none, mountPath"));
    let said = text(&wrong.stderr);
    assert!(
        said.contains("spec.containers[0].volumeMounts[2].name: Not found: \"none\""),
        "{said}"
    );
    assert!(lab.apply(POD).status.success());
    event(&lab, "configmap \"conf\" not found");
    assert_eq!(lab.json(&["pod", "web"])["status"]["phase"], "Pending");
    assert!(lab.apply(OBJECTS).status.success());
    lab.until("the pod", || {
        (lab.json(&["pod", "web"])["status"]["phase"] == "Running").then_some(())
    });
    let sh = |script: &str| text(&lab.run(&["exec", "web", "--", "sh", "-c", script]).stdout);
    for (script, expected) in [
        ("cat /no-such-folder/of/this/machine/index.html", "one"),
        ("cat /etc/sluice-test/conf.d/index.html", "one"),
        ("cat /etc/sluice-test/all/deep/password", "secret"),
        ("stat -L -c %a /etc/sluice-test/all/deep/password", "400\n"),
        ("cat /etc/sluice-test/all/labels", "app=\"web\""),
        ("cat /data/conf/other", "two"),
        ("echo $PASSWORD $other", "secret two\n"),
        ("echo x > /data/conf/other || echo refused", "refused\n"),
        // The rest of the machine is there.
        (
            "test -s /etc/passwd && test -d /proc/1 && echo there",
            "there\n",
        ),
        ("echo shared > /data/file; ls /data", "conf\nfile\n"),
    ] {
        assert_eq!(sh(script), expected, "{script}");
    }
    assert!(sh("echo $IP").starts_with("10.244.0."));
    for it in ["/no-such-folder", "/etc/sluice-test", "/data/conf"] {
        assert!(!Path::new(it).exists(), "{it}");
    }
    // A change follows, but for a subPath.
    assert!(lab.apply(&OBJECTS.replace("one", "three")).status.success());
    lab.until("the new text", || {
        (sh("cat /no-such-folder/of/this/machine/index.html") == "three").then_some(())
    });
    assert_eq!(sh("cat /etc/sluice-test/conf.d/index.html"), "one");
    lab.good(&["delete", "pod", "web", "--grace-period", "0"]);
}

#[test]
fn init_containers_run_one_after_the_other() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let wait = "echo first >> /data/log; until test -e /data/go; do sleep 0.1; done";
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    sluice.dev/command.first: '{wait}'\n    \
         sluice.dev/command.side: 'echo side >> /data/log; exec sleep 1000'\n    \
         sluice.dev/command.last: 'cat /data/log; echo done; exit 0'\n\
         spec:\n  restartPolicy: Never\n  initContainers:\n  - {{name: first, image: any, volumeMounts: [{{name: d, mountPath: /data}}]}}\n  \
         - {{name: side, image: any, restartPolicy: Always, volumeMounts: [{{name: d, mountPath: /data}}]}}\n  \
         - {{name: nothing, image: any}}\n  \
         containers: [{{name: last, image: any, volumeMounts: [{{name: d, mountPath: /data}}]}}]\n  volumes: [{{name: d, emptyDir: {{}}}}]\n"
    );
    let output = lab.apply(&pod);
    assert!(output.status.success(), "{output:?}");
    lab.until("the first one", || {
        lab.good(&["get", "pods"])
            .contains("Init:0/3")
            .then_some(())
    });
    let status = lab.json(&["pod", "p"])["status"].take();
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    let conditions = status["conditions"].as_array().unwrap();
    let initialized = conditions
        .iter()
        .find(|it| it["type"] == "Initialized")
        .unwrap();
    assert_eq!(
        initialized["message"],
        "containers with incomplete status: [first side nothing]"
    );
    let uid = lab.json(&["pod", "p"])["metadata"]["uid"].take();
    let folder = lab.dir().join("pods").join(uid.as_str().unwrap());
    std::fs::write(folder.join("volumes/d/go"), "").unwrap();
    lab.until("its end", || {
        (lab.json(&["pod", "p"])["status"]["phase"] == "Succeeded").then_some(())
    });
    assert_eq!(lab.good(&["logs", "p"]), "first\nside\ndone\n");
    lab.until("the end of the sidecar", || {
        let status = lab.json(&["pod", "p"])["status"].take();
        let all = status["initContainerStatuses"].as_array()?;
        all.iter()
            .all(|it| it["state"]["terminated"].is_object())
            .then_some(())
    });
    failures(&lab);
}

/// What is missing or fails, in kubelet's words.
fn failures(lab: &Lab) {
    let pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad, annotations: {sluice.dev/command.first: exit 3}}\n\
        spec: {restartPolicy: Never, initContainers: [{name: first, image: any}], containers: [{name: c, image: any}]}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {name: poor}\n\
        spec: {containers: [{name: c, image: any, env: [{name: A, valueFrom: {configMapKeyRef: {name: conf, key: none}}}]}]}\n---\n";
    assert!(lab.apply(&format!("{pods}{OBJECTS}")).status.success());
    lab.until("the failure", || {
        let table = lab.good(&["get", "pods"]);
        (table.contains("Init:Error") && table.contains("CreateContainerConfigError")).then_some(())
    });
    lab.until("the phase", || {
        (lab.json(&["pod", "bad"])["status"]["phase"] == "Failed").then_some(())
    });
    let waiting = &lab.json(&["pod", "poor"])["status"]["containerStatuses"][0]["state"];
    assert_eq!(
        waiting["waiting"]["message"],
        "couldn't find key none in ConfigMap default/conf"
    );
    event(
        lab,
        "Error: couldn't find key none in ConfigMap default/conf",
    );
    assert!(
        lab.apply(&OBJECTS.replace("other:", "none:"))
            .status
            .success()
    );
    lab.until("the pod", || {
        (lab.json(&["pod", "poor"])["status"]["phase"] == "Running").then_some(())
    });
}

fn event(lab: &Lab, words: &str) {
    lab.until(words, || {
        let events = lab.items(&["events"]);
        let says = |it: &Value| it["message"].as_str().is_some_and(|it| it.contains(words));
        events.iter().any(says).then_some(())
    });
}
