//! The real kubectl and `sluice proxy` against a lab's API.

use std::process::{Command, Output};

use crate::lab::{Lab, text};

/// Debian 12's `kubernetes-client`, which `make setup` fetches, and the one of this machine, if any.
pub(crate) fn programs() -> Vec<String> {
    let fetched = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/kubectl-bookworm/kubectl"
    );
    let runs = |it: &String| {
        let version = Command::new(it).args(["version", "--client"]).output();
        version.is_ok_and(|it| it.status.success())
    };
    let found = [fetched, "kubectl"].map(str::to_owned);
    let found: Vec<String> = found.into_iter().filter(runs).collect();
    if found.is_empty() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has kubectl: make setup fetches it"
        );
        eprintln!("SKIP: needs kubectl: make setup");
    }
    found
}

#[test]
fn kubectl_works_on_a_lab() {
    for program in programs() {
        works(&program);
    }
}

#[test]
fn the_chart_becomes_the_agent() {
    let here = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/deploy-tools/bin/helm"
    );
    let found = [here, "helm"].into_iter().find(|it| {
        let version = Command::new(it).arg("version").output();
        version.is_ok_and(|it| it.status.success())
    });
    let Some(helm) = found else {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has helm: make setup-deploy"
        );
        eprintln!("SKIP: needs helm: make setup-deploy");
        return;
    };
    let Some(lab) = Lab::up(&["--nodes", "2", "--agent", "none"]) else {
        return;
    };
    let config = lab.good(&["kubeconfig"]);
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm/sluice");
    let good = |words: &[&str]| -> String {
        let mut command = Command::new(helm);
        command
            .args(words)
            .args(["--kubeconfig", config.trim(), "-n", "kube-system"]);
        let output = command.env("HOME", lab.files.path()).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let pods = || text(&lab.run(&["get", "events", "-A"]).stdout);
        assert!(output.status.success(), "{words:?}: {out}{err}{}", pods());
        out
    };
    let host = "apiServer.host=192.168.100.2";
    let keep = "config.conntrack.maxPerCore=0";
    let flags = ["--set", host, "--set", keep, "--wait", "--timeout", "60s"];
    good(&[&["install", "sluice", chart], &flags[..]].concat());
    lab.spread("node-a", "svc/web", 3);
    lab.spread("node-b", "svc/web", 3);
    assert!(
        lab.good(&["exec", "node-b", "--", "sluice", "status"])
            .contains("nftables")
    );
    good(
        &[
            &["upgrade", "sluice", chart, "--set", "extraArgs={--v=2}"],
            &flags[..],
        ]
        .concat(),
    );
    assert!(good(&["history", "sluice"]).contains("superseded"));
    lab.spread("node-a", "svc/web", 3);
    good(&["uninstall", "sluice", "--wait"]);
    // The pods of the DaemonSet end after it.
    lab.until("no pods in kube-system", || {
        let pods = lab.items(&["pods", "-n", "kube-system"]);
        pods.is_empty().then_some(())
    });
}

fn works(program: &str) {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    let config = lab.good(&["kubeconfig"]);
    let run = |words: &[&str]| -> Output {
        let mut command = Command::new(program);
        command.args(["--kubeconfig", config.trim()]).args(words);
        // Its discovery cache belongs to the test.
        command.env("HOME", lab.files.path());
        command.output().unwrap()
    };
    let good = |words: &[&str]| -> String {
        let output = run(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words:?}: {out}{err}");
        out
    };
    let nodes = good(&["get", "nodes", "-o", "wide"]);
    assert!(
        nodes.contains("node-a   Ready") && nodes.contains("192.168.100.10"),
        "{nodes}"
    );
    let pods = good(&["get", "pods", "-o", "wide"]);
    assert_eq!(
        pods.lines()
            .filter(|it| it.contains("1/1     Running"))
            .count(),
        3,
        "{pods}"
    );
    good(&["scale", "deployment/web", "--replicas=4"]);
    good(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert!(good(&["get", "deploy", "web"]).contains("4/4"));
    good(&["rollout", "restart", "deployment/web"]);
    good(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: second}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n";
    let file = lab.files.path().join("second.yaml");
    std::fs::write(&file, service).unwrap();
    let file = file.to_str().unwrap();
    assert!(good(&["apply", "-f", file]).contains("service/second created"));
    assert!(good(&["apply", "-f", file]).contains("service/second unchanged"));
    let ip = good(&["get", "svc", "second", "-o", "jsonpath={.spec.clusterIP}"]);
    assert!(ip.starts_with("10.96."), "{ip}");
    lab.until("it is served", || {
        lab.run(&["probe", "node-a", &format!("{ip}:80"), "-n", "20"])
            .status
            .success()
            .then_some(())
    });
    let proxied = |path: &str| {
        good(&[
            "get",
            "--raw",
            &format!("/api/v1/namespaces/default/{path}"),
        ])
    };
    assert!(proxied("services/second:80/proxy/").starts_with("web-"));
    let described = good(&["describe", "pods", "-l", "app=web"]);
    assert!(described.contains("Started container web"), "{described}");
    assert!(good(&["describe", "svc", "web"]).contains("NodePort:"));
    // One of the old revision may still be terminating.
    lab.until("the pods of the new revision alone", || {
        (lab.items(&["pods"]).len() == 4).then_some(())
    });
    let pod = good(&["get", "pods", "-o", "jsonpath={.items[0].metadata.name}"]);
    assert!(good(&["logs", &pod]).contains("listens on 8080/tcp"));
    let said = text(&run(&["logs", &pod, "--since=1m"]).stderr);
    assert!(said.contains("have no times"), "{said}");
    lab.good(&["kill", &pod]);
    lab.until("the log of the run before", || {
        let output = run(&["logs", &pod, "--previous", "--tail=1"]);
        let good = text(&output.stdout).lines().count() == 1;
        (output.status.success() && good).then_some(())
    });
    let used = good(&["top", "pods", "--containers", "--no-headers"]);
    let memory = used
        .lines()
        .filter_map(|it| it.split_whitespace().last()?.strip_suffix("Mi"));
    let memory: Vec<u32> = memory.filter_map(|it| it.parse().ok()).collect();
    assert!(
        memory.len() >= 3 && memory.iter().all(|it| *it > 0),
        "{used}"
    );
    let used = good(&["top", "nodes", "--no-headers"]);
    assert_eq!(
        used.lines().filter(|it| it.starts_with("node-")).count(),
        used.lines().count()
    );
    good(&["label", "pod", &pod, "tier=front"]);
    assert_eq!(
        good(&["get", "pods", "-l", "tier=front", "-o", "name"]),
        format!("pod/{pod}\n")
    );
    good(&["delete", "pod", &pod, "--grace-period=1"]);
    good(&["delete", "-f", file]);
    let gone = run(&["get", "svc", "second"]);
    assert!(text(&gone.stderr).contains("(NotFound)"), "{gone:?}");
    good(&["create", "deployment", "nginx", "--image=nginx"]);
    good(&["expose", "deployment", "nginx", "--port=80"]);
    good(&["rollout", "status", "deployment/nginx", "--timeout=60s"]);
    lab.until("it is served", || {
        lab.run(&["probe", "node-b", "svc/nginx", "-n", "20"])
            .status
            .success()
            .then_some(())
    });
    good(&[
        "drain",
        "node-a",
        "--ignore-daemonsets",
        "--force",
        "--timeout=60s",
    ]);
    let left = good(&[
        "get",
        "pods",
        "-A",
        "--field-selector",
        "spec.nodeName=node-a",
        "-o",
        "name",
    ]);
    // That of the DaemonSet.
    let left: Vec<&str> = left.lines().collect();
    assert!(
        matches!(&left[..], [it] if it.starts_with("pod/sluice-")),
        "{left:?}"
    );
    good(&["uncordon", "node-a"]);
}
