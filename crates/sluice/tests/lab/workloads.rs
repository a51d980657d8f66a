//! Workloads on their nodes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, text};

#[test]
fn every_kind_of_workload_runs() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "2"]);
    let template = "selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: c, image: any, ports: [{containerPort: 8080}]}]}}";
    let of = |name: &str| template.replace("NAME", name);
    let output = lab.apply(&format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db}}\nspec: {{serviceName: db, replicas: 2, {}}}\n---\n\
         apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: agent}}\nspec: {{{}}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: own, annotations: {{sluice.dev/command: 'echo from the shell; exec sleep 1000'}}}}\nspec: {{containers: [{{name: c, image: any}}]}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{name: agent}}\nspec: {{type: LoadBalancer, selector: {{app: agent}}, ports: [{{port: 80, targetPort: 8080}}]}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{name: other}}\nspec: {{type: ExternalName, externalName: example.com}}\n",
        of("db"),
        of("agent")
    ));
    assert!(output.status.success(), "{output:?}");
    for workload in ["statefulset/db", "daemonset/agent"] {
        lab.good(&["rollout", "status", workload]);
    }
    let names: Vec<String> = lab
        .items(&["pods", "-l", "app=db"])
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["db-0", "db-1"]);
    assert_eq!(lab.items(&["pods", "-l", "app=agent"]).len(), 2);
    lab.until("its log", || {
        let output = lab.run(&["logs", "own"]);
        text(&output.stdout)
            .contains("from the shell")
            .then_some(())
    });
    assert_eq!(lab.good(&["exec", "own", "--", "hostname"]), "own\n");
    logs_end(&lab);
    grace_is_shortened(&lab);
    lab.spread("db-0", "svc/agent", 2);
    // Through the address of the load balancer.
    lab.spread("client", "svc/agent", 2);
    let said = lab.bad(&["probe", "client", "svc/other"]);
    assert!(said.contains("example.com"), "{said}");
    let said = lab.bad(&["rollout", "status", "svc/agent"]);
    assert!(said.contains("services have no rollout"), "{said}");
    // Draining moves what can move.
    lab.good(&["drain", "node-a"]);
    lab.until("db on node-b", || {
        let pods = lab.items(&["pods", "-l", "app=db"]);
        let moved = pods
            .iter()
            .all(|it| it["spec"]["nodeName"] == "node-b" && it["status"]["phase"] == "Running");
        (pods.len() == 2 && moved).then_some(())
    });
    lab.good(&["uncordon", "node-a"]);
    let described = lab.good(&["describe", "service", "agent"]);
    for it in ["clusterIP: ", "ADDRESSTYPE", "agent-", "no events"] {
        assert!(described.contains(it), "{it}: {described}");
    }
    assert!(!described.contains("db-0"), "{described}");
    let database = lab.good(&["describe", "statefulset", "db"]);
    assert!(database.contains("db-1   1/1"), "{database}");
    let node = text(&lab.run(&["describe", "node", "node-b"]).stdout);
    let mut lines = node.lines().map(|it| it.split_whitespace());
    let is_agent = |mut it: std::str::SplitWhitespace<'_>| {
        it.next() == Some("default") && it.next().is_some_and(|it| it.starts_with("agent-"))
    };
    assert!(lines.any(is_agent), "{node}");
    let table = lab.good(&["get", "nodes"]);
    assert!(!table.contains("SchedulingDisabled"), "{table}");
    nothing_is_written_at_rest(&lab);
    lab.good(&["delete", "statefulset", "db", "--grace-period", "0"]);
    lab.until("its pods are gone", || {
        lab.items(&["pods", "-l", "app=db"])
            .is_empty()
            .then_some(())
    });
}

/// Controllers and kubelets write what differs, and nothing else.
fn nothing_is_written_at_rest(lab: &Lab) {
    let revision = || lab.json(&["pods"])["metadata"]["resourceVersion"].clone();
    let (mut last, mut since) = (revision(), Instant::now());
    lab.until("two seconds without a write", || {
        let now = revision();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_secs(2)).then_some(())
    });
}

fn command_pod(name: &str, command: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{sluice.dev/command: '{command}'}}}}\n\
         spec: {{{spec} containers: [{{name: c, image: any}}]}}\n---\n"
    )
}

fn logs_end(lab: &Lab) {
    // 22 MB of lines, and one that ends when it is told to.
    let loud = command_pod("loud", "seq 3000000; exec sleep 1000", "");
    let command = "echo one; until test -e /tmp/end; do sleep 0.1; done; echo two";
    let brief = command_pod("brief", command, "restartPolicy: Never,");
    let output = lab.apply(&(loud + &brief));
    assert!(output.status.success(), "{output:?}");
    let has = |pod: &str, words: &str| {
        lab.until(words, || {
            let output = lab.run(&["logs", pod, "--tail", "1"]);
            text(&output.stdout).contains(words).then_some(())
        });
    };
    has("brief", "one");
    let mut follow = lab.command(&["logs", "brief", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut followed = BufReader::new(follow.stdout.take().unwrap());
    let mut lines = String::new();
    followed.read_line(&mut lines).unwrap();
    lab.good(&["exec", "brief", "--", "touch", "/tmp/end"]);
    followed.read_to_string(&mut lines).unwrap();
    assert_eq!(lines, "one\ntwo\n");
    assert!(follow.wait().unwrap().success());
    has("loud", "3000000\n");
    lab.until("a short log", || {
        let kept = lab.good(&["logs", "loud"]);
        let numbers: Vec<u32> = kept.lines().map(|it| it.parse().unwrap()).collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&3_000_000));
        (kept.len() < 11_000_000).then_some(())
    });
    let said = lab.bad(&["logs", "loud", "--previous"]);
    assert!(said.contains("previous terminated container"), "{said}");
    lab.good(&["delete", "pod", "loud", "brief", "--grace-period", "0"]);
}

fn grace_is_shortened(lab: &Lab) {
    let command = "trap \"\" TERM; echo deaf; while :; do sleep 1; done";
    let pod = command_pod("deaf", command, "terminationGracePeriodSeconds: 600,");
    assert!(lab.apply(&pod).status.success());
    lab.until("it does not listen", || {
        let output = lab.run(&["logs", "deaf"]);
        text(&output.stdout).contains("deaf").then_some(())
    });
    lab.good(&["delete", "pod", "deaf"]);
    let pod = lab.json(&["pod", "deaf"]);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 600);
    lab.good(&["delete", "pod", "deaf", "--grace-period", "1"]);
    lab.until("its end", || {
        (!lab.run(&["get", "pod", "deaf"]).status.success()).then_some(())
    });
}

#[test]
fn readiness_and_liveness_probes_decide_about_a_pod() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let output = lab.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: probed, labels: {app: probed}}\n\
         spec:\n  containers:\n  - name: c\n    image: any\n    ports: [{containerPort: 8080}]\n    \
         readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, failureThreshold: 1}\n    \
         livenessProbe: {exec: {command: [test, '!', -e, /tmp/dead]}, periodSeconds: 1, failureThreshold: 1}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name: probed}\nspec: {selector: {app: probed}, ports: [{port: 80, targetPort: 8080}]}\n",
    );
    assert!(output.status.success(), "{output:?}");
    let ready = || {
        let slices = lab.items(&["endpointslices", "-l", "kubernetes.io/service-name=probed"]);
        slices
            .iter()
            .any(|it| it["endpoints"][0]["conditions"]["ready"] == true)
    };
    lab.until("it runs", || {
        (lab.json(&["pod", "probed"])["status"]["phase"] == "Running").then_some(())
    });
    assert!(!ready());
    lab.bad(&["probe", "client", "svc/probed", "-n", "1"]);
    lab.good(&["exec", "probed", "--", "touch", "/tmp/ready"]);
    lab.until("it is ready", || ready().then_some(()));
    lab.until("it is served", || {
        lab.run(&["probe", "node-a", "svc/probed", "-n", "1"])
            .status
            .success()
            .then_some(())
    });
    lab.good(&["exec", "probed", "--", "rm", "/tmp/ready"]);
    lab.until("it is not ready", || (!ready()).then_some(()));
    let events = text(&lab.run(&["get", "events"]).stdout);
    assert!(events.contains("Unhealthy"), "{events}");
    lab.good(&["exec", "probed", "--", "touch", "/tmp/dead"]);
    lab.until("it is started again", || {
        let pod = lab.json(&["pod", "probed"]);
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        (restarts.unwrap_or_default() > 0).then_some(())
    });
}

#[test]
fn a_node_without_power_loses_its_pods() {
    let Some(lab) = Lab::new() else { return };
    // All nodes are ready before the first pod, so that each gets one.
    lab.good(&["up", "--nodes", "3"]);
    let examples = format!("{}/../../docs/lab", env!("CARGO_MANIFEST_DIR"));
    lab.good(&["apply", "-f", &examples]);
    lab.good(&["rollout", "status", "deployment/web"]);
    lab.good(&["kill", "node-b"]);
    lab.until("it is not ready", || {
        let node = lab.json(&["node", "node-b"]);
        (node["status"]["conditions"][0]["status"] == "Unknown").then_some(())
    });
    lab.until("its pods are no endpoints", || {
        let slices = lab.items(&["endpointslices", "-l", "kubernetes.io/service-name=web"]);
        let mut endpoints = slices
            .iter()
            .flat_map(|it| it["endpoints"].as_array().unwrap());
        let on_it = |it: &Value| it["nodeName"] == "node-b" && it["conditions"]["ready"] == true;
        (!endpoints.any(on_it)).then_some(())
    });
    lab.until("the others serve", || {
        lab.run(&["probe", "node-a", "svc/web", "-n", "60"])
            .status
            .success()
            .then_some(())
    });
    lab.good(&["start", "node-b"]);
    lab.until("it is ready again", || {
        let node = lab.json(&["node", "node-b"]);
        (node["status"]["conditions"][0]["status"] == "True").then_some(())
    });
    lab.spread("node-b", "svc/web", 3);
}

#[test]
fn nodes_go_and_come_back_under_their_name() {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    lab.good(&["delete", "node", "node-b"]);
    lab.until("all pods on node-a", || {
        let pods = lab.items(&["pods"]);
        let on_a =
            |it: &Value| it["spec"]["nodeName"] == "node-a" && it["status"]["phase"] == "Running";
        (pods.len() == 3 && pods.iter().all(on_a)).then_some(())
    });
    lab.spread("client", "svc/web", 3);
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-b}\n";
    assert!(lab.apply(node).status.success());
    lab.until("it is ready", || {
        let node = lab.json(&["node", "node-b"]);
        (node["status"]["conditions"][0]["status"] == "True").then_some(())
    });
    lab.spread("node-b", "svc/web", 3);
    let client = "apiVersion: v1\nkind: Node\nmetadata: {name: client}\n";
    let refused = lab.apply(client);
    assert!(
        text(&refused.stderr).contains("metadata.name"),
        "{refused:?}"
    );
    // As strict as `kubectl apply --server-side`, in the same words.
    let before = lab.json(&["service", "web"]);
    let typo = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}], selectr: {a: b}}\n";
    let refused = text(&lab.apply(typo).stderr);
    let words = "failed to create typed patch object (default/web; /v1, Kind=Service): .spec.selectr: field not declared \
                 in schema";
    assert!(refused.contains(words), "{refused}");
    assert_eq!(lab.json(&["service", "web"]), before);
}

#[test]
fn nodes_can_be_without_agents() {
    let Some(lab) = Lab::up(&["--nodes", "1", "--agent", "none"]) else {
        return;
    };
    let node = lab.json(&["node", "node-a"]);
    assert_eq!(node["status"]["conditions"][0]["status"], "True");
    let rules = lab.good(&["exec", "node-a", "--", "nft", "list", "ruleset"]);
    assert!(!rules.contains("sluice"), "{rules}");
    let refused = lab.bad(&["exec", "node-a", "--", "sluice", "status"]);
    assert!(refused.contains("sluice.sock"), "{refused}");
}

#[test]
fn a_workload_whose_pod_name_is_taken_waits_and_others_go_on() {
    let Some(lab) = Lab::up(&["--nodes", "1"]) else {
        return;
    };
    let own = "apiVersion: v1\nkind: Pod\nmetadata: {name: db-0}\nspec: {containers: [{name: c, image: any}]}\n---\n\
        apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {serviceName: db, \
        selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, \
        spec: {containers: [{name: c, image: any}]}}}\n";
    assert!(lab.apply(own).status.success());
    lab.good(&["scale", "deployment/web", "--replicas", "5"]);
    lab.good(&["rollout", "status", "deployment/web"]);
    lab.spread("client", "svc/web", 5);
    lab.good(&["delete", "pod", "db-0", "--grace-period", "0"]);
    lab.good(&["rollout", "status", "statefulset/db"]);
}
