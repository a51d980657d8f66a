//! IP families of a Service (`initIPFamilyFields`).

use k8s_openapi::api::core::v1::ServiceSpec;
use sluice_model::IpFamily;

use super::FieldError;

/// Sets `ipFamilyPolicy` and `ipFamilies` from each other, from the requested addresses, and from the families of the
/// ServiceCIDRs.
pub(crate) fn choose(
    spec: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    cluster: &[IpFamily],
    refusals: &mut Vec<FieldError>,
) {
    if spec.type_.as_deref() == Some("ExternalName") {
        return;
    }
    let headless = spec.cluster_ip.as_deref() == Some("None");
    let is_free = headless && spec.selector.as_ref().is_none_or(|it| it.is_empty());
    let before = old.and_then(|it| it.ip_family_policy.clone());
    let default = if is_free {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    let policy = spec.ip_family_policy.clone().or(before);
    let policy = policy.unwrap_or_else(|| default.to_owned());
    spec.ip_family_policy = Some(policy.clone());
    let is_single = policy == "SingleStack";
    let mut families = spec.ip_families.clone().unwrap_or_default();
    let ips = spec.cluster_ips.get_or_insert_default();
    // A dual-stack Service that becomes single-stack gives up its second address.
    if is_single && old.is_some_and(|it| it.ip_family_policy.as_deref() != Some("SingleStack")) {
        ips.truncate(1);
        families.truncate(1);
    }
    for (i, ip) in ips.iter().enumerate().filter(|_| !headless) {
        let family = match ip.parse() {
            Ok(ip) => IpFamily::of(&ip),
            Err(_) if ip.is_empty() => continue,
            Err(_) => {
                let why = format!("{ip:?} is no address");
                refusals.push(FieldError::new(format!("spec.clusterIPs[{i}]"), why));
                continue;
            }
        };
        match families.get(i) {
            None => families.push(family.to_string()),
            Some(named) if *named == family.to_string() => {}
            Some(named) => {
                let why = format!("{ip} is no {named} address, as spec.ipFamilies[{i}] says");
                refusals.push(FieldError::new(format!("spec.clusterIPs[{i}]"), why));
            }
        }
    }
    if is_single && (families.len() > 1 || ips.len() > 1) {
        let why = "SingleStack with two families: write PreferDualStack or RequireDualStack";
        refusals.push(FieldError::new("spec.ipFamilyPolicy", why));
    }
    let first = cluster.first().copied().unwrap_or(IpFamily::V4);
    if families.is_empty() {
        families.push(first.to_string());
    }
    if policy == "RequireDualStack" && cluster.len() < 2 && !is_free {
        let why = "RequireDualStack, but ServiceCIDRs are of one family: write PreferDualStack";
        refusals.push(FieldError::new("spec.ipFamilyPolicy", why));
    }
    if !is_single && families.len() == 1 && (cluster.len() == 2 || is_free) {
        let mut all = IpFamily::ALL.into_iter().map(|it| it.to_string());
        let other = all.find(|it| *it != families[0]);
        families.extend(other);
    }
    for (i, family) in families.iter().enumerate().filter(|_| !is_free) {
        if !cluster.iter().any(|it| it.to_string() == *family) {
            let why = format!("there is no ServiceCIDR of {family}");
            refusals.push(FieldError::new(format!("spec.ipFamilies[{i}]"), why));
        }
    }
    spec.ip_families = Some(families);
}
