//! ServiceAccounts of namespaces and Pods.

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use serde_json::json;

use super::simulator::Simulator;
use crate::workloads::mount_token;

fn simulator(namespaces: &[&str]) -> Simulator {
    let mut simulator = Simulator::new(0);
    simulator.authority = "a certificate".to_owned();
    for name in namespaces {
        simulator.add_namespace(name);
    }
    simulator
}

#[test]
fn each_namespace_has_an_account_and_the_certificate() {
    let mut simulator = simulator(&["default", "shop"]);
    simulator.rest();
    let names = |all: &[String]| all.join(" ");
    let accounts = simulator.accounts.all();
    let accounts: Vec<String> = accounts
        .iter()
        .map(|it| it.metadata.namespace.clone().unwrap())
        .collect();
    assert_eq!(names(&accounts), "default shop");
    let key = ("shop".to_owned(), "default".to_owned());
    simulator.accounts.remove(&key);
    let certificate = ("shop".to_owned(), "kube-root-ca.crt".to_owned());
    simulator.authorities.edit(&certificate, 1000, |it| {
        it.data = Some([("ca.crt".to_owned(), "forged".to_owned())].into());
    });
    simulator.rest();
    assert!(simulator.accounts.get("shop", "default").is_some());
    let held = simulator.authorities.get("shop", "kube-root-ca.crt");
    assert_eq!(
        held.unwrap().data.as_ref().unwrap()["ca.crt"],
        "a certificate"
    );
    // A namespace that is being deleted stays empty.
    simulator.namespaces.edit(
        &(String::new(), "shop".to_owned()),
        1001,
        |it: &mut Namespace| {
            it.metadata.deletion_timestamp = it.metadata.creation_timestamp.clone();
        },
    );
    simulator.accounts.remove(&key);
    simulator.authorities.remove(&certificate);
    simulator.rest();
    assert!(simulator.accounts.get("shop", "default").is_none());
}

/// The names of the account, the volumes, and of the mounts of each container.
#[track_caller]
fn check(spec: &serde_json::Value, account: &serde_json::Value, expected: &str) {
    let pod = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": spec});
    let mut pod: Pod = serde_json::from_value(pod).unwrap();
    let account: ServiceAccount = serde_json::from_value(account.clone()).unwrap();
    mount_token(&mut pod, Some(&account));
    let spec = pod.spec.unwrap();
    assert_eq!(spec.service_account, spec.service_account_name);
    let kind = |it: &str| {
        if it.starts_with("kube-api-access-") {
            "token"
        } else {
            "own"
        }
        .to_owned()
    };
    let volumes = spec.volumes.iter().flatten().map(|it| kind(&it.name));
    let mut words = vec![spec.service_account_name.clone().unwrap()];
    words.extend(volumes);
    for it in spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
    {
        let mounts = it.volume_mounts.iter().flatten().map(|it| kind(&it.name));
        words.push(format!(
            "{}:{}",
            it.name,
            mounts.collect::<Vec<_>>().join(",")
        ));
    }
    assert_eq!(words.join(" "), expected);
}

#[test]
fn a_pod_gets_its_token_unless_pod_or_account_refuse() {
    let none = json!({});
    let silent = json!({"automountServiceAccountToken": false});
    let a = json!({"name": "a"});
    check(&json!({"containers": [a]}), &none, "default token a:token");
    check(
        &json!({"containers": [a], "initContainers": [{"name": "i"}], "serviceAccountName": "robot"}),
        &none,
        "robot token i:token a:token",
    );
    check(
        &json!({"containers": [a], "serviceAccount": "old"}),
        &none,
        "old token a:token",
    );
    check(&json!({"containers": [a]}), &silent, "default a:");
    let refuses = json!({"containers": [a], "automountServiceAccountToken": false});
    check(&refuses, &none, "default a:");
    let asks = json!({"containers": [a], "automountServiceAccountToken": true});
    check(&asks, &silent, "default token a:token");
    let own = json!({"name": "a", "volumeMounts": [
        {"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]});
    let volumes = json!([{"name": "mine", "emptyDir": {}}]);
    check(
        &json!({"containers": [own], "volumes": volumes}),
        &none,
        "default own a:own",
    );
    check(
        &json!({"containers": [own, {"name": "b"}], "volumes": volumes}),
        &none,
        "default own token a:own b:token",
    );
}
