//! Updates a [`Plan`] at a cost proportional to the change.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::admission::Admission;
use crate::claims::{Claim, Claimant};
use crate::endpoints::{Candidate, Categorized};
use crate::issue::Issue;
use crate::limit::{too_many_endpoints, too_many_frontends};
use crate::port::{Inputs, Wanted, addresses, cluster_ip, is_served, plan_port, wanted};
use crate::settings::Settings;
use crate::state::{ClusterState, ServiceEntry, Touched};
use crate::{Frontend, HealthCheck, NodePlan, Plan, PortKey, PortPlan, Role};
use sluice_model::{
    ClusterIps, Event, IpFamily, NamespacedName, Protocol, Service, ServiceKind, ServicePortName,
};

/// The changes of one [`Planner::replan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Service ports whose plan is new, changed or gone.
    pub ports: BTreeMap<PortKey, PortChange>,
    /// [`Plan::node`] changed.
    pub node: bool,
    /// [`Plan::health_checks`] changed.
    pub health_checks: bool,
}

/// A service port before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// The plan before; `None` for a new port.
    pub old: Option<Arc<PortPlan>>,
    /// The plan now; `None` for a port that is gone.
    pub new: Option<Arc<PortPlan>>,
}

impl Changes {
    /// Nothing changed.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && !self.node && !self.health_checks
    }
}

/// The state, its plan, and the parts that must be planned again.
///
/// Law: after [`replan`](Self::replan) the plan is a function of the state alone, whatever the
/// order of events was, how often they were repeated and how they were batched.
#[derive(Debug)]
pub struct Planner {
    settings: Settings,
    state: ClusterState,
    plan: Plan,
    admission: Admission,
    /// The claims of each Service when it was planned last.
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

    /// The operator's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings. Everything is planned again; an equal result is no change.
    pub fn configure(&mut self, settings: Settings) {
        if settings != self.settings {
            self.settings = settings;
            self.node_dirty = true;
            self.replan_all();
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

    /// The source has delivered its first complete list. Before that, nothing may be applied.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The issues that planning found: by Service, then the node's.
    pub fn issues(&self) -> impl Iterator<Item = Issue> {
        let node_name = &self.settings.node_name;
        let no_node = self.state.node(node_name).is_none().then(|| Issue::NoNode {
            name: node_name.to_string(),
        });
        let of_services = self.service_issues.values().flatten().cloned();
        of_services.chain(no_node)
    }

    /// The problems that sources reported, by origin.
    pub fn problems(&self) -> impl Iterator<Item = (&Arc<str>, &String)> {
        let origins = self.problems.iter();
        origins.flat_map(|(origin, all)| all.iter().map(move |problem| (origin, problem)))
    }

    /// Stores an event. Planning waits for [`replan`](Self::replan).
    pub fn absorb(&mut self, event: Event) {
        let touched = match event {
            Event::Set(object) => self.state.set(object),
            Event::Delete(key) => self.state.delete(&key),
            Event::Problems { origin, problems } => {
                match problems.is_empty() {
                    true => self.problems.remove(&origin),
                    false => self.problems.insert(origin, problems),
                };
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

    /// Plans the Services and the node that changed, and only those.
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
            self.replan_all();
        }
        let node = NodePlan::new(&self.settings, &self.state);
        if node == self.plan.node {
            return;
        }
        // The zone selects endpoints, the node's address extends source ranges.
        let place = |it: &NodePlan| (it.zone.clone(), it.families.each_ref().map(|it| it.node_ip));
        if place(&node) != place(&self.plan.node) {
            self.replan_all();
        }
        self.plan.node = node;
        changes.node = true;
    }

    /// Marks every Service to be planned again.
    fn replan_all(&mut self) {
        let all = self.state.services();
        self.dirty.extend(all.map(|(name, _)| name.clone()));
    }

    /// Updates the claims of one Service. Adds to `affected` the other claimants of each claim whose
    /// holder changes: they gain it, lose it, or report another holder.
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
        // A Service may have 100,000 claims: no search in lists.
        let before: HashSet<_> = old.iter().collect();
        let after: HashSet<_> = new.iter().collect();
        let claims = &mut self.plan.claims;
        let mut others = Vec::new();
        for (claim, claimant) in old.iter().filter(|it| !after.contains(it)) {
            others.extend(claims.remove(*claim, claimant));
        }
        for (claim, claimant) in new.iter().filter(|it| !before.contains(it)) {
            others.extend(claims.add(*claim, claimant.clone()));
        }
        affected.extend(others.into_iter().map(|it| it.name.service));
    }

    fn wanted_claims(&self, name: &NamespacedName) -> Vec<(Claim, Claimant)> {
        let mut claims = Vec::new();
        let Some(service) = self.served(name) else {
            return claims;
        };
        for family in IpFamily::ALL {
            let mut cluster_ip = self.served_cluster_ip(service, family);
            for (key, wanted) in self.ports(service, family) {
                let claimant = Claimant::new(service.created, key);
                if let Some(addr) = cluster_ip.take() {
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
        let mut keys = self.planned_keys(name);
        keys.extend(planned.keys().cloned());
        let endpoints = |port: &Option<Arc<PortPlan>>| port.as_ref().map_or(0, |it| it.weight());
        for key in keys {
            let new = planned.remove(&key).map(Arc::new);
            if self.plan.ports.get(&key) == new.as_ref() {
                continue;
            }
            let old = match &new {
                Some(port) => self.plan.ports.insert(key.clone(), port.clone()),
                None => self.plan.ports.remove(&key),
            };
            self.plan.endpoints = self.plan.endpoints + endpoints(&new) - endpoints(&old);
            changes.ports.insert(key, PortChange { old, new });
        }
    }

    fn renew_health_check(&mut self, name: &NamespacedName, changes: &mut Changes) {
        let inputs = self.served(name).and_then(|it| self.inputs(it));
        let planned = inputs.filter(|it| too_many_endpoints(it.service, it.entry).is_none());
        let new = planned.and_then(|it| HealthCheck::of(it.entry, it.service, it.node_name));
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
        let Some(inputs) = self.inputs(service) else {
            return planned;
        };
        if let Some(issue) = too_many_endpoints(service, inputs.entry) {
            issues.push(issue);
            return planned;
        }
        issues.extend(self.address_issues(service));
        let claims = &self.plan.claims;
        for family in IpFamily::ALL {
            let address = self.served_cluster_ip(service, family);
            // A Service without ports claims no ClusterIP, so no change of the claim replans it.
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
                let mut owned = wanted.clone();
                owned.retain(|it| match claims.owner(&it.frontend) {
                    Some(holder) if *holder != key => {
                        issues.push(Issue::FrontendTaken {
                            frontend: it.frontend,
                            holder: holder.name.clone(),
                            loser: key.name.clone(),
                        });
                        false
                    }
                    _ => true,
                });
                let cluster_ip = address.filter(|ip| claims.cluster_ip_owner(*ip) == Some(&key));
                if !owned.is_empty() || cluster_ip.is_some() {
                    let plan = plan_port(&inputs, key.clone(), &wanted, &owned, cluster_ip);
                    planned.insert(key, plan);
                }
            }
        }
        planned
    }

    /// The endpoints of a service port, and which of them its clients may be sent to.
    pub(crate) fn categorized(
        &self,
        key: &PortKey,
    ) -> Option<(&ServiceEntry, Vec<Candidate<'_>>, Categorized)> {
        let service = self.served(&key.name.service)?;
        let inputs = self.inputs(service)?;
        let (_, wanted) = self.ports(service, key.family).find(|(it, _)| it == key)?;
        let (candidates, categorized) = inputs.categorize(key, &wanted);
        Some((inputs.entry, candidates, categorized))
    }

    fn inputs<'a>(&'a self, service: &'a Service) -> Option<Inputs<'a>> {
        Some(Inputs {
            entry: self.state.service(&service.name)?,
            service,
            node: &self.plan.node,
            node_name: &self.settings.node_name,
        })
    }

    fn served(&self, name: &NamespacedName) -> Option<&Service> {
        let service = self.state.service(name)?.service.as_deref()?;
        (is_served(service) && too_many_frontends(service).is_none()).then_some(service)
    }

    /// Why a Service is not served at all, if that is an issue.
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

    /// The ClusterIP of a family, unless it is refused. Its undefined ports are rejected.
    fn served_cluster_ip(&self, service: &Service, family: IpFamily) -> Option<IpAddr> {
        let ip = cluster_ip(service, family)?;
        self.admission.admits(Role::ClusterIp, ip).then_some(ip)
    }

    /// The issues with the addresses that a Service names, each once.
    fn address_issues(&self, service: &Service) -> BTreeSet<Issue> {
        let all = IpFamily::ALL.into_iter();
        let all = all.flat_map(|family| addresses(service, family));
        let issues = all.filter_map(|(ip, role)| self.admission.issue(&service.name, role, ip));
        issues.collect()
    }

    /// The ports of a Service in one family, each with the frontends that it asks for and that the
    /// operator admits.
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
            let name = service.port_name(port);
            let mut wanted = wanted(service, port, family);
            wanted.retain(admitted);
            (PortKey { name, family }, wanted)
        });
        all.filter(|(_, wanted)| !wanted.is_empty())
    }

    fn planned_keys(&self, name: &NamespacedName) -> BTreeSet<PortKey> {
        let first = PortKey {
            name: ServicePortName {
                service: name.clone(),
                port: "".into(),
                protocol: Protocol::Tcp,
            },
            family: IpFamily::V4,
        };
        let keys = self.plan.ports.range(first..).map(|(key, _)| key);
        keys.take_while(|key| key.name.service == *name)
            .cloned()
            .collect()
    }
}
