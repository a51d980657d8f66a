//! Keeps a [`Plan`] up to date at the cost of what changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use crate::admission::Admission;
use crate::claims::{Claim, Claimant};
use crate::endpoints::{Candidate, Categorized};
use crate::issue::Issue;
use crate::limit::{too_many_endpoints, too_many_frontends};
use crate::port::{Inputs, Wanted, addresses, cluster_ip, is_served, plan_port, wanted};
use crate::settings::Settings;
use crate::state::{ClusterState, Touched};
use crate::{Frontend, HealthCheck, NodePlan, Plan, PortKey, PortPlan, Role};
use sluice_model::{
    ClusterIps, Event, IpFamily, NamespacedName, Protocol, Service, ServiceKind, ServicePortName,
};

/// What the last [`Planner::replan`] changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Service ports whose plan is new, different or gone.
    pub ports: BTreeMap<PortKey, PortChange>,
    /// The node's own part is different.
    pub node: bool,
    /// The health checks are different.
    pub health_checks: bool,
}

/// A service port before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// The plan until now.
    pub old: Option<Arc<PortPlan>>,
    /// The plan from now on.
    pub new: Option<Arc<PortPlan>>,
}

impl Changes {
    /// Nothing changed.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && !self.node && !self.health_checks
    }
}

/// The state, the plan made of it, and what still has to be planned.
///
/// Law: after [`replan`](Self::replan) the plan is a function of the state alone, whatever the
/// order of events was, how often they were repeated and how they were batched.
#[derive(Debug)]
pub struct Planner {
    settings: Settings,
    state: ClusterState,
    plan: Plan,
    admission: Admission,
    /// What each Service claims, to take back what it no longer asks for.
    claimed: BTreeMap<NamespacedName, Vec<(Claim, Claimant)>>,
    service_issues: BTreeMap<NamespacedName, Vec<Issue>>,
    problems: BTreeMap<Arc<str>, Vec<String>>,
    dirty: BTreeSet<NamespacedName>,
    node_dirty: bool,
    synced: bool,
}

impl Planner {
    /// An empty plan for this node.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: ClusterState::default(),
            plan: Plan::default(),
            admission: Admission::default(),
            claimed: BTreeMap::new(),
            service_issues: BTreeMap::new(),
            problems: BTreeMap::new(),
            dirty: BTreeSet::new(),
            node_dirty: true,
            synced: false,
        }
    }

    /// The operator's choices.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Other choices from now on. Everything is planned again; what comes out equal is no change.
    pub fn configure(&mut self, settings: Settings) {
        if settings != self.settings {
            self.settings = settings;
            self.node_dirty = true;
            self.soil_services();
        }
    }

    /// The state as the sources describe it.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The plan as of the last [`replan`](Self::replan).
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The source has delivered its first complete list. Before that nothing may be programmed.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// What planning found wrong, by Service, then the node.
    pub fn issues(&self) -> impl Iterator<Item = Issue> {
        let node_name = &self.settings.node_name;
        let no_node = self.state.node(node_name).is_none().then(|| Issue::NoNode {
            name: node_name.to_string(),
        });
        let of_services = self.service_issues.values().flatten().cloned();
        of_services.chain(no_node)
    }

    /// What sources found wrong, by origin.
    pub fn problems(&self) -> impl Iterator<Item = (&Arc<str>, &String)> {
        let origins = self.problems.iter();
        origins.flat_map(|(origin, all)| all.iter().map(move |problem| (origin, problem)))
    }

    /// Takes in what a source says. Cheap: planning waits for [`replan`](Self::replan).
    pub fn absorb(&mut self, event: Event) {
        let touched = match event {
            Event::Set(object) => self.state.set(object),
            Event::Delete(key) => self.state.delete(&key),
            Event::Problems { origin, problems } if problems.is_empty() => {
                self.problems.remove(&origin);
                None
            }
            Event::Problems { origin, problems } => {
                self.problems.insert(origin, problems);
                None
            }
            Event::LocalAddresses(addresses) => self.state.set_local_addresses(addresses),
            Event::Synced => {
                self.synced = true;
                None
            }
        };
        match touched {
            None => {}
            Some(Touched::Services(names)) => self.dirty.extend(names),
            Some(Touched::Node(name)) => self.node_dirty |= name == self.settings.node_name,
            Some(Touched::ServiceCidrs | Touched::LocalAddresses) => self.node_dirty = true,
        }
    }

    /// Plans what is dirty, and only that.
    pub fn replan(&mut self) -> Changes {
        let mut changes = Changes::default();
        if std::mem::take(&mut self.node_dirty) {
            self.replan_node(&mut changes);
        }
        let dirty = std::mem::take(&mut self.dirty);
        let mut affected = BTreeSet::new();
        for name in &dirty {
            self.renew_claims(name, &mut affected);
        }
        for name in affected.union(&dirty) {
            self.replan_service(name, &mut changes);
        }
        changes
    }

    fn replan_node(&mut self, changes: &mut Changes) {
        let admission = Admission::new(&self.settings, &self.state);
        if admission != self.admission {
            self.admission = admission;
            self.soil_services();
        }
        let node = NodePlan::new(&self.settings, &self.state);
        if node == self.plan.node {
            return;
        }
        // Zones decide which endpoints count, node addresses whom source ranges admit.
        let old = &self.plan.node;
        let same_place = node.zone == old.zone
            && IpFamily::ALL
                .into_iter()
                .all(|it| node.family(it).node_ip == old.family(it).node_ip);
        if !same_place {
            self.soil_services();
        }
        self.plan.node = node;
        changes.node = true;
    }

    /// Every Service has to be planned again.
    fn soil_services(&mut self) {
        let all = self.state.services();
        self.dirty.extend(all.map(|(name, _)| name.clone()));
    }

    /// Brings the claims of one Service up to date; `affected` gets the Services that
    /// share a claim which changes hands: they gain it, lose it, or report another holder.
    fn renew_claims(&mut self, name: &NamespacedName, affected: &mut BTreeSet<NamespacedName>) {
        let new = self.wanted_claims(name);
        let old = match new.is_empty() {
            true => self.claimed.remove(name),
            false => self.claimed.insert(name.clone(), new.clone()),
        };
        let old = old.unwrap_or_default();
        if old == new {
            return;
        }
        // There may be very many of them.
        let before: HashSet<_> = old.iter().collect();
        let after: HashSet<_> = new.iter().collect();
        let claims = &mut self.plan.claims;
        for (claim, claimant) in old.iter().filter(|it| !after.contains(it)) {
            let others = claims.remove(*claim, claimant).into_iter();
            affected.extend(others.map(|it| it.name.service));
        }
        for (claim, claimant) in new.iter().filter(|it| !before.contains(it)) {
            let others = claims.add(*claim, claimant.clone()).into_iter();
            affected.extend(others.map(|it| it.name.service));
        }
    }

    fn wanted_claims(&self, name: &NamespacedName) -> Vec<(Claim, Claimant)> {
        let mut claims = Vec::new();
        let Some(service) = self.served(name) else {
            return claims;
        };
        for family in IpFamily::ALL {
            let mut guard = self.guarded(service, family);
            for (key, wanted) in self.ports(service, family) {
                let claimant = Claimant::new(service.created, key);
                if let Some(addr) = guard.take() {
                    claims.push((Claim::ClusterIp(addr), claimant.clone()));
                }
                let frontends = wanted.iter().map(|it| Claim::Frontend(it.frontend));
                claims.extend(frontends.map(|it| (it, claimant.clone())));
            }
        }
        claims
    }

    fn replan_service(&mut self, name: &NamespacedName, changes: &mut Changes) {
        let mut issues = Vec::new();
        let mut planned = self.plan_service(name, &mut issues);
        self.renew_health_check(name, changes);
        match issues.is_empty() {
            true => self.service_issues.remove(name),
            false => self.service_issues.insert(name.clone(), issues),
        };
        for key in self.planned_keys(name) {
            let new = planned.remove(&key);
            if self.plan.ports.get(&key).map(|it| &**it) == new.as_ref() {
                continue;
            }
            self.set_port(key, new, changes);
        }
        for (key, port) in planned {
            self.set_port(key, Some(port), changes);
        }
    }

    fn set_port(&mut self, key: PortKey, new: Option<PortPlan>, changes: &mut Changes) {
        let new = new.map(Arc::new);
        let old = match &new {
            Some(port) => self.plan.ports.insert(key.clone(), port.clone()),
            None => self.plan.ports.remove(&key),
        };
        let endpoints = |port: &Option<Arc<PortPlan>>| port.as_ref().map_or(0, |it| it.weight());
        self.plan.endpoints = self.plan.endpoints + endpoints(&new) - endpoints(&old);
        changes.ports.insert(key, PortChange { old, new });
    }

    fn renew_health_check(&mut self, name: &NamespacedName, changes: &mut Changes) {
        let service = self.served(name).zip(self.state.service(name));
        let planned = service.filter(|(it, entry)| too_many_endpoints(it, entry).is_none());
        let new = planned
            .and_then(|(service, entry)| HealthCheck::of(entry, service, &self.settings.node_name));
        let all = &mut self.plan.health_checks;
        let old = match new {
            Some(check) => all.insert(name.clone(), check),
            None => all.remove(name),
        };
        changes.health_checks |= old != new;
    }

    fn plan_service(
        &self,
        name: &NamespacedName,
        issues: &mut Vec<Issue>,
    ) -> BTreeMap<PortKey, PortPlan> {
        let mut planned = BTreeMap::new();
        let Some(service) = self.served(name) else {
            issues.extend(self.unserved(name));
            return planned;
        };
        let Some(entry) = self.state.service(name) else {
            return planned;
        };
        if let Some(issue) = too_many_endpoints(service, entry) {
            issues.push(issue);
            return planned;
        }
        issues.extend(self.objections(service));
        let inputs = Inputs {
            entry,
            service,
            node: &self.plan.node,
            node_name: &self.settings.node_name,
        };
        let claims = &self.plan.claims;
        for family in IpFamily::ALL {
            let address = self.guarded(service, family);
            // One that claims no port claims no ClusterIP either, and would not hear of changes.
            if !service.ports.is_empty()
                && let Some(addr) = address
                && let Some(holder) = claims.cluster_ip_owner(addr)
                && holder.name.service != *name
            {
                issues.push(Issue::ClusterIpShared {
                    addr,
                    holder: holder.name.service.clone(),
                    other: name.clone(),
                });
            }
            for (key, wanted) in self.ports(service, family) {
                let owned = owned(claims, &key, &wanted, issues);
                let guarded = address.filter(|ip| claims.cluster_ip_owner(*ip) == Some(&key));
                if !owned.is_empty() || guarded.is_some() {
                    let plan = plan_port(&inputs, key.clone(), &wanted, &owned, guarded);
                    planned.insert(key, plan);
                }
            }
        }
        planned
    }

    /// Every endpoint of a service port, and which of them its clients may be sent to.
    pub(crate) fn categorized(&self, key: &PortKey) -> Option<(Vec<Candidate<'_>>, Categorized)> {
        let service = self.served(&key.name.service)?;
        let inputs = Inputs {
            entry: self.state.service(&key.name.service)?,
            service,
            node: &self.plan.node,
            node_name: &self.settings.node_name,
        };
        let (_, wanted) = self.ports(service, key.family).find(|(it, _)| it == key)?;
        let candidates = inputs.candidates(key);
        let categorized = inputs.categorize(&candidates, &wanted);
        Some((candidates, categorized))
    }

    fn served(&self, name: &NamespacedName) -> Option<&Service> {
        let service = self.state.service(name)?.service.as_deref()?;
        (is_served(service) && too_many_frontends(service).is_none()).then_some(service)
    }

    /// What is wrong with a Service that is not served at all.
    fn unserved(&self, name: &NamespacedName) -> Option<Issue> {
        let service = self.state.service(name)?.service.as_deref()?;
        if is_served(service) {
            return too_many_frontends(service);
        }
        let ours = service.proxy_name.is_none() && service.kind != ServiceKind::ExternalName;
        let unassigned = matches!(service.cluster_ips, ClusterIps::Unassigned);
        (ours && unassigned).then(|| Issue::NoClusterIp {
            service: name.clone(),
        })
    }

    /// The ClusterIP whose undefined ports a Service refuses.
    fn guarded(&self, service: &Service, family: IpFamily) -> Option<IpAddr> {
        let ip = cluster_ip(service, family)?;
        self.admission.admits(Role::ClusterIp, ip).then_some(ip)
    }

    /// What people should know about the addresses that a Service names, each told once.
    fn objections(&self, service: &Service) -> Vec<Issue> {
        let all = IpFamily::ALL.into_iter();
        let all = all.flat_map(|family| addresses(service, family));
        let issues = all.filter_map(|(ip, role)| self.admission.issue(&service.name, role, ip));
        let issues: BTreeSet<Issue> = issues.collect();
        issues.into_iter().collect()
    }

    /// The ports of a Service with the frontends that each asks for and may have in one family.
    pub(crate) fn ports(
        &self,
        service: &Service,
        family: IpFamily,
    ) -> impl Iterator<Item = (PortKey, Vec<Wanted>)> {
        let admitted = |it: &Wanted| match it.frontend {
            Frontend::Address { addr, .. } => self.admission.admits(it.role, addr),
            Frontend::NodePort { .. } => true,
        };
        let all = service.ports.iter().map(move |port| {
            let name = ServicePortName {
                service: service.name.clone(),
                port: port.name.clone(),
                protocol: port.protocol,
            };
            let mut wanted = wanted(service, port, family);
            wanted.retain(admitted);
            (PortKey { name, family }, wanted)
        });
        all.filter(|(_, wanted)| !wanted.is_empty())
    }

    fn planned_keys(&self, name: &NamespacedName) -> Vec<PortKey> {
        let first = PortKey {
            name: ServicePortName {
                service: name.clone(),
                port: "".into(),
                protocol: Protocol::Tcp,
            },
            family: IpFamily::V4,
        };
        let from_first = (Bound::Included(first), Bound::Unbounded);
        let keys = self.plan.ports.range(from_first).map(|(key, _)| key);
        keys.take_while(|key| key.name.service == *name)
            .cloned()
            .collect()
    }
}

/// The frontends that a port has for itself; an issue for each that it has not.
fn owned(
    claims: &crate::Claims,
    key: &PortKey,
    wanted: &[Wanted],
    issues: &mut Vec<Issue>,
) -> Vec<Wanted> {
    let mut owned = Vec::with_capacity(wanted.len());
    for it in wanted {
        match claims.owner(&it.frontend) {
            Some(holder) if holder != key => issues.push(Issue::FrontendTaken {
                frontend: it.frontend,
                holder: holder.name.clone(),
                loser: key.name.clone(),
            }),
            _ => owned.push(*it),
        }
    }
    owned
}
