//! `kube-system`: what a cluster has there.

use serde_json::Value;

use crate::lab::names::{ASKS, answer};
use crate::lab::{Lab, text};

/// The Corefile with one name more.
const COREFILE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        ready
        hosts {
            192.0.2.1 printer.example
            fallthrough
        }
        kubernetes cluster.local in-addr.arpa ip6.arpa
        forward . /etc/resolv.conf
        reload
    }
";

#[test]
fn a_fresh_lab_has_what_a_cluster_has_and_no_issue() {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    for node in ["node-a", "node-b"] {
        let mut said = String::new();
        lab.until(&format!("nothing is wrong on {node}"), || {
            let output = lab.run(&["exec", node, "--", "sluice", "doctor"]);
            said = text(&output.stdout);
            let is_well = |it: &str| !it.starts_with("  FAIL") && !it.starts_with("  WARN");
            (output.status.success() && said.lines().all(is_well)).then_some(())
        });
        let status = lab.good(&["exec", node, "--", "sluice", "status"]);
        assert!(!status.contains("issues"), "{status}");
        assert!(said.contains("ok    dns service"), "{said}");
    }
    let in_system = |kind: &str| lab.items(&[kind, "-n", "kube-system"]);
    let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
    for (kind, expect) in [
        ("services", "kube-dns"),
        ("configmaps", "coredns"),
        ("deployments", "coredns"),
        ("daemonsets", "sluice"),
    ] {
        assert!(
            in_system(kind).iter().any(|it| name(it) == expect),
            "{kind}"
        );
    }
    // One for each agent, and the DNS server.
    assert_eq!(in_system("pods").len(), 3);
    // Pods of others have the addresses that they have without these.
    let all = lab.items(&["pods"]);
    let ips = all.iter().map(|it| it["status"]["podIP"].as_str().unwrap());
    assert!(ips.clone().any(|it| it == "10.244.0.2"), "{all:?}");
    // No picture of what runs in the cluster has its own parts.
    let drawn = lab.good(&["draw"]);
    assert!(
        drawn.contains("default/web") && !drawn.contains("kube-dns"),
        "{drawn}"
    );

    // A pod of the DaemonSet is the agent of its node.
    let agent = || {
        let all = in_system("pods");
        all.into_iter()
            .find(|it| it["spec"]["nodeName"] == "node-a" && name(it).starts_with("sluice"))
    };
    let is_ready_after = |restarts: i64| {
        lab.until(&format!("the agent after {restarts} restarts"), || {
            let status = agent()?["status"]["containerStatuses"][0].clone();
            (status["ready"] == true && status["restartCount"] == restarts).then_some(())
        });
    };
    is_ready_after(0);
    lab.good(&[
        "exec",
        "node-a",
        "--",
        "pkill",
        "-9",
        "-f",
        "hostname-override node-a",
    ]);
    is_ready_after(1);
    let pod = name(&agent().unwrap());
    let log = lab.good(&["logs", "-n", "kube-system", &pod]);
    assert!(log.contains("synced"), "{log}");
    // Whoever deletes it ends the agent, which its node starts again.
    lab.good(&["delete", "-n", "kube-system", "pod", &pod]);
    lab.until("another pod is the agent", || {
        agent().filter(|it| name(it) != pod)
    });
    is_ready_after(0);
}

#[test]
fn the_corefile_of_the_cluster_is_used() {
    let Some(lab) = Lab::up(&["--nodes", "1"]) else {
        return;
    };
    assert!(lab.apply(ASKS).status.success());
    let answers = |name: &str, code: char| {
        // The agent, and the pod behind the Service.
        for server in ["169.254.20.10", "10.96.0.10"] {
            lab.until(&format!("{server} answers {name}"), || {
                (answer(&lab, name, server) == Some(code)).then_some(())
            });
        }
    };
    answers("printer.example", '5');
    assert!(lab.apply(COREFILE).status.success());
    answers("printer.example", '0');
    answers("web.default.svc.cluster.local", '0');
}
