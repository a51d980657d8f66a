//! Keeps the plan of a node as the objects are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{Change, Labels, NamespacedName, Node, Pod, Reference};

use crate::event::Event;
use crate::groups::groups;
use crate::id::{GroupId, ProfileId, SetId};
use crate::lookup::{self, Reason};
use crate::peer::PodSelection;
use crate::pieces::Pieces;
use crate::plan::{
    AddressPlan, Content, PeerSet, Piece, Plan, PlannedRule, PolicyPlan, Profile, TierRule,
};
use crate::pods::Pods;
use crate::policy::{
    Action, ClusterNetworkPolicy, Connections, Direction, Mode, NetworkPolicy, Tier, UnknownPods,
};
use crate::rules;
use crate::sets::Sets;

/// The plan of one node, and the objects that it follows from. It has what the pods of this node need and nothing of
/// policies that are about others.
#[derive(Debug)]
pub struct Planner {
    /// `None`: all pods are this node's.
    node: Option<Arc<str>>,
    unknown_pods: UnknownPods,
    pods: Pods,
    policies: BTreeMap<NamespacedName, Arc<NetworkPolicy>>,
    cluster_policies: BTreeMap<Arc<str>, Arc<ClusterNetworkPolicy>>,
    sets: Sets,
    /// The NetworkPolicies that profiles have.
    used: HashMap<(Direction, NamespacedName), Used>,
    profiles: HashMap<ProfileId, Known>,
    /// The groups of policies that profiles have, with the number of these profiles.
    groups: HashMap<GroupId, usize>,
    pieces: Pieces,
}

/// A profile that addresses have.
#[derive(Debug)]
struct Known {
    policies: Policies,
    used: Used,
}

/// The names of a profile's policies, in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Policies {
    admin: Vec<TierPolicy>,
    policies: Vec<NamespacedName>,
    /// As [`Profile::partial`].
    partial: Vec<NamespacedName>,
    /// As [`Profile::audited`].
    audited: Vec<NamespacedName>,
    baseline: Vec<TierPolicy>,
}

/// A ClusterNetworkPolicy in a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TierPolicy {
    name: Arc<str>,
    /// Only some of the pods that claim the address are its subject: of its rules, those that deny count.
    is_partial: bool,
}

/// Something that is in the plan while anybody uses it.
#[derive(Debug, Default)]
struct Used {
    users: usize,
    /// The sets that its rules ask.
    sets: Vec<SetId>,
}

impl Planner {
    /// A node of this name, before anything is known.
    #[must_use]
    pub fn new(node: Arc<str>) -> Self {
        Self::of(Some(node))
    }

    /// All nodes of a cluster as one, before anything is known.
    #[must_use]
    pub fn of_cluster() -> Self {
        Self::of(None)
    }

    /// Addresses of the node's pod ranges that no known pod has are treated like this.
    #[must_use]
    pub fn with_unknown_pods(mut self, unknown_pods: UnknownPods) -> Self {
        self.unknown_pods = unknown_pods;
        self
    }

    /// What becomes of connections of addresses that no known pod has.
    #[must_use]
    pub const fn unknown_pods(&self) -> UnknownPods {
        self.unknown_pods
    }

    fn of(node: Option<Arc<str>>) -> Self {
        Self {
            node,
            unknown_pods: UnknownPods::Accept,
            pods: Pods::default(),
            policies: BTreeMap::new(),
            cluster_policies: BTreeMap::new(),
            sets: Sets::default(),
            used: HashMap::new(),
            profiles: HashMap::new(),
            groups: HashMap::new(),
            pieces: Pieces::default(),
        }
    }

    /// The plan as it is now.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.pieces.plan
    }

    /// The pieces that changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Piece> {
        std::mem::take(&mut self.pieces.changed)
    }

    /// Whether a piece changed since the last [`take_changed`](Self::take_changed).
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.pieces.changed.is_empty()
    }

    /// The objects as they are, for the planner of a whole cluster.
    #[must_use]
    pub fn objects(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.pods.objects().collect();
        let policies = self.policies.values().cloned();
        events.extend(policies.map(|it| Event::NetworkPolicy(Change::Set(it))));
        let policies = self.cluster_policies.values().cloned();
        events.extend(policies.map(|it| Event::ClusterNetworkPolicy(Change::Set(it))));
        events
    }

    /// The addresses of this node's pods.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.pieces.addresses()
    }

    /// The NetworkPolicy of this name.
    #[must_use]
    pub fn policy(&self, name: &NamespacedName) -> Option<&NetworkPolicy> {
        self.policies.get(name).map(|it| &**it)
    }

    /// The ClusterNetworkPolicy of this name.
    #[must_use]
    pub fn cluster_policy(&self, name: &str) -> Option<&ClusterNetworkPolicy> {
        self.cluster_policies.get(name).map(|it| &**it)
    }

    /// Whether any connection may be cut.
    #[must_use]
    pub fn may_cut(&self, usual: Connections) -> bool {
        let policies = self.policies.values().map(|it| it.connections);
        let cluster = self.cluster_policies.values().map(|it| it.connections);
        usual == Connections::Cut
            || policies
                .chain(cluster)
                .any(|it| it == Some(Connections::Cut))
    }

    /// Whether an open connection that is dropped for this reason is cut: one of the policies wants it.
    #[must_use]
    pub fn is_cut(&self, reason: &Reason, usual: Connections) -> bool {
        let wanted = |it: &Reference| {
            let own = if it.name.namespace.is_empty() {
                self.cluster_policy(&it.name.name)?.connections
            } else {
                self.policy(&it.name)?.connections
            };
            Some(own.unwrap_or(usual))
        };
        let mut droppers = reason.droppers().into_iter();
        !reason.is_allowed() && droppers.any(|it| wanted(&it) == Some(Connections::Cut))
    }

    /// The pods that claim an address, by name; without the terminating ones if others do.
    #[must_use]
    pub fn pods_at(&self, address: &IpAddr) -> Vec<NamespacedName> {
        let pods = self.pods.at(address).into_iter();
        pods.map(|it| it.name.clone()).collect()
    }

    /// Takes in a change of an object.
    pub fn absorb(&mut self, event: &Event) {
        self.absorb_all([event]);
    }

    /// Takes in changes of objects. What a pod's policies are is found once for all of them.
    pub fn absorb_all<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) {
        let mut stale = BTreeSet::new();
        for event in events {
            match event {
                Event::Pod(change) => {
                    let touched = self.pods.set_pod(change);
                    self.refresh_sets(&touched);
                    stale.extend(touched);
                }
                Event::Namespace(change) => {
                    let touched = self.pods.set_namespace(change);
                    self.refresh_sets(&touched);
                    stale.extend(touched);
                }
                Event::Node(change) => self.set_node(change),
                Event::NetworkPolicy(change) => self.set_policy(change, &mut stale),
                Event::ClusterNetworkPolicy(change) => self.set_cluster_policy(change, &mut stale),
            }
        }
        for address in stale {
            self.refresh_address(address);
        }
    }

    fn refresh_sets(&mut self, addresses: &BTreeSet<IpAddr>) {
        for address in addresses {
            self.sets.refresh(*address, &self.pods, &mut self.pieces);
        }
    }

    /// Of this node's pod ranges all is closed that no known pod has.
    fn set_node(&mut self, change: &Change<Node>) {
        let is_own = Some(&change.name().name) == self.node.as_ref();
        if self.unknown_pods == UnknownPods::Accept || !is_own {
            return;
        }
        let ranges = change
            .object()
            .map(|it| &it.pod_cidrs[..])
            .unwrap_or_default();
        let ranges = IpNet::aggregate(&ranges.iter().map(IpNet::trunc).collect());
        let closed: Vec<IpNet> = lookup::ranges(&self.pieces.plan).copied().collect();
        for range in closed.iter().filter(|it| !ranges.contains(it)) {
            self.pieces.remove(Piece::Range(*range));
        }
        for range in ranges {
            self.pieces.put(Content::Range(range));
        }
    }

    /// `stale` gets the addresses whose policies may be others.
    fn set_policy(&mut self, change: &Change<NetworkPolicy>, stale: &mut BTreeSet<IpAddr>) {
        let name = change.name();
        match change.object() {
            Some(new) => self.policies.insert(name.clone(), new.clone()),
            None => self.policies.remove(&name),
        };
        let addresses = self.pods.in_namespace(&name.namespace).copied();
        let is_here = |it: &IpAddr| self.pieces.plan.contains_key(&Piece::Address(*it));
        stale.extend(addresses.filter(is_here));
        for direction in Direction::ALL {
            if self.used.contains_key(&(direction, name.clone())) {
                self.plan_policy(direction, &name);
            }
        }
        self.plan_profiles(|it| it.audited.contains(&name));
    }

    fn set_cluster_policy(
        &mut self,
        change: &Change<ClusterNetworkPolicy>,
        stale: &mut BTreeSet<IpAddr>,
    ) {
        let name = change.name().name;
        match change.object() {
            Some(new) => self.cluster_policies.insert(name.clone(), new.clone()),
            None => self.cluster_policies.remove(&name),
        };
        stale.extend(self.pieces.addresses());
        self.plan_profiles(|it| {
            let mut all = it.admin.iter().chain(&it.baseline);
            all.any(|it| it.name == name)
        });
    }

    /// Plans the profiles again whose policies are such.
    fn plan_profiles(&mut self, such: impl Fn(&Policies) -> bool) {
        let profiles = self.profiles.iter().filter(|(_, it)| such(&it.policies));
        let profiles: Vec<ProfileId> = profiles.map(|(id, _)| *id).collect();
        for id in profiles {
            self.plan_profile(id);
        }
    }

    fn refresh_address(&mut self, address: IpAddr) {
        let pods = self.pods.on(self.node.as_ref(), &address);
        let pods: Vec<Arc<Pod>> = pods.into_iter().cloned().collect();
        let piece = Piece::Address(address);
        let old = self.pieces.plan.get(&piece).cloned();
        if let Some(first) = pods.first() {
            let [ingress, egress] = Direction::ALL.map(|it| self.acquire_profile(&pods, it));
            let new = AddressPlan {
                pod: first.name.clone(),
                ingress,
                egress,
            };
            self.pieces.put(Content::Address(address, new));
        } else {
            self.pieces.remove(piece);
        }
        if let Some(Content::Address(_, old)) = old.as_deref() {
            for id in [old.ingress, old.egress].into_iter().flatten() {
                self.release_profile(id);
            }
        }
    }

    /// The policies that are about pods with one address, in the order in which they are asked.
    fn policies(&self, pods: &[Arc<Pod>], direction: Direction) -> Policies {
        let labels: Vec<Labels> = pods
            .iter()
            .map(|it| self.pods.labels(&it.name.namespace))
            .collect();
        // Whether it selects only some of the pods; `None`: none of them.
        let selects = |subject: &PodSelection| {
            let selected = pods.iter().zip(&labels);
            let count = selected
                .filter(|(pod, it)| subject.selects(pod, it))
                .count();
            (count > 0).then_some(count < pods.len())
        };
        let tier = |tier: Tier| {
            let policies = self.cluster_policies.values();
            let mut found: Vec<_> = policies
                .filter(|it| it.tier == tier && !it.rules(direction).is_empty())
                .filter_map(|it| Some((it.priority, &it.name, selects(&it.subject)?)))
                .collect();
            found.sort();
            let found = found.into_iter();
            found
                .map(|(_, name, is_partial)| TierPolicy {
                    name: name.clone(),
                    is_partial,
                })
                .collect()
        };
        let (mut policies, mut partial, mut audited) = (Vec::new(), Vec::new(), Vec::new());
        let namespaces: BTreeSet<&Arc<str>> = pods.iter().map(|it| &it.name.namespace).collect();
        for namespace in namespaces {
            let first = NamespacedName::new(namespace.clone(), "");
            let of_namespace = self.policies.range(first..);
            let of_namespace = of_namespace.take_while(|(name, _)| name.namespace == *namespace);
            for (name, policy) in of_namespace.filter(|(_, it)| it.rules(direction).is_some()) {
                match (policy.mode, selects(&policy.subject())) {
                    (_, None) => {}
                    (Mode::Audit, Some(_)) => audited.push(name.clone()),
                    (Mode::Enforce, Some(false)) => policies.push(name.clone()),
                    (Mode::Enforce, Some(true)) => partial.push(name.clone()),
                }
            }
        }
        let is_isolated = !(policies.is_empty() && partial.is_empty());
        if is_isolated {
            // Policies add up: one more of them drops nothing that passes now.
            audited.clear();
        }
        Policies {
            admin: tier(Tier::Admin),
            baseline: if is_isolated {
                Vec::new()
            } else {
                tier(Tier::Baseline)
            },
            policies,
            partial,
            audited,
        }
    }

    /// One more address has the profile of these pods.
    fn acquire_profile(&mut self, pods: &[Arc<Pod>], direction: Direction) -> Option<ProfileId> {
        let policies = self.policies(pods, direction);
        if policies == Policies::default() {
            return None;
        }
        let id = ProfileId::of(direction, &policies.description());
        if let Some(known) = self.profiles.get_mut(&id) {
            known.used.users += 1;
            return Some(id);
        }
        for name in &policies.policies {
            let key = (direction, name.clone());
            let used = self.used.entry(key).or_default();
            used.users += 1;
            if used.users == 1 {
                self.plan_policy(direction, name);
            }
        }
        for (group, names) in groups(direction, &policies.policies) {
            *self.groups.entry(group).or_default() += 1;
            self.pieces.put(Content::Group(group, names.to_vec()));
        }
        let used = Used {
            users: 1,
            sets: Vec::new(),
        };
        self.profiles.insert(id, Known { policies, used });
        self.plan_profile(id);
        Some(id)
    }

    fn release_profile(&mut self, id: ProfileId) {
        let Some(known) = self.profiles.get_mut(&id) else {
            return;
        };
        known.used.users -= 1;
        if known.used.users > 0 {
            return;
        }
        let Some(known) = self.profiles.remove(&id) else {
            return;
        };
        self.pieces.remove(Piece::Profile(id));
        self.release_sets(&known.used.sets);
        for (group, _) in groups(id.direction, &known.policies.policies) {
            let users = self.groups.entry(group).or_default();
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.groups.remove(&group);
                self.pieces.remove(Piece::Group(group));
            }
        }
        for name in known.policies.policies {
            let key = (id.direction, name);
            let Some(used) = self.used.get_mut(&key) else {
                continue;
            };
            used.users -= 1;
            if used.users == 0
                && let Some(used) = self.used.remove(&key)
            {
                self.pieces.remove(Piece::Policy(key.0, key.1));
                self.release_sets(&used.sets);
            }
        }
    }

    /// Plans the rules of a NetworkPolicy that is in use.
    fn plan_policy(&mut self, direction: Direction, name: &NamespacedName) {
        let Some(policy) = self.policies.get(name) else {
            return;
        };
        let (planned, sets) = plan_of(policy, direction);
        let ids = self.acquire_sets(&sets);
        let planned = Content::Policy(direction, name.clone(), planned);
        self.pieces.put(planned);
        let key = (direction, name.clone());
        let used = self.used.entry(key).or_default();
        let old = std::mem::replace(&mut used.sets, ids);
        self.release_sets(&old);
    }

    /// Plans a profile that is in use.
    fn plan_profile(&mut self, id: ProfileId) {
        let Some(known) = self.profiles.get(&id) else {
            return;
        };
        let mut sets = Vec::new();
        let mut tier = |policies: &[TierPolicy]| {
            let mut all = Vec::new();
            for TierPolicy { name, is_partial } in policies {
                let Some(policy) = self.cluster_policies.get(name) else {
                    continue;
                };
                let (mut planned, mut asked) =
                    rules::plan(policy.rules(id.direction), id.direction, &policy.subject);
                if *is_partial {
                    planned.retain(|it| it.action == Action::Deny);
                    retain_asked(&mut asked, &planned);
                }
                sets.extend(asked);
                all.extend(planned.into_iter().map(|rule| TierRule {
                    policy: policy.name.clone(),
                    rule,
                    mode: policy.mode,
                }));
            }
            all
        };
        let (admin, baseline) = (tier(&known.policies.admin), tier(&known.policies.baseline));
        let mut audit = Vec::new();
        for name in &known.policies.audited {
            let Some(policy) = self.policies.get(name) else {
                continue;
            };
            let (planned, asked) = plan_of(policy, id.direction);
            sets.extend(asked);
            audit.extend(planned.rules.into_iter().map(|it| PlannedRule {
                action: Action::Pass,
                ..it
            }));
        }
        let profile = Profile {
            admin,
            policies: known.policies.policies.clone(),
            partial: known.policies.partial.clone(),
            baseline,
            audited: known.policies.audited.clone(),
            audit,
        };
        let ids = self.acquire_sets(&sets);
        self.pieces.put(Content::Profile(id, profile));
        if let Some(known) = self.profiles.get_mut(&id) {
            let old = std::mem::replace(&mut known.used.sets, ids);
            self.release_sets(&old);
        }
    }

    fn acquire_sets(&mut self, sets: &[PeerSet]) -> Vec<SetId> {
        for set in sets {
            self.sets.acquire(set, &self.pods, &mut self.pieces);
        }
        sets.iter().map(PeerSet::id).collect()
    }

    fn release_sets(&mut self, sets: &[SetId]) {
        for id in sets {
            self.sets.release(*id, &mut self.pieces);
        }
    }
}

/// The rules of a NetworkPolicy, [`rules::MOST`] at most, and the sets that they ask.
fn plan_of(policy: &NetworkPolicy, direction: Direction) -> (PolicyPlan, Vec<PeerSet>) {
    let rules = policy.rules(direction).unwrap_or_default();
    let (mut rules, mut sets) = rules::plan(rules, direction, &policy.subject());
    let left_out = rules.len().saturating_sub(rules::MOST);
    if left_out > 0 {
        rules.truncate(rules::MOST);
        retain_asked(&mut sets, &rules);
    }
    (PolicyPlan { rules, left_out }, sets)
}

/// Leaves the sets that these rules ask.
fn retain_asked(sets: &mut Vec<PeerSet>, rules: &[PlannedRule]) {
    let asked: HashSet<SetId> = rules.iter().flat_map(PlannedRule::sets).collect();
    sets.retain(|it| asked.contains(&it.id()));
}

impl Policies {
    /// One line for the same policies in the same order. No name has a character that separates them here.
    fn description(&self) -> String {
        let tier = |policies: &[TierPolicy]| {
            let mark = |it: &TierPolicy| if it.is_partial { "!" } else { "" };
            let names = policies.iter().map(|it| format!("{}{}", it.name, mark(it)));
            names.collect::<Vec<_>>().join(",")
        };
        let list = |names: &[NamespacedName]| {
            let names = names.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join(",")
        };
        let mut line = format!(
            "{};{};{}",
            tier(&self.admin),
            list(&self.policies),
            tier(&self.baseline)
        );
        if !self.partial.is_empty() {
            line = format!("{line};{}", list(&self.partial));
        }
        if !self.audited.is_empty() {
            line = format!("{line};;{}", list(&self.audited));
        }
        line
    }
}
