//! What one server answers: zones, TTL, which kinds of names.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::rr::Name;

/// Longest TTL that an operator may choose, in seconds.
pub const MAX_TTL: u32 = 3600;

/// The configuration of one server: what CoreDNS's `kubernetes` plugin can be told about answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The zones that are answered for.
    pub zones: Zones,
    /// TTL of every record but `dns-version`'s, in seconds; more than [`MAX_TTL`] counts as that.
    pub ttl: u32,
    /// Which `a-b-c-d.namespace.pod` names exist.
    pub pods: PodRecords,
    /// An endpoint without hostname is called as its pod, when that is a DNS label.
    pub endpoint_pod_names: bool,
    /// A Service with a ClusterIP but no ready endpoint has no name.
    pub ignore_empty_service: bool,
    /// Nothing is answered from endpoints: headless Services and endpoints have no names.
    pub no_endpoints: bool,
    /// The namespaces whose objects are answered. Empty: all.
    pub namespaces: BTreeSet<Arc<str>>,
    /// The addresses where this server listens, but those of loopback: they decide the NS records, which
    /// are the Services that have these addresses as endpoints, else `ns.dns.<zone>`. Empty: no NS records.
    pub listens: Vec<IpAddr>,
}

impl Settings {
    /// CoreDNS's defaults: TTL 5 s, no names of pods, all namespaces.
    #[must_use]
    pub fn new(zones: Zones) -> Self {
        Self {
            zones,
            ttl: 5,
            pods: PodRecords::Disabled,
            endpoint_pod_names: false,
            ignore_empty_service: false,
            no_endpoints: false,
            namespaces: BTreeSet::new(),
            listens: Vec::new(),
        }
    }
}

/// Which `a-b-c-d.namespace.pod` names exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodRecords {
    /// None.
    Disabled,
    /// One for every address in every namespace, whether a pod has it or not.
    Insecure,
    /// Those of pods that exist, in their namespace. The source must deliver pods.
    Verified,
}

/// The zones of one server. At least one of them is a forward zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones {
    /// The longest names first, so that the first match is the closest.
    names: Vec<Name>,
    primary: Name,
}

/// Only reverse zones were given: PTR records would have nothing to point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no zone below which Services have names, only reverse zones")]
pub struct NoForwardZone;

impl Zones {
    /// Forward zones (`cluster.local`) and reverse zones (`in-addr.arpa`), in any order. PTR records
    /// point into the first forward zone.
    ///
    /// # Errors
    /// When there is no forward zone.
    pub fn new(zones: impl IntoIterator<Item = Name>) -> Result<Self, NoForwardZone> {
        let mut names: Vec<Name> = zones.into_iter().map(|it| absolute(&it)).collect();
        let primary = names.iter().find(|it| !is_reverse(it));
        let primary = primary.cloned().ok_or(NoForwardZone)?;
        names.sort_by_key(|it| std::cmp::Reverse(it.iter().len()));
        Ok(Self { names, primary })
    }

    /// The first forward zone, in lower case.
    #[must_use]
    pub fn primary(&self) -> &Name {
        &self.primary
    }

    /// All zones in lower case, the longest first.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The closest zone around a name.
    #[must_use]
    pub fn around(&self, name: &Name) -> Option<&Name> {
        self.names.iter().find(|it| it.zone_of(name))
    }
}

fn absolute(name: &Name) -> Name {
    let mut name = name.to_lowercase();
    name.set_fqdn(true);
    name
}

/// Whether a zone is `in-addr.arpa`, `ip6.arpa` or below one of them.
pub(crate) fn is_reverse(name: &Name) -> bool {
    let mut labels = name.iter().rev();
    let (top, family) = (labels.next(), labels.next());
    let is =
        |label: Option<&[u8]>, text: &[u8]| label.is_some_and(|it| it.eq_ignore_ascii_case(text));
    is(top, b"arpa") && (is(family, b"in-addr") || is(family, b"ip6"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(names: &[&str]) -> Result<Zones, NoForwardZone> {
        Zones::new(names.iter().map(|it| Name::from_ascii(it).unwrap()))
    }

    #[test]
    fn the_closest_zone_is_found_in_any_case() {
        let zones = zones(&["local.", "ip6.arpa.", "Cluster.Local", "other."]).unwrap();
        let around = |name| zones.around(&Name::from_ascii(name).unwrap());
        assert_eq!(
            around("a.CLUSTER.local.").unwrap().to_ascii(),
            "cluster.local."
        );
        assert_eq!(around("a.local.").unwrap().to_ascii(), "local.");
        assert_eq!(around("xlocal."), None);
        assert_eq!(zones.primary().to_ascii(), "local.");
    }

    #[test]
    fn a_forward_zone_is_needed() {
        assert_eq!(
            zones(&["in-addr.arpa.", "0.1.IP6.arpa."]),
            Err(NoForwardZone)
        );
        assert_eq!(zones(&[]), Err(NoForwardZone));
        assert!(zones(&["10.in-addr.arpa.", "arpa."]).is_ok());
    }
}
