//! Names: those of the cluster are answered, and what is outside is refused.

use std::fs;
use std::process::{Child, Command};

use crate::lab::{Lab, SLUICE, text};

/// A pod that [`answer`] asks from.
pub(super) const ASKS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: asks, annotations: {sluice.dev/command: exec sleep 1000}}
spec: {containers: [{name: c, image: any}]}
";

/// The code of a server's answer to a question for an address; `None` without an answer.
pub(super) fn answer(lab: &Lab, name: &str, server: &str) -> Option<char> {
    let labels = name.split('.').map(|it| format!("\\x{:02x}{it}", it.len()));
    let labels: String = labels.collect();
    // The code of the answer is in the last digit of its fourth byte.
    let script = format!(
        "exec 3<>/dev/udp/{server}/53; printf '\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\
         {labels}\\x00\\x00\\x01\\x00\\x01' >&3; head -c 4 <&3 | od -An -tx1"
    );
    let output = lab.run(&["exec", "asks", "--", "timeout", "5", "bash", "-c", &script]);
    text(&output.stdout).trim().chars().last()
}

#[test]
fn names_outside_the_cluster_are_refused() {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    // No fresh pod was refused a node.
    for it in lab.items(&["events", "-A"]) {
        assert_ne!(it["reason"], "FailedScheduling", "{it}");
    }
    assert!(lab.apply(ASKS).status.success());
    let server = "169.254.20.10";
    for (name, code) in [("web.default.svc.cluster.local", '0'), ("example.com", '5')] {
        lab.until(&format!("{name} of {server}"), || {
            (answer(&lab, name, server) == Some(code)).then_some(())
        });
    }
}

/// A process that ends with the value.
struct Resolver(Child);

impl Drop for Resolver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_machine_answers_for_names_outside() {
    let Some(lab) = Lab::new() else { return };
    let file = |name: &str, text: &str| {
        let path = lab.files.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    // An address of the loopback interface that no other test has.
    let [.., high, low] = std::process::id().to_be_bytes();
    let server = format!("127.53.{high}.{low}");
    let corefile = file(
        "Corefile",
        &format!(".:53 {{\n bind {server}\n hosts {{\n 192.0.2.1 printer.example\n }}\n}}\n"),
    );
    let mut resolver = Command::new(SLUICE);
    resolver.args(["dns", "--conf", &corefile]);
    let _resolver = Resolver(resolver.spawn().unwrap());
    let conf = file("resolv.conf", &format!("nameserver {server}\n"));
    let script = format!(
        "mount --bind {conf} $(readlink -f /etc/resolv.conf) && exec {SLUICE} lab up --nodes 1 --dns-upstream host"
    );
    let mut up = Command::new("unshare");
    up.args(["--mount", "sh", "-c", &script]);
    let up = up.env("SLUICE_LAB", &lab.name).output().unwrap();
    assert!(up.status.success(), "{}", text(&up.stderr));
    assert!(lab.apply(ASKS).status.success());
    for name in ["printer.example", "kube-dns.kube-system.svc.cluster.local"] {
        lab.until(name, || {
            (answer(&lab, name, "169.254.20.10") == Some('0')).then_some(())
        });
    }
    let said = lab.bad(&["up", "--dns-upstream", "none"]);
    assert!(said.contains("runs already"), "{said}");
}
