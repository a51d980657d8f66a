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
            ("get sa", "robot 0"),
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
                .fail("get jobs")
                .contains("doesn't have a resource type \"jobs\"")
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
