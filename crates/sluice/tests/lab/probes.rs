//! Probes of every kind that kubelet has.

use crate::lab::Lab;

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: https}
spec:
  containers:
  - name: c
    image: any
    readinessProbe: {httpGet: {scheme: HTTPS, host: 10.96.0.1, port: 443, path: /livez}}
---
apiVersion: v1
kind: Pod
metadata: {name: grpc}
spec:
  containers:
  - name: c
    image: any
    ports: [{containerPort: 8080}]
    readinessProbe: {grpc: {port: 8080}, periodSeconds: 1}
";

#[test]
fn https_and_grpc_are_asked() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let applied = lab.apply(PODS);
    assert!(applied.status.success(), "{applied:?}");
    // The API server's certificate is its own authority's.
    lab.until("the pod is ready", || {
        let status = lab.json(&["pod", "https"])["status"].clone();
        (status["containerStatuses"][0]["ready"] == true).then_some(())
    });
    lab.until("the pod's server speaks HTTP/1.1", || {
        let events = lab.items(&["events"]);
        let is_it = |it: &serde_json::Value| {
            let message = it["message"].as_str().unwrap_or_default();
            it["reason"] == "Unhealthy" && message.ends_with("the server does not speak HTTP/2")
        };
        events.iter().any(is_it).then_some(())
    });
}
