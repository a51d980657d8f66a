//! Addresses and ports for Services (`pkg/registry/core/service/storage/alloc.go`).

mod bands;
mod dropped;
mod families;
mod previous;
mod related;
mod reserved;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, LoadBalancerStatus, Service, ServiceSpec, ServiceStatus,
};
use k8s_openapi::api::networking::v1::{IPAddress, IPAddressSpec, ParentReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use sluice_model::{IpFamily, NamespacedName};

use crate::field::Problems;
use crate::{FieldError, meta};
pub(crate) use dropped::is_external;
pub(crate) use previous::needs_health_check;
pub use reserved::is_allocated;
use reserved::{ALLOCATOR, MANAGED_BY, Reserved};

/// The ranges that Services get addresses and ports from.
#[derive(Clone, Debug)]
pub struct Pools {
    /// Ranges of ClusterIPs. The family of the first range is the default family.
    pub service_cidrs: Vec<IpNet>,
    /// The range of NodePorts and health check NodePorts.
    pub node_ports: RangeInclusive<u16>,
    /// Ranges of load balancer addresses; without any, Services of type LoadBalancer get none.
    pub load_balancers: Vec<IpNet>,
}

/// The addresses and ports of one Service.
#[derive(Clone, Debug, Default, PartialEq)]
struct Claims {
    /// ClusterIPs and load balancer addresses.
    ips: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Claims {
    fn has(&self, port: i32) -> bool {
        u16::try_from(port).is_ok_and(|it| self.ports.contains(&it))
    }
}

/// Why a Service gets no addresses and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// What is wrong with its fields.
    Fields(Vec<FieldError>),
    /// What kube-apiserver calls an internal error: a range is full.
    Failed(String),
}

impl Refusal {
    /// The refusal as what is wrong with fields.
    #[must_use]
    pub fn fields(self) -> Vec<FieldError> {
        match self {
            Self::Fields(found) => found,
            Self::Failed(why) => vec![FieldError::new("spec", why)],
        }
    }

    fn invalid(field: &str, value: impl fmt::Display, why: &str) -> Self {
        let mut problems = Problems::default();
        problems.invalid(field, value, why);
        Self::Fields(problems.found)
    }
}

const TAKEN: &str = "provided port is already allocated";
const FULL: &str = "range is full";

/// Allocates addresses and ports to Services.
#[derive(Clone, Debug)]
pub struct Allocator {
    pools: Pools,
    claims: BTreeMap<NamespacedName, Claims>,
    ips: BTreeMap<IpAddr, NamespacedName>,
    ports: BTreeMap<u16, NamespacedName>,
    reserved: Reserved,
    /// Ranges of ClusterIPs that give no new address: their ServiceCIDRs are being deleted.
    closing: Vec<IpNet>,
}

impl Allocator {
    /// An allocator without Services.
    #[must_use]
    pub fn new(pools: Pools) -> Self {
        Self {
            pools,
            claims: BTreeMap::new(),
            ips: BTreeMap::new(),
            ports: BTreeMap::new(),
            reserved: Reserved::default(),
            closing: Vec::new(),
        }
    }

    /// Sets the IPAddress objects that exist. An address that one of them reserves is not allocated. A Service that
    /// already has such an address keeps it, and is returned as a refusal.
    pub fn set_reserved<'a>(
        &mut self,
        addresses: impl IntoIterator<Item = &'a IPAddress>,
    ) -> Vec<(NamespacedName, FieldError)> {
        self.reserved = Reserved::new(addresses);
        let held = self.reserved.ips().filter_map(|ip| {
            let owner = self.ips.get(&ip)?;
            let why = self.reserved.against(owner, ip)?;
            let why = format!("{why}: delete the Service or the IPAddress");
            Some((owner.clone(), FieldError::new("spec.clusterIPs", why)))
        });
        held.collect()
    }

    /// Replaces the ranges of ClusterIPs. `closing` are those that give no new address. Services keep their addresses.
    pub fn set_service_cidrs(&mut self, open: Vec<IpNet>, closing: Vec<IpNet>) {
        self.pools.service_cidrs = open;
        self.closing = closing;
    }

    /// Records the addresses and ports of the Services of an earlier run, the oldest first. When two Services have the
    /// same one, the later Service is a refusal; its other addresses and ports are recorded.
    pub fn recover<'a>(
        &mut self,
        services: impl IntoIterator<Item = &'a Service>,
    ) -> Vec<(NamespacedName, FieldError)> {
        let mut services: Vec<_> = services.into_iter().collect();
        services.sort_by_key(|it| {
            let created = it.metadata.creation_timestamp.as_ref().map(|it| it.0);
            (created, meta::key(&it.metadata))
        });
        let mut refusals = Vec::new();
        for service in services {
            let (key, claims) = (meta::key(&service.metadata), claims_of(service));
            for ip in &claims.ips {
                if let Some(owner) = self.ips.get(ip).filter(|it| **it != key) {
                    let why = format!("{ip} is Service {owner}'s: delete one of the two Services");
                    refusals.push((key.clone(), FieldError::new("spec.clusterIPs", why)));
                }
            }
            for port in &claims.ports {
                if let Some(owner) = self.ports.get(port).filter(|it| **it != key) {
                    let why =
                        format!("{port} is Service {owner}'s: delete one of the two Services");
                    refusals.push((key.clone(), FieldError::new("spec.ports[].nodePort", why)));
                }
            }
            self.hold(key, claims);
        }
        refusals
    }

    /// Allocates what a Service lacks, and releases what it no longer needs. `old` is the previous version: addresses
    /// and ports that the new version leaves out are kept, and those that its type cannot have are dropped. Nothing
    /// changes when a field is refused.
    ///
    /// # Errors
    ///
    /// All that is wrong with addresses and families, or the first that cannot be allocated.
    pub fn complete(
        &mut self,
        service: &mut Service,
        old: Option<&Service>,
    ) -> Result<(), Refusal> {
        let key = meta::key(&service.metadata);
        let mut new = service.clone();
        let mut problems = Problems::default();
        let spec = new.spec.get_or_insert_default();
        let old_spec = old.and_then(|it| it.spec.as_ref());
        previous::adopt(spec, old_spec);
        if let Some(old) = old_spec {
            dropped::drop_unused(spec, old);
        }
        families::choose(spec, old_spec, &self.families(), &mut problems);
        if let Some(old) = old_spec.filter(|_| problems.found.is_empty()) {
            families::stay(spec, old, &mut problems);
        }
        if !problems.found.is_empty() {
            return Err(Refusal::Fields(problems.found));
        }
        let mut claims = Claims::default();
        self.cluster_ips(&key, spec, &mut claims)?;
        self.node_ports(&key, spec, old.is_none(), &mut claims)?;
        self.load_balancer(&key, &mut new, &mut claims)?;
        self.release(&key);
        self.hold(key, claims);
        *service = new;
        Ok(())
    }

    /// Who has the addresses and ports that a Service asks for: `Service default/web has it`. The refusals of
    /// [`complete`](Self::complete) are kube-apiserver's, which does not say it.
    #[must_use]
    pub fn owners(&self, service: &Service) -> BTreeSet<String> {
        let (key, claims) = (meta::key(&service.metadata), claims_of(service));
        let kept = claims
            .ips
            .iter()
            .filter_map(|ip| self.reserved.against(&key, *ip));
        let ips = claims.ips.iter().filter_map(|it| self.ips.get(it));
        let ports = claims.ports.iter().filter_map(|it| self.ports.get(it));
        let others = ips.chain(ports).filter(|it| **it != key);
        others
            .map(|it| format!("Service {it} has it"))
            .chain(kept)
            .collect()
    }

    /// Whether a Service has an address.
    #[must_use]
    pub fn has_given(&self, ip: IpAddr) -> bool {
        self.ips.contains_key(&ip)
    }

    /// Releases the addresses and ports of a deleted Service.
    pub fn release(&mut self, service: &NamespacedName) {
        let claims = self.claims.remove(service).unwrap_or_default();
        claims.ips.iter().for_each(|it| drop(self.ips.remove(it)));
        claims
            .ports
            .iter()
            .for_each(|it| drop(self.ports.remove(it)));
    }

    /// The IPAddress objects for the ClusterIPs of a Service (KEP-1880).
    pub fn ip_addresses_of(&self, service: &NamespacedName) -> Vec<IPAddress> {
        let is_cluster_ip = |ip: &&IpAddr| self.service_cidrs().any(|it| it.contains(*ip));
        let ips = self.claims.get(service).into_iter().flat_map(|it| &it.ips);
        let ips = ips.filter(is_cluster_ip);
        ips.map(|ip| ip_address(*ip, service)).collect()
    }

    /// The families of the ServiceCIDRs, in their order.
    fn families(&self) -> Vec<IpFamily> {
        let mut families = Vec::new();
        for family in self.service_cidrs().map(IpFamily::of_net) {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        families
    }

    /// The ranges of ClusterIPs, open and closing.
    fn service_cidrs(&self) -> impl Iterator<Item = &IpNet> {
        self.pools.service_cidrs.iter().chain(&self.closing)
    }

    fn hold(&mut self, key: NamespacedName, claims: Claims) {
        for ip in &claims.ips {
            self.ips.entry(*ip).or_insert_with(|| key.clone());
        }
        for port in &claims.ports {
            self.ports.entry(*port).or_insert_with(|| key.clone());
        }
        let mut own = claims;
        own.ips.retain(|it| self.ips.get(it) == Some(&key));
        own.ports.retain(|it| self.ports.get(it) == Some(&key));
        self.claims.insert(key, own);
    }

    fn cluster_ips(
        &self,
        key: &NamespacedName,
        spec: &mut ServiceSpec,
        claims: &mut Claims,
    ) -> Result<(), Refusal> {
        let mut ips = spec.cluster_ips.clone().unwrap_or_default();
        let has_none = ips.first().is_some_and(|it| it == "None");
        if has_none || !previous::needs_cluster_ip(spec) {
            return Ok(());
        }
        let families = spec.ip_families.clone().unwrap_or_default();
        ips.resize(ips.len().max(families.len()), String::new());
        let asked = json!(ips);
        for (i, family) in families.iter().enumerate() {
            let nets = of_family(&self.pools.service_cidrs, family);
            let ip = self.address(key, &ips[i], &nets).map_err(|why| {
                if ips[i].is_empty() {
                    let name = &key.name;
                    Refusal::Failed(format!(
                        "failed to allocate a serviceIP for Service \"{name}\": {why}"
                    ))
                } else {
                    Refusal::invalid("spec.clusterIPs", &asked, &why)
                }
            })?;
            ips[i] = ip.to_string();
            claims.ips.insert(ip);
        }
        spec.cluster_ip = ips.first().cloned();
        spec.cluster_ips = Some(ips);
        Ok(())
    }

    /// The address `wanted`, or any free one if that is empty. The error is why there is none
    /// (`registry/core/service/ipallocator`).
    fn address(
        &self,
        key: &NamespacedName,
        wanted: &str,
        nets: &[&IpNet],
    ) -> Result<IpAddr, String> {
        let is_free = |ip: &IpAddr| match self.ips.get(ip) {
            Some(owner) => owner == key,
            None => self.reserved.against(key, *ip).is_none(),
        };
        if wanted.is_empty() {
            let seed = meta::hash(&[&key.namespace, &key.name]);
            let addresses = nets.iter().flat_map(|it| bands::addresses(it, seed));
            let free = { addresses }.find(is_free);
            return free.ok_or_else(|| FULL.to_owned());
        }
        let wrong = |why: &str| Err(format!("failed to allocate IP {wanted}: {why}"));
        let Ok(ip) = wanted.parse() else {
            return wrong("must be a valid IP address");
        };
        let held = self.ips.get(&ip) == Some(key);
        let closing = self.closing.iter().filter(|_| held);
        let holding: Vec<_> = nets.iter().copied().chain(closing).collect();
        match holding.iter().find(|it| it.contains(&ip)) {
            None => wrong("the provided network does not match the current range"),
            Some(_) if !holding.iter().any(|it| bands::is_usable(it, ip)) => {
                let nets: Vec<_> = nets.iter().map(ToString::to_string).collect();
                wrong(&format!(
                    "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
                    nets.join(", ")
                ))
            }
            Some(_) if !is_free(&ip) => wrong("provided IP is already allocated"),
            Some(_) => Ok(ip),
        }
    }

    fn node_ports(
        &self,
        key: &NamespacedName,
        spec: &mut ServiceSpec,
        is_new: bool,
        claims: &mut Claims,
    ) -> Result<(), Refusal> {
        // One search for all ports of the Service.
        let seed = meta::hash(&[&key.namespace, &key.name]);
        // What the Service asks for at one place is not given to it at another.
        let asked = spec.ports.iter().flatten().filter_map(|it| it.node_port);
        let asked: BTreeSet<i32> = asked.chain(spec.health_check_node_port).collect();
        let free = bands::ports(&self.pools.node_ports, seed);
        let free = free.filter(|it| !asked.contains(&i32::from(*it)));
        let mut free = free.filter(|it| self.ports.get(it).is_none_or(|it| it == key));
        if previous::needs_node_ports(spec) {
            let allocates = spec.type_.as_deref() != Some("LoadBalancer")
                || spec.allocate_load_balancer_node_ports != Some(false);
            let mut ports = spec.ports.take().unwrap_or_default();
            // The same port number of two protocols gets one NodePort, a wanted one if there is any.
            let mut numbers = BTreeMap::new();
            for it in ports
                .iter()
                .filter(|it| it.node_port.unwrap_or_default() != 0)
            {
                numbers.entry(it.port).or_insert(it.node_port);
            }
            // The ports that have got their NodePort.
            let mut given = BTreeSet::new();
            for (i, port) in ports.iter_mut().enumerate() {
                let wanted = port.node_port.filter(|it| *it != 0);
                let wanted = wanted.or_else(|| numbers.get(&port.port).copied().flatten());
                if wanted.is_none() && !allocates {
                    continue;
                }
                // Two ports of a new Service have two NodePorts, but for the same number of two protocols.
                let is_twice = wanted.is_some_and(|it| {
                    is_new && claims.has(it) && !given.contains(&(port.port, it))
                });
                match self.node_port(key, wanted, &mut free, claims) {
                    Ok(number) if !is_twice => {
                        claims.ports.insert(number);
                        port.node_port = Some(number.into());
                        numbers.entry(port.port).or_insert(port.node_port);
                        given.insert((port.port, number.into()));
                    }
                    refused => {
                        let why = refused.err().unwrap_or_else(|| TAKEN.to_owned());
                        let field = format!("spec.ports[{i}].nodePort");
                        return Err(match wanted {
                            Some(wanted) => Refusal::invalid(&field, wanted, &why),
                            None => {
                                Refusal::Failed(format!("failed to allocate a nodePort: {why}"))
                            }
                        });
                    }
                }
            }
            spec.ports = Some(ports);
        }
        if previous::needs_health_check(spec) {
            let wanted = spec.health_check_node_port.filter(|it| *it != 0);
            let is_twice = wanted.is_some_and(|it| claims.has(it));
            match self.node_port(key, wanted, &mut free, claims) {
                Ok(number) if !is_twice => {
                    claims.ports.insert(number);
                    spec.health_check_node_port = Some(number.into());
                }
                refused => {
                    let why = refused.err().unwrap_or_else(|| TAKEN.to_owned());
                    return Err(match wanted {
                        // kube-apiserver calls this an internal error, too, although the client chose the port.
                        Some(wanted) => Refusal::invalid("spec.healthCheckNodePort", wanted, &why),
                        None => Refusal::Failed(format!(
                            "failed to allocate a HealthCheck NodePort 0: {why}"
                        )),
                    });
                }
            }
        }
        Ok(())
    }

    /// The port `wanted`, or the next free one. The error is why there is none (`registry/core/service/portallocator`).
    fn node_port(
        &self,
        key: &NamespacedName,
        wanted: Option<i32>,
        free: &mut impl Iterator<Item = u16>,
        claims: &Claims,
    ) -> Result<u16, String> {
        let range = &self.pools.node_ports;
        let Some(wanted) = wanted else {
            return free
                .find(|it| !claims.ports.contains(it))
                .ok_or_else(|| FULL.to_owned());
        };
        let number = u16::try_from(wanted).ok().filter(|it| range.contains(it));
        let number = number.ok_or_else(|| {
            let why = "provided port is not in the valid range. The range of valid ports is";
            format!("{why} {}-{}", range.start(), range.end())
        })?;
        match self.ports.get(&number) {
            Some(owner) if owner != key => Err(TAKEN.to_owned()),
            _ => Ok(number),
        }
    }

    /// Sets the load balancer addresses, one of each family that has a range. Addresses of another controller, and
    /// Services of another class, stay as they are.
    fn load_balancer(
        &self,
        key: &NamespacedName,
        service: &mut Service,
        claims: &mut Claims,
    ) -> Result<(), Refusal> {
        let refused =
            |ip: &str, why: &str| Refusal::invalid("spec.loadBalancerIP", format!("{ip:?}"), why);
        let spec = service.spec.clone().unwrap_or_default();
        if self.pools.load_balancers.is_empty() || spec.load_balancer_class.is_some() {
            return Ok(());
        }
        if spec.type_.as_deref() != Some("LoadBalancer") {
            if let Some(status) = &mut service.status {
                status.load_balancer = None;
            }
            return Ok(());
        }
        let held: Vec<IpAddr> = ingress_ips(service).collect();
        let mut wanted = spec.load_balancer_ip.unwrap_or_default();
        let mut ingress = Vec::new();
        for family in spec.ip_families.iter().flatten() {
            let nets = of_family(&self.pools.load_balancers, family);
            let is_of = |it: &IpAddr| IpFamily::of(it).to_string() == *family;
            let asked = wanted
                .parse()
                .is_ok_and(|it| is_of(&it))
                .then(|| std::mem::take(&mut wanted));
            let before = held
                .iter()
                .copied()
                .find(|it| is_of(it) && nets.iter().any(|net| net.contains(it)));
            let text = asked
                .or_else(|| before.map(|it| it.to_string()))
                .unwrap_or_default();
            if nets.is_empty() && text.is_empty() {
                continue;
            }
            let ip = self.address(key, &text, &nets);
            let ip = ip.map_err(|why| refused(&text, &why))?;
            claims.ips.insert(ip);
            ingress.push(LoadBalancerIngress {
                ip: Some(ip.to_string()),
                ip_mode: Some("VIP".to_owned()),
                ..LoadBalancerIngress::default()
            });
        }
        if !wanted.is_empty() {
            let why = "must be an address of the Service's families";
            return Err(refused(&wanted, why));
        }
        let status = service.status.get_or_insert_with(ServiceStatus::default);
        status.load_balancer = Some(LoadBalancerStatus {
            ingress: Some(ingress),
        });
        Ok(())
    }
}

fn of_family<'a>(nets: &'a [IpNet], family: &str) -> Vec<&'a IpNet> {
    let nets = nets.iter();
    nets.filter(|it| IpFamily::of_net(it).to_string() == family)
        .collect()
}

/// The addresses and ports that are in a Service's fields.
fn claims_of(service: &Service) -> Claims {
    let spec = service.spec.as_ref();
    let cluster_ips = spec.iter().flat_map(|it| it.cluster_ips.iter().flatten());
    let one = spec.iter().flat_map(|it| it.cluster_ip.iter());
    let ips = cluster_ips.chain(one).filter_map(|it| it.parse().ok());
    let ports = spec.iter().flat_map(|it| it.ports.iter().flatten());
    let ports = ports.filter_map(|it| it.node_port);
    let health = spec.iter().filter_map(|it| it.health_check_node_port);
    let ports = ports.chain(health).filter_map(|it| u16::try_from(it).ok());
    Claims {
        ips: ips.chain(ingress_ips(service)).collect(),
        ports: ports.filter(|it| *it != 0).collect(),
    }
}

fn ingress_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let status = service
        .status
        .iter()
        .filter_map(|it| it.load_balancer.as_ref());
    let ingress = status.flat_map(|it| it.ingress.iter().flatten());
    ingress.filter_map(|it| it.ip.as_deref()?.parse().ok())
}

fn ip_address(ip: IpAddr, service: &NamespacedName) -> IPAddress {
    IPAddress {
        metadata: ObjectMeta {
            name: Some(ip.to_string()),
            labels: Some(BTreeMap::from([
                (
                    "ipaddress.kubernetes.io/ip-family".to_owned(),
                    IpFamily::of(&ip).to_string(),
                ),
                (MANAGED_BY.to_owned(), ALLOCATOR.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            parent_ref: ParentReference {
                group: None,
                resource: "services".to_owned(),
                namespace: Some(service.namespace.to_string()),
                name: service.name.to_string(),
            },
        },
    }
}

#[cfg(test)]
mod tests;
