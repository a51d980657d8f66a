//! Network policies: whether somebody enforces them here.

use super::listed;
use super::process::processes;
use super::proxy::Agent;
use super::report::Finding;

/// How an agent enforces network policies.
#[derive(Clone, Copy, Debug)]
pub struct Enforcement<'a> {
    /// How many pods are isolated, by how many policies.
    pub summary: &'a str,
    /// Why the kernel's rules are not those of the policies; empty when they are.
    pub error: &'a str,
    /// What some policy does not get.
    pub issues: &'a [String],
}

/// A kind of policies, and the programs that enforce it on a node.
struct Kind {
    name: &'static str,
    /// The API server's list of all of them.
    path: &'static str,
    /// Whether an agent of ours does.
    is_ours: bool,
    /// Others that do, as the kernel knows their processes.
    others: &'static [&'static str],
}

/// Enforcers of Kubernetes' own policies, that of k3s among them. The kernel keeps 15 letters of a name.
const OF_KUBERNETES: &[&str] = &[
    "antrea-agent",
    "aws-network-pol",
    "calico-node",
    "cilium-agent",
    "k3s-agent",
    "k3s-server",
    "kindnetd",
    "kube-network-po",
    "kube-router",
    "ovnkube",
    "weave-npc",
];

const KINDS: [Kind; 6] = [
    Kind {
        name: "NetworkPolicy",
        path: "/apis/networking.k8s.io/v1/networkpolicies",
        is_ours: true,
        others: OF_KUBERNETES,
    },
    Kind {
        name: "ClusterNetworkPolicy",
        path: "/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies",
        is_ours: true,
        others: &["antrea-agent", "calico-node", "kube-network-po", "ovnkube"],
    },
    Kind {
        name: "NetworkPolicy of Calico",
        path: "/apis/crd.projectcalico.org/v1/networkpolicies",
        is_ours: false,
        others: &["calico-node"],
    },
    Kind {
        name: "GlobalNetworkPolicy of Calico",
        path: "/apis/crd.projectcalico.org/v1/globalnetworkpolicies",
        is_ours: false,
        others: &["calico-node"],
    },
    Kind {
        name: "CiliumNetworkPolicy",
        path: "/apis/cilium.io/v2/ciliumnetworkpolicies",
        is_ours: false,
        others: &["cilium-agent"],
    },
    Kind {
        name: "CiliumClusterwideNetworkPolicy",
        path: "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies",
        is_ours: false,
        others: &["cilium-agent"],
    },
];

/// Whether policies are in force, and policies of any kind that nothing enforces in this network namespace. `first`: the name
/// of an object of the API server's list at a path.
pub(super) fn policies(
    agent: Option<&Agent<'_>>,
    first: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let enforcement = agent.and_then(|it| it.policies);
    let mut findings: Vec<Finding> = enforcement.iter().map(in_force).collect();
    let processes = processes();
    let runs = |names: &[&str]| processes.iter().any(|(_, it)| names.contains(&&**it));
    findings.extend(unenforced(enforcement.is_some(), first, runs));
    findings
}

fn in_force(enforcement: &Enforcement<'_>) -> Finding {
    let Enforcement {
        summary,
        error,
        issues,
    } = enforcement;
    if !error.is_empty() {
        return Finding::fail("policies", format!("not in force: {error}")).mend("sluice status");
    }
    match issues {
        [] => Finding::ok("policies", *summary),
        issues => Finding::warn("policies", listed(*issues)).mend("sluice status"),
    }
}

fn unenforced(
    is_enforcing: bool,
    first: impl Fn(&str) -> Option<String>,
    runs: impl Fn(&[&str]) -> bool,
) -> Vec<Finding> {
    let kinds = KINDS
        .iter()
        .filter(|it| !(it.is_ours && is_enforcing || runs(it.others)));
    let found = kinds.filter_map(|kind| Some((kind, first(&format!("{}?limit=1", kind.path))?)));
    let findings = found.map(|(kind, object)| {
        let name = kind.name;
        let evidence =
            format!("there is a {name} ({object}), and nothing enforces it on this node");
        Finding::warn("policies", evidence).mend(if kind.is_ours {
            "start the agent with --network-policy".to_owned()
        } else {
            format!(
                "run {}, or write it as a NetworkPolicy or ClusterNetworkPolicy: docs/migration.md",
                kind.others[0]
            )
        })
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which policies nobody enforces where these programs run.
    fn found(is_enforcing: bool, programs: &[&str]) -> Vec<String> {
        let findings = unenforced(
            is_enforcing,
            |path| {
                let is_there = path.contains("networkpolicies") && !path.contains("global");
                is_there.then(|| "a/deny".to_owned())
            },
            |names| names.iter().any(|it| programs.contains(it)),
        );
        findings.into_iter().map(|it| it.evidence).collect()
    }

    #[test]
    fn policies_that_nothing_enforces_are_named() {
        let line = |kind: &str| {
            format!("there is a {kind} (a/deny), and nothing enforces it on this node")
        };
        let theirs = [
            "NetworkPolicy of Calico",
            "CiliumNetworkPolicy",
            "CiliumClusterwideNetworkPolicy",
        ];
        let theirs = theirs.map(line);
        let ours = ["NetworkPolicy", "ClusterNetworkPolicy"].map(line);
        assert_eq!(found(true, &[]), theirs);
        assert_eq!(found(false, &[]), [&ours[..], &theirs].concat());
        assert_eq!(found(false, &["calico-node"]), theirs[1..]);
        assert_eq!(found(true, &["cilium-agent", "calico-node"]), [""; 0]);
    }

    #[test]
    fn what_is_wrong_with_policies_is_said() {
        let enforcement = |error, issues| {
            let summary = "1 of 2 pod addresses isolated";
            let of = Enforcement {
                summary,
                error,
                issues,
            };
            let found = in_force(&of);
            format!("{:?} {}", found.state, found.evidence)
        };
        assert_eq!(enforcement("", &[]), "Ok 1 of 2 pod addresses isolated");
        assert_eq!(enforcement("no room", &[]), "Fail not in force: no room");
        let issues = ["one".to_owned(), "two".to_owned()];
        assert_eq!(enforcement("", &issues), "Warn one, two");
    }
}
