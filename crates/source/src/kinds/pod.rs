//! Pods.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use sluice_model as model;
use sluice_model::{ContainerPorts, DnsPolicy, IpFamily, PodDns};
use sluice_yaml::quoted;

use super::endpoint_slice::node_name;
use crate::api::{AllLabels, Identity, ObjectMeta, nullable};
use crate::convert::address::{one_of, parse_ip, port, protocol, routable};
use crate::convert::{At, Converted, Faults, Interner, name};
use crate::kind::Kind;
use crate::manifest::Fields;

/// A Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta<AllLabels>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: PodSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: PodStatus,
}

/// `spec` of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    /// `nodeName`; `None` before the pod is scheduled.
    pub(crate) node_name: Option<String>,
    pub(crate) host_network: Option<bool>,
    /// `dnsPolicy`, default ClusterFirst.
    pub(crate) dns_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) dns_config: PodDnsConfig,
    /// `containers`. Init containers are none of them: a sidecar's ports have no names for Services and policies
    /// (`FindPort` in Kubernetes' `pkg/api/v1/pod`).
    #[serde(deserialize_with = "nullable")]
    pub(crate) containers: Vec<Container>,
}

/// One of `spec.containers`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<ContainerPort>,
}

/// One of `spec.containers[].ports`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) name: Option<String>,
    pub(crate) container_port: Option<i64>,
    /// `protocol`, default TCP.
    pub(crate) protocol: Option<String>,
}

/// `spec.dnsConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodDnsConfig {
    #[serde(deserialize_with = "nullable")]
    pub(crate) searches: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) options: Vec<PodDnsOption>,
}

/// One of `spec.dnsConfig.options`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodDnsOption {
    pub(crate) name: Option<String>,
    pub(crate) value: Option<String>,
}

/// `status` of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Option<String>,
    /// `podIP`: the first of `podIPs`.
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Option<String>,
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pub(crate) pod_ips: Vec<PodIp>,
}

/// One of `status.podIPs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub(crate) ip: Option<String>,
}

/// Containers and volumes are not for DNS, so only the fields beside them are checked.
static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks ephemeralContainers evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef
spec.dnsConfig: nameservers options searches
spec.dnsConfig.options[]: name value
status: allocatedResources conditions containerStatuses ephemeralContainerStatuses extendedResourceClaimStatus hostIP hostIPs initContainerStatuses message nodeAllocatableResourceClaimStatuses nominatedNodeName observedGeneration phase podIP podIPs qosClass reason resize resourceClaimStatuses resources startTime volumeHealth
status.podIPs[]: ip",
    )
});

impl Kind for Pod {
    type Model = sluice_model::Pod;
    const PLURAL: &'static str = "pods";
    const OBJECTS: &'static str = "Pods";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    /// A bad address or port is left out; resolver settings that the API server would refuse refuse
    /// the pod, because its search path would not be the one that its resolver uses.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut collected = Faults::new(names);
        let faults = &mut collected;
        let name = name::namespaced(&self.metadata, name::subdomain, faults);
        let node = node_name(self.spec.node_name.as_deref(), At::top("spec"), faults);
        let addresses = addresses(&self.status, faults);
        let dns = dns(&self.spec, faults);
        let labels = name::labels(&self.metadata, faults);
        let ports = ports(&self.spec, faults);
        let object = name.zip(dns).map(|(name, dns)| model::Pod {
            name,
            labels,
            ports,
            node,
            addresses,
            is_terminating: self.metadata.deletion_timestamp.is_some(),
            host_network: self.spec.host_network.unwrap_or_default(),
            dns,
        });
        collected.finish(object)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}

/// The longest list of search domains, and its longest text (`MaxDNSSearchPaths`,
/// `MaxDNSSearchListChars` in Kubernetes' `pkg/apis/core/validation`).
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_TEXT: usize = 2_048;

/// The C library takes a larger `ndots` for this (`RES_MAXNDOTS`, resolv.conf(5)).
const MAX_NDOTS: u8 = 15;

/// The addresses; none once all containers have ended for good, when another pod may have them.
fn addresses(status: &PodStatus, faults: &mut Faults<'_>) -> Vec<IpAddr> {
    if let Some("Succeeded" | "Failed") = status.phase.as_deref() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let at = At::top("status.podIPs");
    for (i, entry) in status.pod_ips.iter().enumerate() {
        let at = at.index(i);
        let text = entry.ip.as_deref().unwrap_or_default();
        add(&mut found, text, at.field("ip"), faults);
    }
    let single = status.pod_ip.as_deref().filter(|it| !it.is_empty());
    if let Some(text) = single.filter(|_| status.pod_ips.is_empty()) {
        add(&mut found, text, At::top("status.podIP"), faults);
    }
    found
}

/// Adds an address, unless it is bad or there is one of its family.
fn add(found: &mut Vec<IpAddr>, text: &str, at: At<'_>, faults: &mut Faults<'_>) {
    let checked = parse_ip(text).and_then(routable).and_then(|ip| {
        let family = IpFamily::of(&ip);
        if found.iter().any(|it| IpFamily::of(it) == family) {
            Err(format!("{ip} is a second {family} address"))
        } else {
            Ok(ip)
        }
    });
    match checked {
        Ok(ip) => found.push(ip),
        Err(why) => faults.note(at, format!("{why}: ignored")),
    }
}

/// The ports that have a name.
fn ports(spec: &PodSpec, faults: &mut Faults<'_>) -> ContainerPorts {
    let containers = At::top("spec.containers");
    let mut found = Vec::new();
    for (i, container) in spec.containers.iter().enumerate() {
        let at = containers.index(i);
        let list = at.field("ports");
        for (i, api) in container.ports.iter().enumerate() {
            let Some(name) = api.name.as_deref().filter(|it| !it.is_empty()) else {
                continue;
            };
            let at = list.index(i);
            let checked = name::label(name).and_then(|name| {
                let number = api.container_port.unwrap_or_default();
                Ok((name, protocol(api.protocol.as_deref())?, port(number)?))
            });
            match checked {
                Ok((name, protocol, port)) => found.push(model::ContainerPort {
                    name: faults.share(name),
                    protocol,
                    port,
                }),
                Err(why) => faults.note(at, format!("{why}: ignored")),
            }
        }
    }
    faults.names().ports(found)
}

fn dns(spec: &PodSpec, faults: &mut Faults<'_>) -> Option<PodDns> {
    let policy = match spec.dns_policy.as_deref().unwrap_or_default() {
        "" | "ClusterFirst" => Ok(DnsPolicy::ClusterFirst),
        "ClusterFirstWithHostNet" => Ok(DnsPolicy::ClusterFirstWithHostNet),
        "Default" => Ok(DnsPolicy::Default),
        "None" => Ok(DnsPolicy::None),
        other => Err(one_of(
            other,
            "ClusterFirst, ClusterFirstWithHostNet, Default, None",
        )),
    };
    let policy = faults.take(At::top("spec.dnsPolicy"), policy);
    let searches = searches(&spec.dns_config.searches, faults);
    Some(PodDns {
        policy: policy?,
        searches: searches?,
        ndots: ndots(&spec.dns_config.options),
    })
}

/// The search domains in their order, without a final dot.
fn searches(list: &[String], faults: &mut Faults<'_>) -> Option<Vec<Arc<str>>> {
    let at = At::top("spec.dnsConfig.searches");
    let characters: usize = list.iter().map(String::len).sum();
    // With a space between two.
    let length = characters + list.len().saturating_sub(1);
    if list.len() > MAX_SEARCHES || length > MAX_SEARCH_TEXT {
        let count = list.len();
        let why = format!(
            "{count} domains of {length} characters, the limits are {MAX_SEARCHES} and {MAX_SEARCH_TEXT}"
        );
        faults.refuse(at, why);
        return None;
    }
    let each = list.iter().enumerate();
    each.map(|(i, text)| faults.text(at.index(i), search(text)))
        .collect()
}

/// Checks a search domain: a DNS subdomain in which `_` is allowed, with or without a final dot, or the root
/// (KEP-4427).
fn search(text: &str) -> Result<&str, String> {
    if text == "." {
        return Ok(text);
    }
    let domain = text.strip_suffix('.').unwrap_or(text);
    let is_domain = sluice_model::is_subdomain(&domain.replace('_', "a"));
    is_domain.then_some(domain).ok_or_else(|| {
        format!(
            "{} is not a search domain (at most 253 of a-z, 0-9, '-', '_' and '.')",
            quoted(text)
        )
    })
}

/// The last `ndots` counts, as for kubelet (`mergeDNSOptions` in `pkg/kubelet/network/dns`).
fn ndots(options: &[PodDnsOption]) -> Option<u8> {
    let mut options = options.iter().rev();
    let last = options.find(|it| it.name.as_deref() == Some("ndots"))?;
    let text = last.value.as_deref()?;
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    // A number that does not fit is above the limit too.
    is_number.then(|| text.parse().unwrap_or(MAX_NDOTS).min(MAX_NDOTS))
}

#[cfg(test)]
mod tests;
