//! Names: those of the cluster are answered, and what is outside is refused.

use crate::lab::{Lab, text};

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
