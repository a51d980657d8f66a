//! What is wrong with the addresses and families of a Service, whatever the cluster has
//! (`ValidateServiceClusterIPsRelatedFields`).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use serde_json::json;
use sluice_model::IpFamily;

use super::previous::{families_of, list, one};
use crate::Format;
use crate::field::Problems;

const FIELD: &str = "spec.clusterIPs";

pub(super) fn check(spec: &ServiceSpec, old: Option<&ServiceSpec>, problems: &mut Problems) {
    let ips = list(spec);
    let one = one(spec);
    match ips.first() {
        None if !one.is_empty() => problems.required(FIELD, ""),
        Some(_) if one.is_empty() => {
            problems.invalid(
                FIELD,
                json!(ips),
                "must be empty when `clusterIP` is not specified",
            );
        }
        Some(first) if first != one => {
            problems.invalid(FIELD, json!(ips), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let families = families_of(spec);
    for (at, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{at}]");
        problems.one_of(&*field, Some(family), &["IPv4", "IPv6"]);
        if families[..at].contains(family) {
            problems.duplicate(field, family);
        }
    }
    let policy = spec.ip_family_policy.as_deref();
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    problems.one_of("spec.ipFamilyPolicy", policy, &policies);
    let before = problems.found.len();
    let known = old.map(list).unwrap_or_default();
    for (at, ip) in ips.iter().enumerate() {
        if at == 0 && ip == "None" {
            if ips.len() > 1 {
                let why = "'None' must be the first and only value";
                problems.invalid(FIELD, json!(ips), why);
            }
        } else if !known.contains(ip) {
            problems.format(format!("{FIELD}[{at}]"), ip, Format::Ip);
        }
    }
    let is_readable = problems.found.len() == before;
    if ips.len() > 2 {
        problems.invalid(FIELD, json!(ips), "may only hold up to 2 values");
    }
    if is_readable {
        of_families(ips, families, problems);
    }
}

/// Addresses are of different families, and of those that the Service names.
fn of_families(ips: &[String], families: &[String], problems: &mut Problems) {
    let found = ips.iter().filter_map(|it| it.parse::<IpAddr>().ok());
    let found: Vec<_> = found.map(|it| IpFamily::of(&it)).collect();
    let is_dual = IpFamily::ALL.iter().all(|it| found.contains(it));
    if ips.len() > 1 && !is_dual {
        let why = "may specify no more than one IP for each IP family";
        problems.invalid(FIELD, json!(ips), why);
    }
    for (at, (found, named)) in found.iter().zip(families).enumerate() {
        let is_family = IpFamily::ALL.iter().any(|it| it.to_string() == *named);
        if is_family && found.to_string() != *named {
            let why = format!("expected an {named} value as indicated by `ipFamilies[{at}]`");
            problems.invalid(format!("{FIELD}[{at}]"), json!(ips[at]), &why);
        }
    }
}
