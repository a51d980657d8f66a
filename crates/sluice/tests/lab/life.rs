//! A lab's beginning and end.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::lab::{Lab, SLUICE, text};

/// All that a lab could change on this machine.
pub(crate) fn machine() -> String {
    // Tests of other programs, which run meanwhile, have namespaces and pins of their own.
    let shell = "ip link; ip address; ip route show table all; ip -6 route show table all; ip rule; \
                 ip netns | grep -v '^sl[0-9]'; nft list ruleset; \
                 sysctl -a --pattern '^net' 2>/dev/null | grep -v -e conntrack_count -e random -e nf_conntrack_buckets; \
                 mount | grep -vc '/run/netns/sl[0-9]'; ls /sys/fs/bpf | grep -v sluice-test; ls /run";
    let output = Command::new("sh").args(["-c", shell]).output().unwrap();
    text(&output.stdout)
}

#[test]
fn a_lab_serves_and_leaves_the_machine_as_it_was() {
    let Some(mut lab) = Lab::new() else { return };
    lab.name = format!("{}-whole", lab.name);
    let before = machine();
    let said = lab.good(&[
        "up",
        &format!("{}/../../docs/lab", env!("CARGO_MANIFEST_DIR")),
    ]);
    assert!(said.contains("is up"), "{said}");
    lab.spread("client", "svc/web", 3);
    // A client's key is in it.
    let mode = std::fs::metadata(lab.dir()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // From a pod through the ClusterIP, from a node through itself, and back to a pod itself.
    let pods = lab.items(&["pods"]);
    let first = pods[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(lab.probe(first, "svc/web")["failed"], serde_json::json!({}));
    assert_eq!(
        lab.probe("node-b", "svc/web")["failed"],
        serde_json::json!({})
    );
    let direct = lab.probe("client", "node-c:30080");
    assert_eq!(direct["failed"], serde_json::json!({}));
    // By its name alone, which the search path of the pod completes and the agent of its node answers.
    let by_name = lab.good(&["exec", first, "--", "getent", "ahosts", "web"]);
    let services = lab.items(&["svc"]);
    let web = services.iter().find(|it| it["metadata"]["name"] == "web");
    let address = web.unwrap()["spec"]["clusterIP"].as_str().unwrap();
    assert!(by_name.starts_with(address), "{by_name}");
    // Who looks whether a node is alive finds its Lease.
    let leases = lab.items(&["leases", "-n", "kube-node-lease"]);
    let holders: Vec<_> = leases
        .iter()
        .map(|it| it["spec"]["holderIdentity"].as_str().unwrap())
        .collect();
    assert_eq!(holders, ["node-a", "node-b", "node-c"]);
    let rules = lab.good(&["exec", "node-a", "--", "nft", "list", "ruleset"]);
    assert!(rules.contains("web"), "{rules}");
    let status = lab.good(&["exec", "node-a", "--", SLUICE, "status"]);
    assert!(status.contains("nftables"), "{status}");
    assert!(lab.good(&["list"]).contains(&lab.name));
    assert!(lab.bad(&["up"]).contains("runs already"));
    assert_eq!(machine(), before, "while it runs");
    lab.good(&["down"]);
    assert_eq!(machine(), before, "afterwards");
    assert!(!lab.dir().exists());
    assert!(lab.bad(&["down"]).contains("there is no lab"));
    assert!(lab.bad(&["get", "pods"]).contains("there is no lab"));
}

#[test]
fn nodes_differ_in_their_data_plane_and_meet_over_vxlan() {
    let Some(lab) = Lab::new() else { return };
    let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n---\n\
         apiVersion: v1\nkind: Node\nmetadata: {name: two, annotations: {sluice.dev/proxy-mode: iptables}}\n---\n\
         apiVersion: v1\nkind: Node\nmetadata: {name: three, annotations: {sluice.dev/proxy-mode: ebpf}}\n";
    let file = lab.files.path().join("nodes.yaml");
    std::fs::write(&file, nodes).unwrap();
    let web = format!("{}/../../docs/lab", env!("CARGO_MANIFEST_DIR"));
    let said = lab.good(&["up", "--network", "vxlan", file.to_str().unwrap(), &web]);
    assert!(said.contains("sluice lab exec one --name"), "{said}");
    let nft = lab.good(&["exec", "one", "--", "nft", "list", "tables"]);
    assert!(nft.contains("sluice"), "{nft}");
    let rules = lab.good(&["exec", "two", "--", "iptables-save", "-t", "nat"]);
    assert!(rules.contains("KUBE-SERVICES"), "{rules}");
    let tunnel = lab.good(&["exec", "one", "--", "ip", "-d", "link", "show", "vxlan0"]);
    assert!(tunnel.contains("dstport 8472"), "{tunnel}");
    for from in ["client", "one", "two", "three"] {
        lab.spread(from, "svc/web", 3);
    }
    for pod in lab.items(&["pods"]) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        lab.spread(name, "svc/web", 3);
        // The agent of each node answers.
        lab.good(&["exec", name, "--", "getent", "ahosts", "web"]);
    }
}

#[test]
fn two_labs_do_not_meet() {
    let (Some(first), Some(second)) = (Lab::up(&["--nodes", "1"]), Lab::new()) else {
        return;
    };
    second.good(&["up", "--nodes", "1"]);
    assert_eq!(first.items(&["pods"]).len(), 3);
    assert_eq!(second.items(&["pods"]).len(), 0);
    second.good(&["down"]);
    first.probe("client", "svc/web");
}

#[test]
fn down_goes_on_after_a_lab_that_cannot_be_ended() {
    let labs = tempfile::tempdir().unwrap();
    for name in ["first", "second", "third"] {
        std::fs::create_dir(labs.path().join(name)).unwrap();
    }
    let lock = std::fs::File::create(labs.path().join("second/lock")).unwrap();
    lock.lock().unwrap();
    let mut down = Command::new(SLUICE);
    down.args(["lab", "down", "--all"])
        .env("SLUICE_LABS", labs.path());
    let output = down.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "sluice: lab second: another command starts or ends it\n"
    );
    let left = std::fs::read_dir(labs.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    assert_eq!(left, ["second"]);
}

#[test]
fn a_user_without_privileges_has_a_lab_too() {
    let Some(lab) = Lab::new() else { return };
    // Another user can neither read the target folder nor write root's: a copy of the program, a home of its own.
    let home = lab.files.path();
    let program = home.join("sluice");
    std::fs::copy(SLUICE, &program).unwrap();
    let web = home.join("web.yaml");
    std::fs::copy(
        format!("{}/../../docs/lab/web.yaml", env!("CARGO_MANIFEST_DIR")),
        &web,
    )
    .unwrap();
    let shell = format!(
        "chown -R nobody {home} && chmod 755 {home}",
        home = home.display()
    );
    assert!(
        Command::new("sh")
            .args(["-c", &shell])
            .status()
            .unwrap()
            .success()
    );
    let run = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            "nobody",
            "--regid",
            "nogroup",
            "--clear-groups",
            "--",
        ]);
        command.arg(&program).arg("lab").args(words);
        command
            .env("HOME", home)
            .env("SLUICE_LAB", &lab.name)
            .current_dir(home);
        command.output().unwrap()
    };
    let refused = run(&["up", "--proxy-mode", "ebpf"]);
    assert!(text(&refused.stderr).contains("needs root"), "{refused:?}");
    for mode in ["nftables", "iptables"] {
        let up = run(&[
            "up",
            "--nodes",
            "2",
            "--proxy-mode",
            mode,
            web.to_str().unwrap(),
        ]);
        assert!(up.status.success(), "{mode}: {up:?}");
        let node = "apiVersion: v1\nkind: Node\nmetadata: {name: x, annotations: {sluice.dev/proxy-mode: ipvs}}\n";
        std::fs::write(home.join("node.yaml"), node).unwrap();
        let refused = run(&["apply", "-f", "node.yaml"]);
        assert!(text(&refused.stderr).contains("needs root"), "{refused:?}");
        lab.until("it serves", || {
            let probe = run(&["probe", "client", "svc/web", "-n", "60"]);
            probe.status.success().then_some(())
        });
        let down = run(&["down"]);
        assert!(down.status.success(), "{mode}: {down:?}");
    }
}

/// Kinds of a CustomResourceDefinition, which comes with its objects, at the start of the lab and later.
#[test]
fn a_lab_knows_the_kinds_that_it_was_brought() {
    let Some(lab) = Lab::new() else { return };
    let manifests = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        format!(
            "apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{size: 1}}\n---\n\
             apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.example.com}}\nspec:\n  \
             group: example.com\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}, shortNames: [{}]}}\n  versions:\n  \
             - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        \
             properties: {{spec: {{type: object, properties: {{size: {{type: integer}}}}}}}}\n",
            &plural[..2],
        )
    };
    let file = lab.files.path().join("gadgets.yaml");
    std::fs::write(&file, manifests("Gadget")).unwrap();
    lab.good(&["up", "--nodes", "1", "--no-wait", file.to_str().unwrap()]);
    let output = lab.apply(&manifests("Widget"));
    assert!(output.status.success(), "{output:?}");
    for (name, full) in [("ga", "gadgets"), ("widgets.example.com", "widgets")] {
        assert_eq!(lab.json(&[name, "a"])["spec"]["size"], 1);
        assert_eq!(
            lab.good(&["get", name, "-o", "name"]),
            format!("{full}/a\n")
        );
        lab.good(&["delete", name, "a"]);
        assert!(lab.bad(&["get", name, "a"]).contains("not found"));
    }
    let gone = lab.bad(&["get", "gizmo"]);
    assert!(
        gone.contains("there is no kind gizmo") && gone.contains("widgets"),
        "{gone}"
    );
}
