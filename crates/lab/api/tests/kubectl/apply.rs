//! apply, on either side.

use serde_json::json;

use crate::kubectl::cluster::with_each;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {team: a}}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: web, image: one, ports: [{containerPort: 80}]}
      - {name: side, image: x}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, name: http}]
";

#[test]
fn kubectl_applies() {
    with_each(|cluster| {
        cluster.file("a.yaml", DEPLOYMENT);
        let created = cluster.run("apply -f a.yaml");
        assert_eq!(
            created,
            "deployment.apps/shop created\nservice/shop created\n"
        );
        let version = cluster.store.revision();
        let again = cluster.run("apply -f a.yaml");
        assert_eq!(
            again,
            "deployment.apps/shop unchanged\nservice/shop unchanged\n"
        );
        assert_eq!(cluster.store.revision(), version);
        cluster.run("scale deploy shop --replicas=5");
        let changed = DEPLOYMENT.replace("image: one", "image: two");
        let changed = changed.replace("      - {name: side, image: x}\n", "");
        let changed = changed
            .replace(", labels: {team: a}", "")
            .replace("  replicas: 3\n", "");
        cluster.file("a.yaml", &changed);
        let configured = cluster.run("apply -f a.yaml");
        assert_eq!(
            configured,
            "deployment.apps/shop configured\nservice/shop unchanged\n"
        );
        let stored = cluster.store.get("Deployment", "default", "shop").unwrap();
        let containers = &stored["spec"]["template"]["spec"]["containers"];
        assert_eq!(
            *containers,
            json!([{
                "name": "web", "image": "two", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }])
        );
        assert!(stored["metadata"]["labels"].is_null());
        // The old one looks into OpenAPI version 2 first, which is empty here.
        if !cluster.is_old() {
            assert!(cluster.run("diff -f a.yaml").is_empty());
        }
        cluster.run("delete -f a.yaml");
        assert!(cluster.store.get("Service", "default", "shop").is_none());
    });
}

#[test]
fn kubectl_applies_on_the_server() {
    with_each(|cluster| {
        cluster.file("a.yaml", DEPLOYMENT);
        let applied = cluster.run("apply --server-side -f a.yaml");
        assert_eq!(
            applied,
            "deployment.apps/shop serverside-applied\nservice/shop serverside-applied\n"
        );
        let version = cluster.store.revision();
        cluster.run("apply --server-side -f a.yaml");
        assert_eq!(cluster.store.revision(), version);
        cluster.file("b.yaml", &DEPLOYMENT.replace("image: one", "image: two"));
        let conflict = cluster.fail("apply --server-side --field-manager=other -f b.yaml");
        assert!(conflict.contains("conflict with \"kubectl\""), "{conflict}");
        assert!(
            conflict.contains(".spec.template.spec.containers[name=\"web\"].image"),
            "{conflict}"
        );
        let forced = "apply --server-side --field-manager=other --force-conflicts -f b.yaml";
        cluster.run(forced);
        let stored = cluster.store.get("Deployment", "default", "shop").unwrap();
        let containers = &stored["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["image"], "two");
        assert_eq!(containers.as_array().unwrap().len(), 2);
    });
}

#[test]
fn wrong_fields_are_named() {
    with_each(|cluster| {
        cluster.file(
            "a.yaml",
            &DEPLOYMENT.replace("  replicas: 3", "  replicas: many"),
        );
        let error = cluster.fail("apply -f a.yaml");
        assert!(error.contains("replicas"), "{error}");
        cluster.file(
            "a.yaml",
            &DEPLOYMENT.replace("  replicas: 3", "  replicaz: 3"),
        );
        if cluster.is_old() {
            // It leaves unknown fields to its own schema, which is empty here.
            cluster.run("apply -f a.yaml");
        } else {
            let error = cluster.fail("apply -f a.yaml");
            assert!(error.contains("unknown field \"spec.replicaz\""), "{error}");
            let warned = cluster.run("apply --validate=warn -f a.yaml");
            assert!(warned.contains("shop created"), "{warned}");
        }
    });
}
