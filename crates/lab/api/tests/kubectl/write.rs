//! create, delete, patch, scale and what is made of them.

use serde_json::{Value, json};

use crate::kubectl::cluster::{Cluster, with_each};

fn deployment(cluster: &Cluster) -> Value {
    Value::clone(&cluster.store.get("Deployment", "default", "web").unwrap())
}

#[test]
fn kubectl_creates_and_deletes() {
    with_each(|cluster| {
        cluster.run("create namespace shop");
        cluster.run("-n shop create configmap a --from-literal=k=v");
        cluster.run("-n shop create deployment d --image=x --replicas=3");
        assert!(
            cluster
                .fail("create namespace shop")
                .contains("already exists")
        );
        let error = cluster.fail("-n nowhere create configmap a");
        assert!(
            error.contains("namespaces \"nowhere\" not found"),
            "{error}"
        );
        // The old one looks into OpenAPI version 2 first, which is empty here.
        if !cluster.is_old() {
            let dry = cluster.run("create configmap dry --dry-run=server -o name");
            assert_eq!(dry, "configmap/dry\n");
        }
        assert!(cluster.store.get("ConfigMap", "default", "dry").is_none());
        cluster.run("run p --image=x -n shop");
        cluster.run("-n shop expose deployment d --port=80");
        assert_eq!(cluster.store.list("Service").len(), 2);
        cluster.run("delete namespace shop");
        assert!(cluster.store.get("Deployment", "shop", "d").is_none());
        assert!(
            cluster
                .fail("delete namespace default")
                .contains("may not be deleted")
        );
        // Nobody ends the container here: the Pod stays until it is forced.
        cluster.run("delete pod web --wait=false");
        let pod = cluster.store.get("Pod", "default", "web").unwrap();
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
        assert!(cluster.table("get pods")[1].contains("Terminating"));
        cluster.run("delete pod web --grace-period=0 --force");
        assert!(cluster.store.get("Pod", "default", "web").is_none());
        assert!(cluster.fail("delete pod web").contains("not found"));
        cluster.run("delete pod web --ignore-not-found");
        cluster.run("delete cm --all");
        assert!(cluster.store.list("ConfigMap").is_empty());
        cluster.run("delete rs -l nothing=here");
        assert_eq!(cluster.store.list("ReplicaSet").len(), 1);
    });
}

#[test]
fn kubectl_debugs_pods_and_nodes() {
    with_each(|cluster| {
        if cluster.is_old() {
            return;
        }
        cluster.run("debug web --image=busybox -c look");
        let web = cluster.store.get("Pod", "default", "web").unwrap();
        let added = &web["spec"]["ephemeralContainers"][0];
        assert_eq!(
            (&added["name"], &added["image"]),
            (&json!("look"), &json!("busybox"))
        );
        cluster.run("debug web --image=busybox --copy-to=copy");
        let copy = cluster.store.get("Pod", "default", "copy").unwrap();
        assert_eq!(copy["spec"]["containers"].as_array().unwrap().len(), 2);
        cluster.run("debug node/n1 --image=busybox");
        let error = cluster.fail("top pods");
        assert!(error.contains("metrics not available"), "{error}");
    });
}

#[test]
fn kubectl_patches_in_three_ways() {
    with_each(|cluster| {
        let image = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        cluster.run(r#"patch deploy web -p {"spec":{"template":{"spec":{"containers":[{"name":"c","image":"strategic"}]}}}}"#);
        assert_eq!(image(&deployment(cluster)), "strategic");
        cluster.run(r#"patch deploy web --type merge -p {"metadata":{"labels":{"a":"b"}}}"#);
        assert_eq!(deployment(cluster)["metadata"]["labels"], json!({"a": "b"}));
        cluster.run(r#"patch deploy web --type json -p [{"op":"replace","path":"/spec/replicas","value":7}]"#);
        assert_eq!(deployment(cluster)["spec"]["replicas"], 7);
        assert_eq!(image(&deployment(cluster)), "strategic");
        let error = cluster.fail(r#"patch deploy web -p {"spec":{"replicas":"many"}}"#);
        assert!(error.contains("spec.replicas"), "{error}");
        let same = cluster.run(r#"patch deploy web -p {"spec":{"replicas":7}}"#);
        assert!(same.contains("(no change)"), "{same}");
    });
}

#[test]
fn kubectl_changes_what_runs() {
    with_each(|cluster| {
        cluster.run("scale deploy web --replicas=5");
        assert_eq!(deployment(cluster)["spec"]["replicas"], 5);
        assert_eq!(deployment(cluster)["metadata"]["generation"], 2);
        cluster.run("scale sts web --replicas=1");
        cluster.run("rollout restart deploy web");
        let annotations = &deployment(cluster)["spec"]["template"]["metadata"]["annotations"];
        assert!(annotations["kubectl.kubernetes.io/restartedAt"].is_string());
        cluster.run("set image deploy web c=newer");
        cluster.run("set env deploy web A=1");
        let container = &deployment(cluster)["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "newer");
        assert_eq!(container["env"], json!([{"name": "A", "value": "1"}]));
        cluster.run("label pod web x=y");
        cluster.run("label pod web tier-");
        cluster.run("annotate pod web note=hello");
        let pod = cluster.store.get("Pod", "default", "web").unwrap();
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "x": "y"}));
        assert_eq!(pod["metadata"]["annotations"]["note"], "hello");
        cluster.run("cordon n1");
        let node = cluster.store.get("Node", "", "n1").unwrap();
        assert_eq!(node["spec"]["unschedulable"], true);
        cluster.run("taint node n1 a=b:NoSchedule");
        cluster.run("uncordon n1");
        assert!(cluster.table("get nodes")[1].starts_with("n1 Ready <none>"));
        // Nobody ends the container here.
        let drained = cluster.fail("drain n1 --force --ignore-daemonsets --timeout=1s");
        assert!(drained.contains("web"), "{drained}");
        let pod = cluster.store.get("Pod", "default", "web").unwrap();
        assert!(pod["metadata"]["deletionTimestamp"].is_string());
    });
}

#[test]
fn kubectl_replaces() {
    with_each(|cluster| {
        let mut config: Value = serde_json::from_str(&cluster.run("get cm c -o json")).unwrap();
        config["data"]["a"] = "c".into();
        cluster.file("c.json", &config.to_string());
        cluster.run("replace -f c.json");
        let stored = cluster.store.get("ConfigMap", "default", "c").unwrap();
        assert_eq!(stored["data"]["a"], "c");
        config["data"]["a"] = "d".into();
        cluster.file("c.json", &config.to_string());
        let error = cluster.fail("replace -f c.json");
        assert!(error.contains("the object has been modified"), "{error}");
    });
}
