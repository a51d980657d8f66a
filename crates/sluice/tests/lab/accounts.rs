//! Pods and the API: ServiceAccounts, their tokens, and the ways to the API.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::lab::kubectl::programs;
use crate::lab::{Lab, text};

const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn pod(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, annotations: {{sluice.dev/command: exec sleep 1000}}}}\n\
         spec: {{{spec} containers: [{{name: c, image: any}}]}}\n---\n"
    )
}

/// A pod that sees the programs of kubectl and the files of the test at their own paths.
fn with_files(lab: &Lab, pod: &str, programs: &[PathBuf]) -> String {
    let folders = programs.iter().filter_map(|it| it.parent());
    let mut folders: Vec<&Path> = folders.filter(|it| !it.starts_with("/usr")).collect();
    folders.push(lab.files.path());
    let numbered = || folders.iter().map(|it| it.display()).enumerate();
    let volumes =
        numbered().map(|(number, it)| format!("{{name: v{number}, hostPath: {{path: {it}}}}}"));
    let volumes: Vec<String> = volumes.collect();
    let mounts = numbered().map(|(number, it)| format!("{{name: v{number}, mountPath: {it}}}"));
    let mounts: Vec<String> = mounts.collect();
    pod.replace(
        "containers:",
        &format!("volumes: [{}], containers:", volumes.join(", ")),
    )
    .replace(
        "image: any",
        &format!("image: any, volumeMounts: [{}]", mounts.join(", ")),
    )
}

/// The programs of kubectl, without symbolic links.
fn kubectls() -> Vec<PathBuf> {
    let paths = programs().into_iter().map(|it| match it.strip_prefix('/') {
        Some(_) => fs::canonicalize(it).unwrap(),
        None => Path::new("/usr/bin").join(it),
    });
    paths.collect()
}

fn runs(lab: &Lab, pod: &str) {
    lab.until(pod, || {
        let pod = lab.json(&["pod", pod, "-n", "shop"]);
        (pod["status"]["phase"] == "Running").then_some(())
    });
}

#[test]
fn pods_reach_the_api_with_a_token() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "2"]);
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n";
    let account =
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot, namespace: shop}\n---\n";
    let output = lab.apply(&format!(
        "{namespace}{account}{}{}",
        with_files(&lab, &pod("own", "serviceAccountName: robot,"), &kubectls()),
        pod("bare", "automountServiceAccountToken: false,")
    ));
    assert!(output.status.success(), "{output:?}");
    runs(&lab, "own");
    runs(&lab, "bare");
    let said = lab.apply(&pod("none", "serviceAccountName: nobody,"));
    assert!(
        text(&said.stderr).contains("serviceaccount \"nobody\" not found"),
        "{said:?}"
    );
    let exec = |pod: &str, words: &[&str]| -> Output {
        let mut all = vec!["exec", pod, "-n", "shop", "--"];
        all.extend(words);
        lab.run(&all)
    };
    let here = exec("own", &["cat", &format!("{FOLDER}/namespace")]);
    assert_eq!(text(&here.stdout), "shop");
    let written = exec("own", &["sh", "-c", &format!("echo x > {FOLDER}/token")]);
    assert!(text(&written.stderr).contains("Read-only"), "{written:?}");
    assert!(
        !exec("bare", &["test", "-e", &format!("{FOLDER}/token")])
            .status
            .success()
    );
    let variable = exec(
        "bare",
        &[
            "sh",
            "-c",
            "echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT",
        ],
    );
    assert_eq!(text(&variable.stdout), "10.96.0.1:443\n");
    // The account of each namespace comes back.
    lab.good(&["delete", "serviceaccount", "default", "-n", "shop"]);
    lab.until("the account", || {
        let again = lab.run(&["get", "serviceaccount", "default", "-n", "shop"]);
        again.status.success().then_some(())
    });
    let question = lab.files.path().join("question.json");
    fs::write(&question, "{}").unwrap();
    let question = question.to_str().unwrap();
    let home = lab.files.path().display();
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for program in kubectls() {
        let program = program.display();
        let ask = |token: &str, server: &str| {
            let script = format!(
                "HOME={home} exec {program} {server} {token} create --raw {review} -f {question}"
            );
            exec("own", &["sh", "-c", &script])
        };
        // As every program in a pod does without a kubeconfig.
        let output = ask("", "");
        let user: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let user = &user["status"]["userInfo"];
        assert_eq!(user["username"], "system:serviceaccount:shop:robot");
        assert_eq!(
            user["extra"]["authentication.kubernetes.io/pod-name"][0],
            "own"
        );
        let token = format!("--token=$(cat {FOLDER}/token)");
        for host in [
            "192.168.100.2:6443",
            "[fd00:100::2]:6443",
            "kubernetes.default.svc",
        ] {
            let server = format!("--server=https://{host} --certificate-authority={FOLDER}/ca.crt");
            let output = ask(&token, &server);
            assert!(
                text(&output.stdout).contains("shop:robot"),
                "{host}: {output:?}"
            );
            let refused = ask("--token=wrong", &server);
            assert!(
                text(&refused.stderr).contains("Unauthorized"),
                "{host}: {refused:?}"
            );
        }
    }
}

#[test]
fn a_cluster_of_ipv6_has_an_api_of_ipv6() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1", "--ip-families", "IPv6"]);
    let service = lab.json(&["service", "kubernetes"]);
    assert_eq!(
        service["spec"]["clusterIPs"],
        serde_json::json!(["fd00:10:96::1"])
    );
    let slice = lab.json(&["endpointslice", "kubernetes"]);
    assert_eq!(slice["endpoints"][0]["addresses"][0], "fd00:100::2");
    let own = "apiVersion: v1\nkind: Pod\nmetadata: {name: own, annotations: {sluice.dev/command: exec sleep 1000}}\nspec: {containers: [{name: c, image: any}]}\n";
    let output = lab.apply(&with_files(&lab, own, &kubectls()));
    assert!(output.status.success(), "{output:?}");
    lab.until("its address", || {
        let ip = lab.json(&["pod", "own"])["status"]["podIP"].take();
        ip.as_str()?.starts_with("fd00:10:244:").then_some(())
    });
    for program in kubectls() {
        let program = program.display();
        let home = lab.files.path().display();
        let script =
            format!("HOME={home} exec {program} get --raw /api/v1/namespaces/default/pods/own");
        lab.until("an answer", || {
            let output = lab.run(&["exec", "own", "--", "sh", "-c", &script]);
            text(&output.stdout).contains("\"own\"").then_some(())
        });
    }
}
