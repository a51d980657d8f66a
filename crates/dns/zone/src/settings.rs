//! What one server answers: zones, TTL, which kinds of names.

use std::cmp::Reverse;
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
    zones: Vec<Zone>,
    primary: Name,
}

/// A zone, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) name: Name,
    /// What its SOA names as its server and as the mailbox of who is responsible. Made once: every negative
    /// answer has them.
    pub(crate) soa: [Name; 2],
    /// It is `in-addr.arpa`, `ip6.arpa` or below one of them.
    pub(crate) is_reverse: bool,
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
        let mut zones: Vec<Zone> = zones.into_iter().map(|it| Zone::new(&it)).collect();
        let primary = zones.iter().find(|it| !it.is_reverse);
        let primary = primary.ok_or(NoForwardZone)?.name.clone();
        zones.sort_by_key(|it| Reverse(it.name.iter().len()));
        Ok(Self { zones, primary })
    }

    /// The first forward zone, in lower case.
    #[must_use]
    pub fn primary(&self) -> &Name {
        &self.primary
    }

    /// All zones in lower case, the longest first.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.zones.iter().map(|it| &it.name)
    }

    /// The closest zone around a name, in lower case.
    #[must_use]
    pub fn around(&self, name: &Name) -> Option<&Name> {
        self.closest(name).map(|it| &it.name)
    }

    pub(crate) fn closest(&self, name: &Name) -> Option<&Zone> {
        self.zones.iter().find(|it| it.name.zone_of(name))
    }
}

impl Zone {
    fn new(name: &Name) -> Self {
        let mut name = name.to_lowercase();
        name.set_fqdn(true);
        let labels: Vec<_> = name.iter().rev().take(2).collect();
        Self {
            is_reverse: labels == [b"arpa".as_slice(), b"in-addr"]
                || labels == [&b"arpa"[..], b"ip6"],
            soa: soa_names(&name),
            name,
        }
    }
}

/// The server and the mailbox of a zone. A zone so long that they have no names stands for them.
pub(crate) fn soa_names(zone: &Name) -> [Name; 2] {
    let below = |labels: &[&[u8]]| {
        let mut name = Name::new();
        for label in labels {
            name = name.append_label(*label)?;
        }
        name.append_name(zone)
    };
    let server = below(&[b"ns", b"dns"]);
    [server, below(&[b"hostmaster"])].map(|it| it.unwrap_or_else(|_| zone.clone()))
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
        let around = |name| {
            let zone = zones.around(&Name::from_ascii(name).unwrap());
            zone.map(Name::to_ascii)
        };
        assert_eq!(
            around("a.CLUSTER.local."),
            Some("cluster.local.".to_owned())
        );
        assert_eq!(around("a.local."), Some("local.".to_owned()));
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
