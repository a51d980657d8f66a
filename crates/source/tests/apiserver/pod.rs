//! Tests a process in a pod: it has only the service account and the environment.

use std::env;
use std::process::{Command, Stdio};

use sluice_miniapi::{Cut, Options};
use sluice_source::apiserver::{Access, connect};

use crate::apiserver::cluster::{BASE, Files, Followed, base_and, cluster};
use crate::support::{DEADLINE, service_object};

/// Set in the test process that runs as the pod.
const POD: &str = "SLUICE_TEST_POD";

/// Mounts the folder `$1` where pods find their service account, and runs the remaining arguments.
const MOUNT: &str = "set -e; account=/run/secrets/kubernetes.io/serviceaccount; \
    mount -t tmpfs tmpfs /run; mkdir -p $account; mount --bind \"$1\" $account; shift; exec \"$@\"";

#[test]
fn service_account_and_its_rotated_token() {
    if !nix::unistd::Uid::effective().is_root() {
        assert!(env::var_os("CI").is_none(), "CI must run this as root");
        eprintln!("SKIP: needs root for a mount namespace");
        return;
    }
    let api = cluster(Options {
        token: Some("first".to_owned()),
        ..Options::default()
    });
    let account = Files::new();
    api.write_service_account(account.folder.path()).unwrap();
    let mut pod = Command::new("unshare")
        .args(["--mount", "sh", "-c", MOUNT, "sh"])
        .arg(account.folder.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", "apiserver::pod::plays_the_pod", "--nocapture"])
        .env(POD, "1")
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", api.port().to_string())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    assert!(api.await_watches(4, DEADLINE));
    api.set_token(Some("second"));
    api.write_service_account(account.folder.path()).unwrap();
    api.cut_watches("", Cut::Close);
    api.put(service_object("web", 80)).unwrap();
    assert!(pod.wait().unwrap().success());
}

/// Does nothing unless the test above starts it.
#[test]
fn plays_the_pod() {
    if env::var_os(POD).is_none() {
        return;
    }
    let mut source = Followed::start(&connect(&Access::default()).unwrap());
    source.view.until("synced", |it| it.synced == 1);
    assert_eq!(source.view.brief(), BASE);
    source.view.expect(&base_and("Service default/web:80"));
    source.view.until("no problem", |it| it.problems.is_empty());
    assert!(source.view.deleted.is_empty());
}

#[test]
fn outside_of_a_pod_it_says_what_is_missing() {
    if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return;
    }
    let error = connect(&Access::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("the pod's service account (there is no kubeconfig): "),
        "{error}"
    );
}
