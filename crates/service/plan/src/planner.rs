//! Updates a [`Plan`] at a cost proportional to the change.

mod claiming;
mod order;
mod pieces;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::admission::Admission;
use crate::claims::{Claim, Claimant};
use crate::issue::{self, Issue};
use crate::limit::FRONTENDS;
use crate::port::{Wanted, addresses, cluster_ip, is_served, wanted};
use crate::settings::{DirectReturn, LocalDetector, Settings};
use crate::state::{ClusterState, Touched};
use crate::{Event, NodePlan, Plan, PortKey, PortPlan, Role};
use order::Order;
use pieces::Progress;
use sluice_model::{IpFamily, NamespacedName, Notice, Service};

/// The changes of one [`Planner::replan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Service ports whose plan is new, changed or gone.
    pub ports: BTreeMap<PortKey, PortChange>,
    /// Whether [`Plan::node`] changed.
    pub node: bool,
    /// Whether [`Plan::health_checks`] changed.
    pub health_checks: bool,
    /// The issues of Services whose issues changed.
    pub issues: BTreeMap<NamespacedName, IssueChange>,
    /// The origins whose [problems](Planner::problems) changed.
    pub problems: BTreeSet<Arc<str>>,
}

/// The issues of a Service before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueChange {
    pub old: Vec<Issue>,
    pub new: Vec<Issue>,
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
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Records a change of a port. The port may have changed before.
    fn record(&mut self, key: PortKey, old: Option<Arc<PortPlan>>, new: Option<Arc<PortPlan>>) {
        match self.ports.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(PortChange { old, new });
            }
            Entry::Occupied(slot) if slot.get().old == new => {
                slot.remove();
            }
            Entry::Occupied(mut slot) => slot.get_mut().new = new,
        }
    }
}

/// What may differ of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differs {
    /// What it claims, and everything else.
    Claims,
    /// Its endpoints alone.
    Endpoints,
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
    changed_problems: BTreeSet<Arc<str>>,
    /// Services that changed.
    dirty: BTreeMap<NamespacedName, Differs>,
    /// Services whose claims are up to date and whose ports are not.
    unplanned: BTreeMap<NamespacedName, Progress>,
    /// The same Services.
    order: Order,
    /// The Services that the last replan has planned to the end.
    planned: Vec<NamespacedName>,
    /// Claims without an owner, with the service port whose plan may still contain them.
    leaving: HashMap<Claim, PortKey>,
    node_dirty: bool,
    /// Nodes that endpoints may be on have changed, with direct server return.
    others_dirty: bool,
    synced: bool,
    revision: u64,
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
            changed_problems: BTreeSet::new(),
            dirty: BTreeMap::new(),
            unplanned: BTreeMap::new(),
            order: Order::default(),
            planned: Vec::new(),
            leaving: HashMap::new(),
            node_dirty: true,
            others_dirty: false,
            synced: false,
            revision: 0,
        }
    }

    /// Grows with every change of the settings, the state or the plan: while it stays the same, so
    /// does every answer that is a function of the planner.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings. Everything is planned again; an equal result is no change.
    pub fn configure(&mut self, settings: Settings) {
        if settings != self.settings {
            self.settings = settings;
            self.revision += 1;
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
        let of_services = self.service_issues.values().flatten().cloned();
        of_services.chain(self.node_issues())
    }

    pub fn issues_of(&self, service: &NamespacedName) -> &[Issue] {
        self.service_issues.get(service).map_or(&[], Vec::as_slice)
    }

    pub fn node_issues(&self) -> Vec<Issue> {
        let node = self.state.node(&self.settings.node_name);
        let name = &self.settings.node_name;
        let no_node = node.is_none().then(|| issue::no_node(name));
        let no_pod_cidr = self.settings.local_detector == LocalDetector::NodeCidr
            && node.is_none_or(|it| it.pod_cidrs.is_empty());
        let no_pod_cidr = no_pod_cidr.then(|| issue::no_pod_cidr(name));
        let of_node = no_node.into_iter().chain(no_pod_cidr);
        of_node.chain(self.dns_issues()).collect()
    }

    /// Issues of Services that the settings of the node's DNS server name and that do not exist.
    fn dns_issues(&self) -> Vec<Issue> {
        let Some(dns) = self.settings.dns.as_ref().filter(|_| self.synced) else {
            return Vec::new();
        };
        let service = &dns.service;
        let Some(served) = self.served(service) else {
            return vec![issue::no_dns_service(service)];
        };
        let is_own = |it: &&IpAddr| cluster_ip(served, IpFamily::of(it)) == Some(**it);
        let wrong = dns.cluster_ips.iter().filter(|it| !is_own(it));
        wrong
            .map(|it| issue::wrong_dns_cluster_ip(*it, service))
            .collect()
    }

    /// The problems that sources reported, by origin.
    pub fn problems(&self) -> impl Iterator<Item = (&Arc<str>, &String)> {
        let origins = self.problems.iter();
        origins.flat_map(|(origin, all)| all.iter().map(move |problem| (origin, problem)))
    }

    pub fn problems_of(&self, origin: &str) -> &[String] {
        self.problems.get(origin).map_or(&[], Vec::as_slice)
    }

    /// Stores an event. Planning waits for [`replan`](Self::replan).
    pub fn absorb(&mut self, event: Event) {
        let touched = match event {
            Event::Notice(Notice::Problems { origin, problems }) => {
                self.revision += 1;
                self.changed_problems.insert(origin.clone());
                if problems.is_empty() {
                    self.problems.remove(&origin)
                } else {
                    self.problems.insert(origin, problems)
                };
                None
            }
            Event::Notice(Notice::Synced) => {
                self.synced = true;
                self.revision += 1;
                None
            }
            event => self.state.absorb(event),
        };
        self.revision += u64::from(touched.is_some());
        match touched {
            None => {}
            Some(Touched::Service(name)) => {
                self.dirty.insert(name, Differs::Claims);
            }
            Some(Touched::Endpoints(names)) => {
                for name in names {
                    self.dirty.entry(name).or_insert(Differs::Endpoints);
                }
            }
            Some(Touched::Node(name)) if name == self.settings.node_name => self.node_dirty = true,
            Some(Touched::Node(_)) => {
                self.others_dirty |= self.settings.direct_return != DirectReturn::Off
            }
            Some(Touched::ServiceCidrs | Touched::LocalAddresses) => self.node_dirty = true,
        }
    }

    /// Whether a [`replan`](Self::replan) has something to do. For tests, which plan in parts until it has not.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_dirty(&self) -> bool {
        self.node_dirty || self.others_dirty || !self.dirty.is_empty() || !self.unplanned.is_empty()
    }

    /// The Services whose ports are still to be planned.
    pub fn unplanned(&self) -> impl Iterator<Item = &NamespacedName> + Clone {
        self.dirty.keys().chain(self.unplanned.keys())
    }

    /// Whether the ports of a Service are still to be planned.
    pub fn is_unplanned(&self, name: &NamespacedName) -> bool {
        self.dirty.contains_key(name) || self.unplanned.contains_key(name)
    }

    /// The Services that the last replan has planned to the end, changed or not.
    pub fn planned(&self) -> &[NamespacedName] {
        &self.planned
    }

    /// Plans the Services and the node that changed, and only those.
    pub fn replan(&mut self) -> Changes {
        self.replan_part(usize::MAX)
    }

    /// Plans a part of what changed: some `work`, in endpoints and objects to write. The namespaces with the
    /// least work come first, and the largest Service gets a piece in each part, so that neither waits for
    /// ever. A frontend leaves its former owner before, or together with, its way to the new one.
    pub fn replan_part(&mut self, work: usize) -> Changes {
        self.planned.clear();
        let mut changes = Changes {
            problems: std::mem::take(&mut self.changed_problems),
            ..Changes::default()
        };
        // Endpoints have addresses of other nodes.
        if std::mem::take(&mut self.others_dirty) {
            self.replan_all();
            self.node_dirty = true;
        }
        if std::mem::take(&mut self.node_dirty) {
            self.replan_node(&mut changes);
        }
        self.renew_claims(&mut changes);
        self.plan_ports(work, &mut changes);
        if self.unplanned.is_empty() {
            self.leaving.clear();
        }
        self.revision += u64::from(!changes.is_empty());
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
        let all = all.map(|(name, _)| (name.clone(), Differs::Claims));
        self.dirty.extend(all);
    }

    fn served(&self, name: &NamespacedName) -> Option<&Service> {
        let service = self.state.service(name)?.service.as_deref()?;
        is_served(service).then_some(service)
    }

    /// The addresses that a Service asks for in one family and that the operator admits, each once,
    /// the ClusterIP first.
    fn asked(&self, service: &Service, family: IpFamily) -> Vec<(IpAddr, Role)> {
        let mut seen = HashSet::new();
        let named = addresses(service, family);
        let all = named.filter(|(addr, _)| !self.admission.is_node_dns(*addr));
        let all = all.chain(self.node_dns(service, family));
        let once = all.filter(|(addr, _)| seen.insert(*addr));
        once.filter(|(addr, role)| self.admission.admits(*role, *addr))
            .collect()
    }

    /// The addresses of the node's DNS server in one family, if this is the Service that stands in for
    /// it.
    fn node_dns(
        &self,
        service: &Service,
        family: IpFamily,
    ) -> impl Iterator<Item = (IpAddr, Role)> {
        let dns = self.settings.dns.as_ref();
        let dns = dns.filter(|it| it.service == service.name);
        let addresses = dns.into_iter().flat_map(|it| &it.addresses);
        let addresses = addresses.filter(move |it| IpFamily::of(it) == family);
        addresses.map(|it| (*it, Role::NodeDns))
    }

    /// The ports of a Service in one family, each with the frontends that it asks for and that the
    /// operator admits, as many as one Service may have.
    pub(crate) fn ports(
        &self,
        service: &Service,
        family: IpFamily,
    ) -> impl Iterator<Item = (PortKey, Vec<Wanted>)> {
        let asked = self.asked(service, family);
        let mut left = FRONTENDS;
        // Without a ClusterIP of the family there is nothing.
        let ports = match cluster_ip(service, family) {
            Some(_) => &service.ports[..],
            None => &[],
        };
        let all = ports.iter().map(move |port| {
            let name = service.port_name(port);
            let admitted = wanted(&asked, port, family);
            let admitted = admitted.filter(|it| self.admission.admits_frontend(it));
            let wanted: Vec<Wanted> = admitted.take(left).collect();
            left -= wanted.len();
            (PortKey { name, family }, wanted)
        });
        all.filter(|(_, wanted)| !wanted.is_empty())
    }

    /// The ClusterIP of a family, unless it is refused. Its undefined ports are rejected.
    fn served_cluster_ip(&self, service: &Service, family: IpFamily) -> Option<IpAddr> {
        let ip = cluster_ip(service, family)?;
        self.admission.admits(Role::ClusterIp, ip).then_some(ip)
    }
}
