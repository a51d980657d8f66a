//! What a pod's names and its `/etc/resolv.conf` are made of (`validatePodDNSConfig`, `ValidatePodSpec`).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use crate::Format;
use crate::field::Problems;

/// Most name servers, of glibc's resolver (`MAXNS` in `resolv.h`).
const MAX_SERVERS: usize = 3;
/// Most search domains, and most letters of all of them (`MaxDNSSearchPaths`, `MaxDNSSearchListChars`).
const MAX_SEARCHES: usize = 32;
const MAX_LETTERS: usize = 2048;

pub(super) fn check(path: &str, spec: &PodSpec, problems: &mut Problems) {
    let (path, has_none) = (
        format!("{path}.dnsConfig"),
        spec.dns_policy.as_deref() == Some("None"),
    );
    match &spec.dns_config {
        None if has_none => {
            problems.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        }
        None => {}
        Some(config) => {
            if has_none && config.nameservers.as_ref().is_none_or(Vec::is_empty) {
                let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                problems.required(format!("{path}.nameservers"), why);
            }
            check_config(&path, config, problems);
        }
    }
}

fn check_config(path: &str, config: &PodDNSConfig, problems: &mut Problems) {
    let servers = config.nameservers.as_deref().unwrap_or_default();
    let searches = config.searches.as_deref().unwrap_or_default();
    if servers.len() > MAX_SERVERS {
        problems.too_many(format!("{path}.nameservers"), servers.len(), MAX_SERVERS);
    }
    for (at, server) in servers.iter().enumerate() {
        if server.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            problems.invalid(
                format!("{path}.nameservers[{at}]"),
                format!("{server:?}"),
                why,
            );
        }
    }
    if searches.len() > MAX_SEARCHES {
        problems.too_many(format!("{path}.searches"), searches.len(), MAX_SEARCHES);
    }
    let letters = searches.iter().map(|it| it.len() + 1).sum::<usize>();
    if letters > MAX_LETTERS + 1 {
        let why = format!(
            "must not have more than {MAX_LETTERS} characters (including spaces) in the search list"
        );
        problems.invalid(format!("{path}.searches"), letters - 1, &why);
    }
    for (at, search) in searches.iter().enumerate().filter(|(_, it)| *it != ".") {
        // As kube-apiserver since 1.34, which accepts underscores.
        let domain = search.strip_suffix('.').unwrap_or(search).replace('_', "a");
        for why in Format::Subdomain.problems(&domain) {
            problems.invalid(
                format!("{path}.searches[{at}]"),
                format!("{search:?}"),
                &why,
            );
        }
    }
    for (at, option) in config.options.iter().flatten().enumerate() {
        let name = option.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            problems.required(format!("{path}.options[{at}].name"), "must not be empty");
        }
        // Stricter than kube-apiserver: a line break would add a line to the file.
        for (field, value) in [
            ("name", name),
            ("value", option.value.as_deref().unwrap_or_default()),
        ] {
            if value.contains(|it: char| it.is_whitespace() || it.is_control()) {
                let field = format!("{path}.options[{at}].{field}");
                problems.invalid(field, format!("{value:?}"), "must not contain white space");
            }
        }
    }
}

#[cfg(test)]
mod tests;
