//! Network policies between the lab's pods.

use crate::lab::{Lab, text};

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec: {containers: [{name: c, image: any, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: friend, labels: {app: friend}}
spec: {containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stranger, labels: {app: stranger}}
spec: {containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
";

const POLICY: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 8080}]}]
";

#[test]
fn a_policy_has_its_effect() {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    let applied = lab.apply(PODS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let reaches = |pod: &str| {
        let output = lab.run(&["probe", pod, "svc/api", "-n", "1"]);
        output.status.success()
    };
    let wait = |pod: &str, is_allowed: bool| {
        lab.until(&format!("{pod} reaches api: {is_allowed}"), || {
            (reaches(pod) == is_allowed).then_some(())
        });
    };
    wait("friend", true);
    wait("stranger", true);
    let applied = lab.apply(POLICY);
    assert!(applied.status.success());
    // Somebody acts upon it.
    assert!(
        !text(&applied.stderr).contains("not acted upon"),
        "{applied:?}"
    );
    wait("stranger", false);
    wait("friend", true);
    lab.good(&["delete", "networkpolicy", "server"]);
    wait("stranger", true);
}
