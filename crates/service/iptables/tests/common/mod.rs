//! A node's planner and reconciler without the agent, and the programs of both variants.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use sluice_iptables::{Conntrack, Iptables};
use sluice_lab::Netns;
use sluice_model::IpFamily;
use sluice_netlink::nfacct::Accounts;
use sluice_plane::Proxy;
use sluice_plane::kube_proxy::ACCOUNTS;
use sluice_scenarios::{Drive as _, golden};
use sluice_xtables::programs::{Lock, Programs, Variant};

/// Runs a test for each variant, in a namespace of its own.
macro_rules! for_each_variant {
    ($($name:ident)*) => {
        mod nft {
            $(#[test]
            fn $name() {
                sluice_lab::require_netns!();
                super::in_namespace(|| super::$name(sluice_xtables::programs::Variant::Nft));
            })*
        }
        mod legacy {
            $(#[test]
            fn $name() {
                sluice_lab::require_netns!();
                super::in_namespace(|| super::$name(sluice_xtables::programs::Variant::Legacy));
            })*
        }
    };
}

/// The programs, with a lock that nobody else waits for.
pub(crate) fn programs(variant: Variant) -> Programs {
    let lock = Lock {
        file: Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock"),
        seconds: 60,
    };
    Programs::find(variant).unwrap().with_lock(lock)
}

/// Runs the iptables of a variant in the calling thread's namespace.
pub(crate) fn run(variant: Variant, program: &str, arguments: &[&str]) -> String {
    let program = format!("{program}-{variant}");
    let mut command = Command::new(&program);
    let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock");
    command.env("XTABLES_LOCKFILE", lock).args(["-w", "60"]);
    let output = command.args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Arguments for IPv4, with blanks between them.
pub(crate) fn iptables(variant: Variant, arguments: &str) {
    run(
        variant,
        "iptables",
        &arguments.split(' ').collect::<Vec<_>>(),
    );
}

/// What `iptables-save` or `ip6tables-save` prints.
pub(crate) fn save(variant: Variant, program: &str, arguments: &[&str]) -> String {
    let program = format!("{program}-{variant}-save");
    let output = Command::new(&program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Loads rules, with counters where they have them.
pub(crate) fn restore(variant: Variant, family: IpFamily, rules: &str) {
    let program = match family {
        IpFamily::V4 => "iptables",
        IpFamily::V6 => "ip6tables",
    };
    let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock");
    let mut child = Command::new(format!("{program}-{variant}-restore"))
        .args(["--noflush", "--counters", "-w", "60"])
        .env("XTABLES_LOCKFILE", lock)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(rules.as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success(), "refused:\n{rules}");
}

/// Every chain and rule of both families with its table, without counters. Policies of the kernel's
/// chains are left out: a table that nobody used does not show them.
pub(crate) fn facts(variant: Variant) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for program in ["iptables", "ip6tables"] {
        let mut table = String::new();
        for line in save(variant, program, &[]).lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name.to_owned();
            } else if let Some(chain) = line.strip_prefix(':') {
                let name = chain.split(' ').next().unwrap();
                if chain.contains(" - ") {
                    facts.insert(format!("{program} {table} :{name}"));
                }
            } else if line.starts_with("-A") {
                facts.insert(format!("{program} {table} {line}"));
            }
        }
    }
    facts
}

/// Makes what rules count packets in, in the calling thread's namespace.
pub(crate) fn make_accounts() {
    let mut accounts = Accounts::open().unwrap();
    for name in ACCOUNTS {
        accounts.ensure(name).unwrap();
    }
}

/// Runs a test in a network namespace of its own.
pub(crate) fn in_namespace(test: impl FnOnce() + Send) {
    let netns = Netns::new("kernel").unwrap();
    netns.run(test);
}

/// A proxy of this data plane.
pub(crate) type Node = Proxy<Iptables>;

/// node-a without Services, in kube-proxy's defaults for this mode.
pub(crate) fn node(variant: Variant) -> Node {
    empty(programs(variant))
}

/// node-a with all examples.
pub(crate) fn with_examples(variant: Variant) -> Node {
    with_programs(programs(variant))
}

/// The same, with these programs.
pub(crate) fn with_programs(programs: Programs) -> Node {
    let mut node = empty(programs);
    node.tell(golden::events(&golden::folder()));
    node
}

fn empty(programs: Programs) -> Node {
    let plane = Iptables::with(programs, Conntrack::Strict).unwrap();
    Proxy::new(golden::with_localhost_node_ports(), plane)
}
