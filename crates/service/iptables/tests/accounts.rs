//! Rules that count packets for kube-proxy's metrics, whatever somebody does to them.

use crate::common::{Node, facts, in_namespace, iptables, save, with_examples};
use sluice_model::{Change, NamespacedName};
use sluice_netlink::nfacct::Accounts;
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, service};
use sluice_plane::kube_proxy::{ACCOUNTS, CT_STATE_INVALID_DROPPED, LOCALHOST_NODE_PORTS_ACCEPTED};
use sluice_scenarios::Drive as _;
use sluice_xtables::programs::Variant;

for_each_variant! {
    what_counts_stands_before_what_it_counts_for
    objects_that_somebody_deleted_come_back
    rules_come_and_go_with_their_node_port
}

fn node(variant: Variant) -> Node {
    let mut node = with_examples(variant);
    for (name, port) in [("first", 31_001), ("second", 31_002)] {
        node.tell(vec![service(&format!(
            "ns/{name} 10.96.60.1 :80@{port} NodePort"
        ))]);
        node.tell(endpoints(&format!("ns/{name}"), "10.244.0.5:80@"));
    }
    node.synced();
    node
}

/// Whether each rule of KUBE-NODEPORTS that is for loopback alone is met before the other one.
#[track_caller]
fn assert_order(variant: Variant) {
    let text = save(variant, "iptables", &["-t", "nat"]);
    for name in ["ns/first", "ns/second"] {
        let rules = text
            .lines()
            .filter(|it| it.starts_with("-A KUBE-NODEPORTS "));
        let rules = rules.filter(|it| it.contains(&format!("\"{name}\"")));
        let counts: Vec<bool> = rules
            .map(|it| it.contains(LOCALHOST_NODE_PORTS_ACCEPTED))
            .collect();
        assert_eq!(counts, [true, false], "{text}");
    }
}

fn what_counts_stands_before_what_it_counts_for(variant: Variant) {
    let mut node = node(variant);
    assert_order(variant);
    let before = facts(variant);
    let text = save(variant, "iptables", &["-t", "nat"]);
    let chain = text.lines().filter(|it| it.contains("\"ns/first\""));
    let mut rules = chain.filter_map(|it| it.strip_prefix("-A KUBE-NODEPORTS "));
    let rules = [rules.next().unwrap(), rules.next().unwrap()];
    let [counting, plain] = rules.map(|it| it.replace(['"'], "").replace("  ", " "));
    for deeds in [
        vec![format!("-D KUBE-NODEPORTS {counting}")],
        vec![format!("-D KUBE-NODEPORTS {plain}")],
        vec![
            format!("-D KUBE-NODEPORTS {counting}"),
            format!("-A KUBE-NODEPORTS {counting}"),
        ],
    ] {
        for deed in &deeds {
            iptables(variant, &format!("-t nat {deed}"));
        }
        assert!(!node.resync().is_empty(), "{deeds:?}");
        assert_order(variant);
        assert_eq!(facts(variant), before, "{deeds:?}");
        assert!(node.resync().is_empty(), "{deeds:?}");
    }
}

fn objects_that_somebody_deleted_come_back(variant: Variant) {
    let mut node = node(variant);
    let before = facts(variant);
    iptables(variant, "-t nat -F KUBE-NODEPORTS");
    iptables(variant, "-F KUBE-FORWARD");
    crate::common::run(variant, "ip6tables", &["-F", "KUBE-FORWARD"]);
    let mut accounts = Accounts::open().unwrap();
    for name in ACCOUNTS {
        assert!(accounts.delete(name).unwrap(), "{name}");
    }
    node.resync();
    assert_eq!(facts(variant), before);
    assert!(node.resync().is_empty());
}

fn rules_come_and_go_with_their_node_port(variant: Variant) {
    let mut node = node(variant);
    let before = facts(variant);
    let mut events = vec![service("ns/third 10.96.60.3 :80@31003 NodePort")];
    events.extend(endpoints("ns/third", "10.244.0.5:80@"));
    assert!(!node.change(events).full);
    let rules = facts(variant);
    let new = rules.difference(&before).filter(|it| it.contains("31003"));
    let new: Vec<&String> = new.collect();
    assert_eq!(new.len(), 2, "{new:?}");
    assert!(
        new[0].contains("-d 127.0.0.0/8") && new[0].contains("nfacct"),
        "{new:?}"
    );
    let name = NamespacedName::new("ns", "third");
    node.change(vec![Event::Service(Change::Delete(name))]);
    assert_eq!(facts(variant), before);
}

/// A kernel whose modules can be kept from being loaded.
mod vm_modules {
    use std::fs;
    use std::process::Command;

    use sluice_lab::require_vm;

    use super::*;

    /// Replaces what says how modules are loaded, which nobody but this machine sees.
    fn forbid(modules: &[&str]) {
        let lines = modules
            .iter()
            .map(|it| format!("install {it} /bin/false\n"));
        let folder = "/etc/modprobe.d";
        let mount = ["-t", "tmpfs", "none", folder];
        assert!(
            Command::new("mount")
                .args(mount)
                .status()
                .unwrap()
                .success()
        );
        fs::write(
            format!("{folder}/forbidden.conf"),
            lines.collect::<String>(),
        )
        .unwrap();
    }

    /// Everything but the counting is there, and nothing is written twice.
    fn nothing_is_counted() {
        for variant in Variant::ALL {
            in_namespace(|| {
                let mut node = node(variant);
                assert!(node.resync().is_empty());
                assert!(node.reconciler().refusals().is_empty());
                let rules = facts(variant);
                assert!(!rules.iter().any(|it| it.contains("nfacct")), "{rules:#?}");
                let has = |text: &str| rules.iter().any(|it| it.contains(text));
                assert!(
                    has("--ctstate INVALID -j DROP") && has("--dport 31001"),
                    "{rules:#?}"
                );
            });
        }
    }

    #[test]
    fn without_them_rules_are_written_all_the_same() {
        require_vm!("accounts::vm_modules::without_them_rules_are_written_all_the_same");
        forbid(&["nfnetlink_acct", "xt_nfacct"]);
        nothing_is_counted();
        // The objects alone are of no use.
        forbid(&["xt_nfacct"]);
        nothing_is_counted();
        let mut accounts = Accounts::open().unwrap();
        accounts.ensure(CT_STATE_INVALID_DROPPED).unwrap();
        forbid(&[]);
        for variant in Variant::ALL {
            in_namespace(|| {
                node(variant);
                assert_order(variant);
            });
        }
    }
}
