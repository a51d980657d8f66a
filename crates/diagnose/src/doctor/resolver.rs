//! The effects of a resolv.conf on the DNS servers that forward to its servers, and on the pods that get its search
//! path.

use std::net::IpAddr;

use super::listed;
use super::report::{Finding, State};

/// What kubelet keeps: `pkg/apis/core/validation` (`MaxDNSNameservers`, `MaxDNSSearchPaths`, `MaxDNSSearchListChars`).
const MOST_SERVERS: usize = 3;
const MOST_DOMAINS: usize = 32;
const MOST_CHARACTERS: usize = 2048;
/// Domains of a pod that are the cluster's: `namespace.svc.zone`, `svc.zone`, `zone`.
const OF_CLUSTER: usize = 3;

/// The process that forwards queries to the servers of a resolv.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A pod with dnsPolicy Default, as those of the cluster's DNS: loopback is the pod itself.
    Pod,
    /// This machine: a server on loopback is one of its own.
    Machine,
}

/// The servers of a file: whether queries that are forwarded there come back. `ours`: the addresses of the cluster's
/// DNS.
pub(super) fn upstreams(
    path: &str,
    servers: &[IpAddr],
    ours: &[IpAddr],
    reader: Reader,
) -> Finding {
    let all = listed(servers);
    let finding = |state, evidence| Finding::new("upstreams", state, evidence);
    if let Some(own) = servers.iter().find(|it| ours.contains(it)) {
        return finding(
            State::Fail,
            format!("{path}: nameserver {own} is the cluster's DNS, which asks the servers of this file: a loop"),
        )
        .mend(format!("name servers outside the cluster in {path}, or in forward of the Corefile"));
    }
    let stub = servers.iter().find(|it| it.is_loopback());
    if let Some(stub) = stub.filter(|_| reader == Reader::Pod) {
        return finding(
            State::Fail,
            format!("{path}: nameserver {stub} is the pod itself for the pods that get this file, as those of the cluster's DNS"),
        )
        .mend("resolvConf of kubelet's configuration: with systemd-resolved /run/systemd/resolve/resolv.conf");
    }
    match servers.len() {
        0 => finding(
            State::Warn,
            format!("{path}: no nameserver: names outside the cluster are not answered"),
        )
        .mend(format!("nameserver ADDRESS in {path}")),
        count if count > MOST_SERVERS => finding(
            State::Warn,
            format!("{path}: {all}: kubelet and resolvers use the first {MOST_SERVERS}"),
        )
        .mend(format!("leave {MOST_SERVERS} of them in {path}")),
        _ => finding(State::Ok, format!("{path}: {all}")),
    }
}

/// The search path that pods get: the cluster's domains and those of the file.
pub(super) fn search_path(path: &str, search: &[String], domain: &str) -> Finding {
    let count = OF_CLUSTER + search.len();
    // The longest namespace has 63 characters.
    let longest = [
        format!("{}.svc.{domain}", "n".repeat(63)),
        format!("svc.{domain}"),
        domain.to_owned(),
    ];
    let all = longest.iter().map(String::as_str);
    let all = all.chain(search.iter().map(String::as_str));
    let characters: usize = all.map(|it| it.len() + 1).sum();
    if count > MOST_DOMAINS || characters > MOST_CHARACTERS {
        let evidence = format!(
            "{path}: pods get {count} domains of up to {characters} characters: kubelet keeps {MOST_DOMAINS} of \
             {MOST_CHARACTERS} characters"
        );
        return Finding::warn("search path", evidence)
            .mend(format!("fewer domains in search of {path}"));
    }
    // A and AAAA in each domain, then the name itself.
    let queries = 2 * (count + 1);
    let evidence = format!(
        "{OF_CLUSTER} domains of the cluster, {} of {path}: a name outside costs up to {queries} queries with ndots:5",
        search.len()
    );
    Finding::ok("search path", evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/etc/resolv.conf";

    fn line(finding: &Finding) -> String {
        format!("{:?} {}", finding.state, finding.evidence)
    }

    fn of(servers: &[&str], reader: Reader) -> String {
        let parse = |it: &&str| it.parse().expect("an address");
        let servers: Vec<IpAddr> = servers.iter().map(parse).collect();
        let ours = ["10.96.0.10", "169.254.20.10"].map(|it| parse(&it));
        line(&upstreams(PATH, &servers, &ours, reader))
    }

    #[test]
    fn servers_that_lead_back_are_a_loop() {
        let of_cluster = ["192.0.2.1", "10.96.0.10"];
        for reader in [Reader::Pod, Reader::Machine] {
            let found = of(&of_cluster, reader);
            assert!(
                found.starts_with("Fail") && found.contains("a loop"),
                "{found}"
            );
        }
        let stub = ["127.0.0.53"];
        let for_pods = of(&stub, Reader::Pod);
        assert!(
            for_pods.starts_with("Fail") && for_pods.contains("the pod itself"),
            "{for_pods}"
        );
        assert_eq!(
            of(&stub, Reader::Machine),
            "Ok /etc/resolv.conf: 127.0.0.53"
        );
    }

    #[test]
    fn none_and_too_many_are_told() {
        assert!(of(&[], Reader::Pod).starts_with("Warn /etc/resolv.conf: no nameserver"));
        let four = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
        assert!(of(&four, Reader::Pod).ends_with("use the first 3"));
    }

    #[test]
    fn search_paths_have_limits_and_a_price() {
        let path = |count: usize| {
            let search: Vec<String> = (0..count).map(|it| format!("d{it}.example")).collect();
            line(&search_path(PATH, &search, "cluster.local"))
        };
        assert!(
            path(1).ends_with("a name outside costs up to 10 queries with ndots:5"),
            "{}",
            path(1)
        );
        assert!(
            path(30).starts_with("Warn /etc/resolv.conf: pods get 33 domains"),
            "{}",
            path(30)
        );
    }
}
