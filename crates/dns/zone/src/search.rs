//! The search path of a pod: what its resolver asks for a short name.

use hickory_proto::rr::Name;
use sluice_model::{DnsPolicy, Pod};

/// `ndots` that kubelet writes for pods that use the cluster's DNS (`pkg/kubelet/network/dns`, `defaultDNSOptions`).
const NDOTS: u8 = 5;

/// Domains of a search path: kubelet cuts longer ones (`MaxDNSSearchPaths`, `pkg/apis/core/validation`).
const MOST_DOMAINS: usize = 32;

/// What a resolver appends to names, as in `/etc/resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// `search`: fully qualified, in order, each once.
    pub domains: Vec<Name>,
    /// `options ndots:N`: a name with fewer dots is tried in the domains first.
    pub ndots: u8,
}

impl SearchPath {
    /// The path that kubelet writes for a pod; `None` for a pod that does not use the cluster's DNS.
    ///
    /// `zone`: the cluster's domain. `of_node`: the search path of the node's own resolver, which kubelet adds to
    /// that of the cluster.
    #[must_use]
    pub fn of_pod(pod: &Pod, zone: &Name, of_node: &[Name]) -> Option<Self> {
        let uses_cluster = match pod.dns.policy {
            DnsPolicy::ClusterFirst => !pod.host_network,
            DnsPolicy::ClusterFirstWithHostNet => true,
            DnsPolicy::Default | DnsPolicy::None => false,
        };
        if !uses_cluster {
            return None;
        }
        let mut path = Self::of_namespace(&pod.name.namespace, zone)?;
        // A search domain that is no name has no effect in a resolver either.
        let of_pod = pod.dns.searches.iter();
        let of_pod = of_pod.filter_map(|it| Name::from_ascii(&**it).ok());
        for domain in of_node.iter().cloned().chain(of_pod) {
            path.add(domain);
        }
        path.ndots = pod.dns.ndots.unwrap_or(NDOTS);
        Some(path)
    }

    /// The path of every pod of a namespace, as long as neither its node nor the pod adds to it. `None` when the
    /// names would be too long.
    #[must_use]
    pub fn of_namespace(namespace: &str, zone: &Name) -> Option<Self> {
        let mut path = Self {
            domains: Vec::with_capacity(3),
            ndots: NDOTS,
        };
        let services = Name::from_labels([b"svc".as_slice()]).ok()?;
        let services = services.append_domain(zone).ok()?;
        let own = Name::from_labels([namespace.as_bytes()]).ok()?;
        path.add(own.append_domain(&services).ok()?);
        path.add(services);
        path.add(zone.clone());
        Some(path)
    }

    fn add(&mut self, mut domain: Name) {
        domain.set_fqdn(true);
        if self.domains.len() < MOST_DOMAINS && !self.domains.contains(&domain) {
            self.domains.push(domain);
        }
    }

    /// The names that a resolver asks for, in order, until one has an answer (`res_nsearch` of glibc and musl's
    /// `name_from_dns_search`). A name with a final dot is asked as it is. Names that become too long are left out,
    /// as resolvers do.
    pub fn steps(&self, name: &Name) -> Vec<Name> {
        if name.is_fqdn() {
            return vec![name.clone()];
        }
        let mut absolute = name.clone();
        absolute.set_fqdn(true);
        let dots = name.iter().len().saturating_sub(1);
        let within = self.domains.iter();
        let within = within.filter_map(|it| name.clone().append_domain(it).ok());
        if dots >= usize::from(self.ndots) {
            [absolute].into_iter().chain(within).collect()
        } else {
            within.chain([absolute]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use sluice_model::{ContainerPorts, Labels, NamespacedName, PodDns};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_str(text).unwrap()
    }

    fn pod(dns: PodDns) -> Pod {
        Pod {
            name: NamespacedName {
                namespace: "shop".into(),
                name: "cart-0".into(),
            },
            labels: Labels::default(),
            ports: ContainerPorts::default(),
            node: None,
            addresses: Vec::new(),
            is_terminating: false,
            host_network: false,
            dns,
        }
    }

    fn steps(dns: PodDns, asked: &str) -> Vec<String> {
        let zone = name("cluster.local.");
        let path = SearchPath::of_pod(&pod(dns), &zone, &[name("example.org.")]).unwrap();
        path.steps(&name(asked))
            .iter()
            .map(Name::to_ascii)
            .collect()
    }

    #[test]
    fn a_short_name_is_tried_in_every_domain() {
        assert_eq!(
            steps(PodDns::default(), "web.default"),
            [
                "web.default.shop.svc.cluster.local.",
                "web.default.svc.cluster.local.",
                "web.default.cluster.local.",
                "web.default.example.org.",
                "web.default."
            ]
        );
    }

    #[test]
    fn a_final_dot_ends_the_search() {
        assert_eq!(steps(PodDns::default(), "web."), ["web."]);
    }

    #[test]
    fn many_dots_and_ndots_turn_the_order() {
        let dns = PodDns {
            ndots: Some(1),
            searches: vec!["svc.cluster.local".into(), "lan".into()],
            ..PodDns::default()
        };
        assert_eq!(
            steps(dns, "a.b"),
            [
                "a.b.",
                "a.b.shop.svc.cluster.local.",
                "a.b.svc.cluster.local.",
                "a.b.cluster.local.",
                "a.b.example.org.",
                "a.b.lan."
            ]
        );
    }

    #[test]
    fn other_policies_have_other_resolvers() {
        let zone = name("cluster.local.");
        for (policy, host_network, is_ours) in [
            (DnsPolicy::ClusterFirst, false, true),
            (DnsPolicy::ClusterFirst, true, false),
            (DnsPolicy::ClusterFirstWithHostNet, true, true),
            (DnsPolicy::Default, false, false),
            (DnsPolicy::None, false, false),
        ] {
            let mut pod = pod(PodDns {
                policy,
                ..PodDns::default()
            });
            pod.host_network = host_network;
            let path = SearchPath::of_pod(&pod, &zone, &[]);
            assert_eq!(path.is_some(), is_ours, "{policy:?} {host_network}");
        }
    }
}
