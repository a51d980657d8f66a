//! The flags of the DNS server inside the agent, checked.

use std::net::IpAddr;
use std::path::PathBuf;

use hickory_proto::rr::Name;
use sluice_model::{IpFamily, NamespacedName, is_label};
use sluice_plan::settings::NodeDns;
use sluice_yaml::quoted;

use super::reading::Problems;
use crate::cli::NodeDnsArgs;

/// The domain of clusters that have no other.
const DOMAIN: &str = "cluster.local";

/// The answers of the agent's DNS server, beside its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    /// The domain of the cluster.
    pub(crate) zone: Name,
    /// `None`: the usual Corefile.
    pub(crate) corefile: Option<PathBuf>,
}

impl NodeDnsArgs {
    fn is_on(&self) -> bool {
        self.dns == Some(true)
    }

    /// The addresses, for the plan; every problem is said.
    pub(super) fn check(&self, problems: &mut Problems) -> Option<NodeDns> {
        if !self.is_on() {
            self.idle(problems);
            return None;
        }
        let usual = NodeDns::usual();
        let addresses = self.dns_address.clone().unwrap_or(usual.addresses);
        one_per_family("--dns-address", &addresses, problems);
        let cluster_ips = self.dns_cluster_ip.clone().unwrap_or_default();
        one_per_family("--dns-cluster-ip", &cluster_ips, problems);
        Some(NodeDns {
            service: self.service(problems).unwrap_or(usual.service),
            addresses,
            cluster_ips,
        })
    }

    /// The answers; `None` when the server is off.
    pub(super) fn answers(&self, problems: &mut Problems) -> Option<Answers> {
        let zone = problems.keep(self.zone())?;
        self.is_on().then(|| Answers {
            zone,
            corefile: self.dns_corefile.clone(),
        })
    }

    /// The domain of the cluster, as it is written.
    pub(crate) fn domain(&self) -> &str {
        self.dns_domain.as_deref().unwrap_or(DOMAIN)
    }

    /// The domain of the cluster.
    ///
    /// # Errors
    ///
    /// It is no name.
    pub(crate) fn zone(&self) -> Result<Name, String> {
        let domain = self.domain();
        let wrong = |_| format!("--dns-domain: {} is no DNS name", quoted(domain));
        let mut zone = Name::from_ascii(domain).map_err(wrong)?;
        zone.set_fqdn(true);
        Ok(zone)
    }

    fn service(&self, problems: &mut Problems) -> Option<NamespacedName> {
        let text = self.dns_service.as_deref()?;
        match text.split_once('/') {
            Some((namespace, name)) if is_label(namespace) && is_label(name) => {
                Some(NamespacedName::new(namespace, name))
            }
            _ => {
                let text = quoted(text);
                problems.usage(format!("--dns-service: {text} is not NAMESPACE/NAME"));
                None
            }
        }
    }

    /// Flags that mean nothing without `--dns` are a mistake.
    fn idle(&self, problems: &mut Problems) {
        let given = [
            ("--dns-address", self.dns_address.is_some()),
            ("--dns-service", self.dns_service.is_some()),
            ("--dns-cluster-ip", self.dns_cluster_ip.is_some()),
            ("--dns-corefile", self.dns_corefile.is_some()),
        ];
        for (flag, _) in given.into_iter().filter(|it| it.1) {
            problems.usage(format!("{flag}: only with --dns"));
        }
    }
}

/// A server has one address of each family, as a resolver has.
fn one_per_family(flag: &str, addresses: &[IpAddr], problems: &mut Problems) {
    for family in IpFamily::ALL {
        let count = addresses
            .iter()
            .filter(|it| IpFamily::of(it) == family)
            .count();
        if count > 1 {
            problems.usage(format!(
                "{flag}: {count} {family} addresses, give one at most"
            ));
        }
    }
    for it in addresses
        .iter()
        .filter(|it| it.is_unspecified() || it.is_loopback() || it.is_multicast())
    {
        problems.usage(format!("{flag}: {it} is no address that pods can ask"));
    }
}
