//! IP families of a Service (`initIPFamilyFields` in `registry/core/service/storage/alloc.go`).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use serde_json::json;
use sluice_model::IpFamily;

use super::previous::{families_of, list, needs_cluster_ip, one};
use super::related;
use crate::field::Problems;

const POLICY: &str = "spec.ipFamilyPolicy";

/// Sets `ipFamilyPolicy` and `ipFamilies` from each other, from the requested addresses, and from the families of the
/// ServiceCIDRs.
pub(crate) fn choose(
    spec: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    cluster: &[IpFamily],
    problems: &mut Problems,
) {
    if !needs_cluster_ip(spec) || old.is_some_and(|it| is_settled(spec, it)) {
        return;
    }
    let is_headless = one(spec) == "None";
    // Its endpoints may be of any family.
    let is_free = is_headless && spec.selector.as_ref().is_none_or(|it| it.is_empty());
    let policy = spec.ip_family_policy.get_or_insert_with(|| {
        let before = old.and_then(|it| it.ip_family_policy.clone());
        let default = if is_free {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        before.unwrap_or_else(|| default.to_owned())
    });
    let policy = policy.clone();
    related::check(spec, old, problems);
    if !problems.found.is_empty() {
        return;
    }
    let is_single = policy == "SingleStack";
    let mut ips = list(spec).to_vec();
    let mut families = families_of(spec).to_vec();
    if let Some(old) = old {
        give_up(&policy, &mut ips, list(old), "cluster IP", problems);
        give_up(
            &policy,
            &mut families,
            families_of(old),
            "IP family",
            problems,
        );
    }
    if is_single {
        for (count, what) in [(ips.len(), "cluster IPs"), (families.len(), "IP families")] {
            if count == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                problems.invalid(POLICY, json!(policy), &why);
            }
        }
    }
    let found = ips.iter().map_while(|it| it.parse::<IpAddr>().ok());
    for (at, ip) in found.enumerate().skip(families.len()) {
        let family = IpFamily::of(&ip);
        if cluster.contains(&family) {
            families.push(family.to_string());
        } else {
            let why = format!("{family} is not configured on this cluster");
            problems.invalid(format!("spec.clusterIPs[{at}]"), json!(ips), &why);
        }
    }
    if !problems.found.is_empty() {
        return;
    }
    if !is_free {
        if policy == "RequireDualStack" && cluster.len() < 2 {
            let why = "this cluster is not configured for dual-stack services";
            problems.invalid(POLICY, json!(policy), why);
        }
        for (at, family) in families.iter().enumerate() {
            if !cluster.iter().any(|it| it.to_string() == *family) {
                let field = format!("spec.ipFamilies[{at}]");
                problems.invalid(field, json!(family), "not configured on this cluster");
            }
        }
    }
    if families.is_empty() {
        let first = cluster.first().copied().unwrap_or(IpFamily::V4);
        families.push(first.to_string());
    }
    if !is_single && families.len() == 1 && (cluster.len() == 2 || is_free) {
        let mut all = IpFamily::ALL.into_iter().map(|it| it.to_string());
        let other = all.find(|it| *it != families[0]);
        families.extend(other);
    }
    spec.cluster_ips = Some(ips);
    spec.ip_families = Some(families);
}

/// Whether a Service with any number of families stays as it is, although the cluster may have others by now
/// (`isMatchingPreferDualStackClusterIPFields`).
fn is_settled(new: &ServiceSpec, old: &ServiceSpec) -> bool {
    let prefers = |it: &ServiceSpec| it.ip_family_policy.as_deref() == Some("PreferDualStack");
    prefers(new)
        && prefers(old)
        && new.type_ == old.type_
        && (&new.cluster_ip, list(new)) == (&old.cluster_ip, list(old))
        && families_of(new) == families_of(old)
}

/// A Service that becomes one of a single family gives up the second one of what it had, and no other may have less.
fn give_up(
    policy: &str,
    new: &mut Vec<String>,
    old: &[String],
    what: &str,
    problems: &mut Problems,
) {
    if policy == "SingleStack" {
        if new == old {
            new.truncate(1);
        }
    } else if !new.is_empty() && new.len() < old.len() {
        let why = format!("must be 'SingleStack' to release the secondary {what}");
        problems.invalid(POLICY, json!(policy), &why);
    }
}

/// Refuses other addresses and families than the Service has (`validateUpgradeDowngradeClusterIPs` and
/// `validateUpgradeDowngradeIPFamilies`). A second one may come and go.
pub(crate) fn stay(new: &ServiceSpec, old: &ServiceSpec, problems: &mut Problems) {
    const WHY: &str = "may not change once set";
    if !needs_cluster_ip(new) || !needs_cluster_ip(old) {
        return;
    }
    let is_headless = |it: &ServiceSpec| *list(it) == ["None"];
    let (ips, families) = (list(new), families_of(new));
    // Of lists with as many items each counts, of others the first.
    let changed = |new: &[String], old: &[String]| -> Vec<usize> {
        let both = new.iter().zip(old).enumerate();
        let both = both.filter(|(at, _)| *at == 0 || new.len() == old.len());
        let differing = both.filter(|(_, (new, old))| new != old);
        differing.map(|(at, _)| at).collect()
    };
    if is_headless(new) && is_headless(old) {
        return;
    }
    for at in changed(ips, list(old)) {
        problems.invalid(format!("spec.clusterIPs[{at}]"), json!(ips), WHY);
    }
    if is_headless(new) != is_headless(old) {
        return;
    }
    let before = families_of(old);
    for _ in changed(families, before) {
        // Kubernetes shows the addresses when the number of families changes, too.
        let shown = if families.len() == before.len() {
            json!(families)
        } else {
            json!(ips)
        };
        problems.invalid("spec.ipFamilies[0]", shown, WHY);
    }
}
