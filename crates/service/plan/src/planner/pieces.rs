//! The plans of Services, a large one in pieces.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use super::{Changes, IssueChange, Planner};
use crate::claims::{Claim, Purpose};
use crate::endpoints::{Candidate, Categorized, SlicePorts};
use crate::issue::{self, Issue, Issues, Kind, NodePortProblem};
use crate::limit::{OBJECTS, Price, too_many_frontends, too_many_objects};
use crate::node::of_family;
use crate::port::{
    Inputs, Wanted, addresses, cluster_ip, health_check_node_port, plan_port, virtual_ips,
};
use crate::state::ServiceEntry;
use crate::{HealthCheck, PortKey, PortPlan, Role};
use sluice_model::{EndpointSlice, IpFamily, NamespacedName, Protocol, Service, ServicePortName};

/// How far the planning of one Service has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// About as much work as the Service is.
    size: usize,
    /// Ports planned, of both families.
    ports: usize,
    /// The objects that the planned ports ask for, by family.
    objects: [usize; 2],
    issues: Issues,
    /// Addresses of this node with a ready endpoint, by family.
    healthy: [BTreeSet<IpAddr>; 2],
}

/// Ports that are planned; `None` for one that owns nothing.
type Planned = Vec<(PortKey, Option<PortPlan>)>;

impl Planner {
    /// Plans ports until the work is done, and a piece of the largest Service in any case.
    pub(super) fn plan_ports(&mut self, work: usize, changes: &mut Changes) {
        let mut left = work;
        let mut begun = None;
        while left > 0
            && let Some(name) = self.order.first()
        {
            begun = Some(name.clone());
            self.plan_on(name, &mut left, changes);
        }
        let largest = self.order.last();
        if let Some(name) = largest.filter(|it| begun.as_ref() != Some(it)) {
            self.plan_on(name, &mut (work / 4), changes);
        }
    }

    /// Plans a Service from its beginning, in a later part.
    pub(super) fn plan_later(&mut self, name: NamespacedName) {
        let progress = Progress {
            size: self.size(&name),
            ..Progress::default()
        };
        if let Some(old) = self.unplanned.remove(&name) {
            self.order.remove(&name, old.size);
        }
        self.order.insert(&name, progress.size);
        self.unplanned.insert(name, progress);
    }

    /// Goes on with a Service.
    fn plan_on(&mut self, name: NamespacedName, left: &mut usize, changes: &mut Changes) {
        let mut progress = self.unplanned.remove(&name).unwrap_or_default();
        if self.plan_piece(&name, &mut progress, left, changes) {
            self.order.remove(&name, progress.size);
            self.finish(&name, progress, changes);
            self.planned.push(name);
        } else {
            self.unplanned.insert(name, progress);
        }
    }

    /// About as much work as a Service is.
    fn size(&self, name: &NamespacedName) -> usize {
        let Some(entry) = self.state.service(name) else {
            let planned = PortKey::of_service(&self.plan.ports, name);
            return planned.map(|(_, it)| 1 + it.weight()).sum();
        };
        let slices = entry.slices.values();
        let endpoints: usize = slices.map(|it| it.ports.len() * it.endpoints.len()).sum();
        let frontends = entry.service.as_deref().map_or(0, |it| {
            it.ports.len() * (2 + it.external_ips.len() + it.load_balancer.len())
        });
        endpoints + frontends
    }

    /// Goes on with a Service until the work is done. Returns whether the Service is planned.
    fn plan_piece(
        &mut self,
        name: &NamespacedName,
        progress: &mut Progress,
        left: &mut usize,
        changes: &mut Changes,
    ) -> bool {
        let service = self.served(name);
        let wanted = service.map(|service| {
            let all = IpFamily::ALL.into_iter();
            all.flat_map(|family| self.ports(service, family)).collect()
        });
        let wanted: Vec<(PortKey, Vec<Wanted>)> = wanted.unwrap_or_default();
        // A later piece has none: a Service that changes begins anew.
        let gone = if progress.ports == 0 {
            self.gone_keys(name, &wanted)
        } else {
            Vec::new()
        };
        for key in gone {
            if *left == 0 {
                return false;
            }
            let size = self.plan.ports.get(&key).map_or(0, |it| it.weight());
            *left = left.saturating_sub(1 + size);
            self.store(key, None, changes);
        }
        let (planned, is_finished) = self.plan_wanted(name, &wanted, progress, left);
        for (key, new) in planned {
            self.store(key, new, changes);
        }
        is_finished
    }

    /// Plans the next ports. Returns whether they were the last.
    fn plan_wanted(
        &self,
        name: &NamespacedName,
        wanted: &[(PortKey, Vec<Wanted>)],
        progress: &mut Progress,
        left: &mut usize,
    ) -> (Planned, bool) {
        let mut planned = Vec::new();
        let (Some(service), Some(entry)) = (self.served(name), self.state.service(name)) else {
            return (planned, true);
        };
        let inputs = self.inputs(service, entry);
        if wanted.is_empty() || (progress.ports == 0 && *left > 0) {
            self.service_issues_of(service, &mut progress.issues);
            for (port, slice) in port_mismatches(&inputs) {
                let issue = || issue::port_mismatch(&port, slice);
                progress.issues.push(Kind::PortMismatch, issue);
            }
        }
        for (key, wanted) in wanted.iter().skip(progress.ports) {
            if *left == 0 {
                return (planned, false);
            }
            progress.ports += 1;
            let plan = self.plan_wanted_port(&inputs, key, wanted, progress, left);
            planned.push((key.clone(), plan));
        }
        (planned, true)
    }

    fn plan_wanted_port(
        &self,
        inputs: &Inputs<'_>,
        key: &PortKey,
        wanted: &[Wanted],
        progress: &mut Progress,
        left: &mut usize,
    ) -> Option<PortPlan> {
        let slices = inputs.slices(key.family);
        let endpoints = slices.endpoints(&key.name);
        let costs = self.settings.costs;
        let price = Price::new(inputs.service, key.family, endpoints, costs);
        let objects = &mut progress.objects[key.family as usize];
        let before = *objects;
        let mut once = price.once;
        let owned = wanted.iter().filter(|it| {
            let is_owned = self.owns(key, it, &mut progress.issues);
            if is_owned {
                let asked = std::mem::take(&mut once).saturating_add(price.of(it.role));
                *objects = objects.saturating_add(asked);
            }
            is_owned && *objects <= OBJECTS
        });
        let owned: Vec<Wanted> = owned.copied().collect();
        let cluster_ip = self.served_cluster_ip(inputs.service, key.family);
        let claims = &self.plan.claims;
        let cluster_ip = cluster_ip.filter(|ip| claims.cluster_ip_owner(*ip) == Some(key));
        let work = slices.slices(&key.name) + endpoints + wanted.len();
        let written = objects.saturating_sub(before).min(OBJECTS);
        *left = left.saturating_sub(work + written);
        // A port that gets nothing may have more endpoints than a Service may have.
        let is_within = before < OBJECTS && endpoints <= OBJECTS;
        let needs_health = health_check_node_port(inputs.service).is_some() && is_within;
        let (candidates, sorted) = if !owned.is_empty() || needs_health {
            inputs.categorize(key, wanted)
        } else {
            Default::default()
        };
        if needs_health {
            let here = candidates.iter().filter(|it| it.local && it.is_ready());
            progress.healthy[key.family as usize].extend(here.map(|it| it.addr.ip()));
        }
        let is_planned = !owned.is_empty() || cluster_ip.is_some();
        is_planned.then(|| {
            let endpoints = (&candidates[..], &sorted);
            plan_port(inputs, key.clone(), endpoints, &owned, cluster_ip)
        })
    }

    /// Whether a port owns a frontend that it asks for; an issue if not.
    fn owns(&self, key: &PortKey, wanted: &Wanted, issues: &mut Issues) -> bool {
        let claims = &self.plan.claims;
        // One issue tells it of all ports of the address.
        if claims.bars(&wanted.frontend, wanted.role) {
            return false;
        }
        let Some(holder) = claims.holder(Claim::Frontend(wanted.frontend)) else {
            return true;
        };
        let holder_name = &holder.key().name;
        match holder.purpose() {
            Purpose::Traffic if holder.key() == key => return true,
            Purpose::Traffic => issues.push(Kind::FrontendTaken, || {
                issue::frontend_taken(wanted.frontend, holder_name, &key.name)
            }),
            Purpose::HealthCheck => issues.push(Kind::NodePortRefused, || {
                let problem = NodePortProblem::HealthCheck(holder_name.service.clone());
                let port = wanted.frontend.port();
                issue::node_port_refused(&key.name.service, NODE_PORT, port, &problem)
            }),
        }
        false
    }

    /// Everything about a Service is planned: its issues and its health check are known.
    fn finish(&mut self, name: &NamespacedName, mut progress: Progress, changes: &mut Changes) {
        if let Some(service) = self.served(name) {
            let limits = IpFamily::ALL.map(|family| {
                let objects = progress.objects[family as usize];
                too_many_objects(service, family, objects)
            });
            progress.issues.extend(limits.into_iter().flatten());
        }
        self.renew_health_check(name, &progress.healthy, changes);
        let new = progress.issues.of(name);
        let old = if new.is_empty() {
            self.service_issues.remove(name)
        } else {
            self.service_issues.insert(name.clone(), new.clone())
        };
        let old = old.unwrap_or_default();
        if old != new {
            changes
                .issues
                .insert(name.clone(), IssueChange { old, new });
        }
    }

    /// Replaces the plan of a port.
    pub(super) fn store(&mut self, key: PortKey, new: Option<PortPlan>, changes: &mut Changes) {
        let known = self.plan.ports.get(&key).map(AsRef::as_ref);
        if known == new.as_ref() {
            return;
        }
        let endpoints = |port: &Option<Arc<PortPlan>>| port.as_ref().map_or(0, |it| it.weight());
        let new = new.map(Arc::new);
        let old = match &new {
            Some(port) => self.plan.ports.insert(key.clone(), port.clone()),
            None => self.plan.ports.remove(&key),
        };
        self.plan.endpoints = self.plan.endpoints + endpoints(&new) - endpoints(&old);
        changes.record(key, old, new);
    }

    fn renew_health_check(
        &mut self,
        name: &NamespacedName,
        healthy: &[BTreeSet<IpAddr>; 2],
        changes: &mut Changes,
    ) {
        let new = self.served(name).and_then(|service| {
            let owned = self.owned_health_check(service);
            let local =
                IpFamily::ALL.map(|it| owned[it as usize].map(|_| healthy[it as usize].len()));
            let port = owned.into_iter().flatten().next()?;
            Some(HealthCheck { port, local })
        });
        let all = &mut self.plan.health_checks;
        let old = match new {
            Some(check) => all.insert(name.clone(), check),
            None => all.remove(name),
        };
        changes.health_checks |= old != new;
    }

    /// The health check node port of a Service in each family, where the Service owns it.
    fn owned_health_check(&self, service: &Service) -> [Option<NonZeroU16>; 2] {
        IpFamily::ALL.map(|family| {
            let (claim, claimant) = self.health_check_claim(service, family)?;
            let is_owner = self.plan.claims.holder(claim) == Some(&claimant);
            health_check_node_port(service).filter(|_| is_owner)
        })
    }

    /// The issues of a Service apart from those of single ports.
    fn service_issues_of(&self, service: &Service, issues: &mut Issues) {
        for family in IpFamily::ALL {
            let own = cluster_ip(service, family);
            let mut seen = HashSet::new();
            for (addr, role) in addresses(service, family).filter(|it| seen.insert(*it)) {
                if role == Role::ClusterIp || own != Some(addr) {
                    issues.extend(self.address_issue(service, role, addr));
                }
            }
            let is_open = || of_family(&service.source_ranges, family).is_empty();
            if !service.source_ranges.is_empty()
                && let Some(addr) = virtual_ips(service).find(|ip| IpFamily::of(ip) == family)
                && is_open()
            {
                issues.push(Kind::SourceRangesOfOneFamily, || {
                    issue::source_ranges_of_one_family(&service.name, family, addr)
                });
            }
            let asked = self
                .asked(service, family)
                .len()
                .saturating_mul(service.ports.len());
            let node_ports = service.ports.iter().filter(|it| it.node_port.is_some());
            let asked = asked.saturating_add(own.map_or(0, |_| node_ports.count()));
            issues.extend(too_many_frontends(service, family, asked));
        }
        for port in &service.ports {
            let number = port.node_port.map(NonZeroU16::get);
            let problem_of = |it| self.admission.node_port_problem(it, port.protocol);
            if let Some((number, problem)) = number.and_then(|it| Some((it, problem_of(it)?))) {
                issues.push(Kind::NodePortRefused, || {
                    issue::node_port_refused(&service.name, NODE_PORT, number, &problem)
                });
            }
        }
        issues.extend(self.health_check_issue(service));
    }

    fn address_issue(&self, service: &Service, role: Role, addr: IpAddr) -> Option<Issue> {
        let name = &service.name;
        if !self.admission.admits(role, addr) {
            return self.admission.issue(name, role, addr);
        }
        let owner = self.plan.claims.cluster_ip_owner(addr);
        let holder = owner.map(|it| &it.name.service);
        // A Service without ports claims no ClusterIP, so no change of the claim replans it.
        let holder = holder.filter(|it| *it != name && !service.ports.is_empty());
        match (holder, role) {
            (None, _) => self.admission.issue(name, role, addr),
            (Some(holder), Role::ClusterIp) => Some(issue::cluster_ip_shared(name, addr, holder)),
            (Some(holder), _) => Some(issue::cluster_ip_taken(name, role, addr, holder)),
        }
    }

    fn health_check_issue(&self, service: &Service) -> Option<Issue> {
        let port = health_check_node_port(service)?.get();
        let problem = match self.admission.node_port_problem(port, Protocol::Tcp) {
            Some(problem) => problem,
            None => IpFamily::ALL.into_iter().find_map(|family| {
                let (claim, claimant) = self.health_check_claim(service, family)?;
                let holder = self.plan.claims.holder(claim);
                let holder = holder.filter(|it| **it != claimant)?;
                let name = holder.key().name.service.clone();
                Some(match holder.purpose() {
                    Purpose::Traffic => NodePortProblem::NodePort(name),
                    Purpose::HealthCheck => NodePortProblem::HealthCheck(name),
                })
            })?,
        };
        let field = "spec.healthCheckNodePort";
        Some(issue::node_port_refused(
            &service.name,
            field,
            port,
            &problem,
        ))
    }

    /// The endpoints of a service port, and which of them its clients may be sent to.
    pub(crate) fn categorized(
        &self,
        key: &PortKey,
    ) -> Option<(Inputs<'_>, Vec<Candidate<'_>>, Categorized)> {
        let service = self.served(&key.name.service)?;
        let inputs = self.inputs(service, self.state.service(&service.name)?);
        let (_, wanted) = self.ports(service, key.family).find(|(it, _)| it == key)?;
        let (candidates, categorized) = inputs.categorize(key, &wanted);
        Some((inputs, candidates, categorized))
    }

    fn inputs<'a>(&'a self, service: &'a Service, entry: &'a ServiceEntry) -> Inputs<'a> {
        let owned = self.owned_health_check(service);
        Inputs {
            service,
            slices: IpFamily::ALL.map(|family| SlicePorts::new(entry, family)),
            health_check_node_port: owned.map(|it| it.map(NonZeroU16::get)),
            node: &self.plan.node,
            settings: &self.settings,
            state: &self.state,
        }
    }

    /// The planned ports that a Service wants no more.
    fn gone_keys(&self, name: &NamespacedName, wanted: &[(PortKey, Vec<Wanted>)]) -> Vec<PortKey> {
        let wanted: HashSet<&PortKey> = wanted.iter().map(|(key, _)| key).collect();
        let planned = PortKey::of_service(&self.plan.ports, name).map(|(key, _)| key);
        let gone = planned.filter(|it| !wanted.contains(it));
        gone.cloned().collect()
    }
}

/// The ports of a Service that no slice names although there are endpoints: in the first family of
/// the Service for which that is so, with its first slice that has an endpoint.
fn port_mismatches<'a>(
    inputs: &Inputs<'a>,
) -> impl Iterator<Item = (ServicePortName, &'a EndpointSlice)> {
    let service = inputs.service;
    let families = IpFamily::ALL.into_iter();
    let families = families.filter(|it| cluster_ip(service, *it).is_some());
    let families: Vec<_> = families.map(|it| inputs.slices(it)).collect();
    service.ports.iter().filter_map(move |port| {
        let port = service.port_name(port);
        let slice = families.iter().find_map(|it| it.mismatch(&port))?;
        Some((port, slice))
    })
}

const NODE_PORT: &str = "spec.ports.nodePort";
