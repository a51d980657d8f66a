//! get, watch, describe, logs, discovery.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::kubectl::cluster::with_each;

#[test]
fn kubectl_gets_every_kind() {
    with_each(|cluster| {
        for (line, expect) in [
            ("get pods", "web 1/1 Running 2"),
            ("get svc", "web ClusterIP 10.96.0.1 <none> 80/TCP"),
            ("get nodes", "n1 Ready <none>"),
            ("get ns", "default Active"),
            ("get deploy", "web 0/2 0 0"),
            ("get rs", "web-1 2 0 0"),
            ("get sts", "web 0/2"),
            ("get ds", "web 0 0 0 0 0 <none>"),
            ("get ep", "web 10.0.0.9:8080"),
            ("get endpointslices", "web-1 IPv4 8080 10.0.0.9"),
            ("get cm", "c 1"),
            ("get secrets", "s Opaque 1"),
            ("get sa", "robot "),
            ("get controllerrevisions", "web-1 <none> 1"),
            ("get servicecidrs", "kubernetes 10.96.0.0/16"),
            ("get ipaddresses", "10.96.0.1 services/default/web"),
            ("get pods web", "web 1/1 Running 2"),
        ] {
            let table = cluster.table(line);
            assert!(table[1].starts_with(expect), "{line}: {table:?}");
        }
        let table = cluster.table("get events");
        assert!(
            table[1].ends_with("Normal Started pod/web it runs"),
            "{table:?}"
        );
        let all = cluster.run("get all");
        for name in [
            "pod/web",
            "service/web",
            "deployment.apps/web",
            "daemonset.apps/web",
        ] {
            assert!(all.contains(name), "{all}");
        }
        assert!(
            cluster
                .fail("get pods none")
                .contains("pods \"none\" not found")
        );
        assert!(
            cluster
                .fail("get gears")
                .contains("doesn't have a resource type \"gears\"")
        );
    });
}

#[test]
fn kubectl_shows_every_form() {
    with_each(|cluster| {
        let wide = cluster.table("get pods -o wide");
        assert!(
            wide[0].contains("IP NODE NOMINATED NODE READINESS GATES"),
            "{wide:?}"
        );
        assert!(wide[1].ends_with("10.0.0.9 n1 <none> <none>"), "{wide:?}");
        assert_eq!(cluster.run("get pods -o name"), "pod/web\n");
        assert!(cluster.run("get pod web -o yaml").contains("nodeName: n1"));
        let object: Value = serde_json::from_str(&cluster.run("get pod web -o json")).unwrap();
        assert_eq!(object["kind"], "Pod");
        let list: Value = serde_json::from_str(&cluster.run("get pods -o json")).unwrap();
        assert_eq!(list["items"][0]["metadata"]["name"], "web");
        let path = cluster.run("get pod web -o jsonpath={.status.podIP}");
        assert_eq!(path, "10.0.0.9");
        let all = cluster.table("get pods -A");
        assert!(all[1].starts_with("default web 1/1"), "{all:?}");
        for (selector, expect) in [
            ("-l app=web", 2),
            ("-l app!=web", 0),
            ("-l 'app in (web,db),tier'", 2),
            ("-l 'app notin (web)'", 0),
            ("--field-selector spec.nodeName=n1", 2),
            ("--field-selector status.phase!=Running", 0),
            ("--field-selector metadata.name=web", 2),
        ] {
            let table = cluster.table(&format!("get pods {selector}"));
            assert_eq!(table.len(), expect, "{selector}: {table:?}");
        }
        let error = cluster.fail("get pods --field-selector spec.foo=1");
        assert!(
            error.contains("field label not supported: spec.foo"),
            "{error}"
        );
        let sorted = cluster.table("get svc --sort-by .metadata.name --show-labels");
        assert!(sorted[0].ends_with("LABELS"), "{sorted:?}");
    });
}

#[test]
fn kubectl_watches() {
    with_each(|cluster| {
        let mut watch = cluster.start_in_background("get cm -w");
        let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        assert!(next().starts_with("NAME"));
        assert!(next().starts_with("c "));
        cluster.run("create configmap d --from-literal=a=b");
        assert!(next().starts_with("d "), "the new one is shown");
        drop(watch);
        cluster.run("delete cm d");
        assert!(cluster.store.get("ConfigMap", "default", "d").is_none());
    });
}

#[test]
fn kubectl_describes() {
    with_each(|cluster| {
        for (line, expect) in [
            ("describe pod web", "it runs"),
            ("describe svc web", "10.0.0.9:8080"),
            ("describe node n1", "192.0.2.1"),
            ("describe node n1", "default                     web"),
            ("describe deploy web", "Replicas:"),
            ("describe rs web-1", "Replicas:"),
            ("describe sts web", "Replicas:"),
            ("describe ds web", "Selector:"),
            ("describe cm c", "a:"),
            ("describe ns default", "Active"),
        ] {
            let text = cluster.run(line);
            let squeezed = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                squeezed(&text).contains(&squeezed(expect)),
                "{line}: {text}"
            );
        }
    });
}

#[test]
fn kubectl_finds_its_way() {
    with_each(|cluster| {
        let resources = cluster.run("api-resources");
        for name in ["deployments", "endpointslices", "svc"] {
            assert!(resources.contains(name), "{resources}");
        }
        assert!(cluster.run("api-versions").contains("discovery.k8s.io/v1"));
        assert!(cluster.run("cluster-info").contains("is running at"));
        assert!(cluster.run("version").contains("1.36"));
        let log = cluster.run("logs web --tail=3");
        assert!(
            log.starts_with("log of web") && log.contains("Some(3)"),
            "{log}"
        );
        assert_eq!(cluster.run("get --raw /readyz"), "ok");
        // The client certificate is as good as the token; nothing is not.
        assert!(
            cluster
                .run("--kubeconfig certificate get ns")
                .contains("default")
        );
        let error = cluster.fail("--token wrong get ns");
        assert!(
            error.contains("Unauthorized") || error.contains("logged in"),
            "{error}"
        );
    });
}

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              cronSpec: {type: string, description: when it runs}
              image: {type: string}
              replicas: {type: integer, minimum: 1, default: 1}
"#;

const CRON_TAB: &str = "
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: mine}
spec: {cronSpec: '* * * * */5', image: my-awesome-cron-image}
";

#[test]
fn kubectl_knows_a_new_kind() {
    with_each(|cluster| {
        cluster.file("crd.yaml", DEFINITION);
        cluster.file("ct.yaml", CRON_TAB);
        cluster.run("apply -f crd.yaml");
        cluster
            .run("wait --for condition=established --timeout 5s crd/crontabs.stable.example.com");
        let made = cluster.run("apply -f ct.yaml");
        assert_eq!(made, "crontab.stable.example.com/mine created\n");
        assert_eq!(
            cluster.run("apply -f ct.yaml"),
            "crontab.stable.example.com/mine unchanged\n"
        );
        let table = cluster.table("get ct");
        assert_eq!(table, ["NAME SPEC REPLICAS", "mine * * * * */5 1"]);
        cluster.run("scale --replicas 3 ct/mine");
        assert!(cluster.table("get crontab mine")[1].ends_with(" 3"));
        assert!(
            cluster
                .run("describe ct mine")
                .contains("my-awesome-cron-image")
        );
        assert!(
            cluster
                .run("get crd")
                .contains("crontabs.stable.example.com")
        );
        if !cluster.is_old() {
            let told = cluster.run("explain crontab.spec.cronSpec");
            assert!(told.contains("when it runs"), "{told}");
            assert!(cluster.run("diff -f ct.yaml").is_empty());
            let error = cluster.fail("patch ct mine --type merge -p {\"spec\":{\"replicas\":0}}");
            assert!(
                error.contains("should be greater than or equal to 1"),
                "{error}"
            );
        }
        cluster.run("delete crd crontabs.stable.example.com");
        // One that has just looked remembers the kind.
        let error = cluster.fail("get ct");
        let gone = [
            "doesn't have a resource type",
            "could not find the requested resource",
        ];
        assert!(gone.iter().any(|it| error.contains(it)), "{error}");
    });
}

#[test]
fn kubectl_stores_what_tutorials_apply() {
    with_each(|cluster| {
        cluster.run("create role reader --verb=get --resource=pods");
        cluster.run("create rolebinding reader --role=reader --user=jane");
        cluster.run("create clusterrole system:reader --verb=get --resource=pods");
        cluster.run("autoscale deploy web --min=1 --max=3 --cpu-percent=70");
        cluster.file(
            "more.yaml",
            r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: fast}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: nginx
  rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 80}]}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/fast
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: most}
spec: {hard: {pods: "4"}}
"#,
        );
        cluster.run("apply -f more.yaml");
        for (line, expect) in [
            ("get rolebinding -o wide", "reader Role/reader"),
            ("get clusterrole", "system:reader"),
            ("get hpa", "web Deployment/web cpu: <unknown>/70% 1 3 0"),
            (
                "get horizontalpodautoscalers.v1.autoscaling",
                "web Deployment/web cpu: <unknown>/70% 1 3 0",
            ),
            ("get pvc", "data Pending fast <unset>"),
            ("get ing", "web nginx a.example 80"),
            ("get netpol", "closed app=web"),
            ("get pdb", "web 1 N/A 0"),
            (
                "get sc",
                "fast (default) example.com/fast Delete Immediate false",
            ),
            ("get quota", "most"),
        ] {
            let table = cluster.table(line);
            assert!(table[1].starts_with(expect), "{line}: {table:?}");
        }
        let policy = cluster
            .store
            .get("NetworkPolicy", "default", "closed")
            .unwrap();
        assert_eq!(
            policy["spec"]["policyTypes"],
            serde_json::json!(["Ingress"])
        );
        assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["protocol"], "TCP");
        let old: Value = serde_json::from_str(
            &cluster.run("get horizontalpodautoscalers.v1.autoscaling web -o json"),
        )
        .unwrap();
        assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 70);
        if !cluster.is_old() {
            let told = cluster.run("explain ingress.spec.rules.http.paths.pathType");
            assert!(told.contains("pathType"), "{told}");
            let dry = cluster.run("apply --dry-run=server -f more.yaml");
            assert!(
                dry.contains("ingress.networking.k8s.io/web unchanged (server dry run)"),
                "{dry}"
            );
        }
    });
}
