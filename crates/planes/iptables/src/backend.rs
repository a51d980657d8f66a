//! The backend: pure rendering on one side, the host's programs on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sluice_model::IpFamily;
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::{DataPlane, RuleCount, Scale, Scene, Unserved};
use sluice_reconcile::{Backend, BackendError, Delta, Objects, Refusal, Upkeep};
use sluice_xtables::parse::Ruleset;
use sluice_xtables::programs::{Listing, Programs, RestoreError};
use sluice_xtables::rule::Table;
use sluice_xtables::trial::{self, Candidate, Findings};
use sluice_xtables::watch::{OwnWrites, Watch};

use crate::accounts::{Accounting, Accounts};
use crate::count::RuleCounts;
use crate::family::{Families, Ipv6};
use crate::lack::{Lacks, Sample};
use crate::layout::Conntrack;
use crate::name::{self, Kind};
use crate::object::{Key, Object};
use crate::script::{self, Lists};
use crate::{layout, observe, render};

/// The iptables data plane of one network namespace.
#[derive(Debug)]
pub struct Iptables {
    programs: Programs,
    conntrack: Conntrack,
    families: Families,
    lists: Lists,
    counts: RuleCounts,
    trouble: Trouble,
    lacks: Lacks,
    accounts: Accounts,
    watch: Watch,
}

/// What did not work, until a full sync has done it another way.
#[derive(Debug, Default)]
struct Trouble {
    /// A rule that is there could not be deleted: common chains are written anew.
    with_rules: bool,
    /// Chains that cannot be deleted, because somebody else's rule leads there: they stay, empty.
    with_chains: BTreeSet<Key>,
}

impl Iptables {
    /// Works with these programs in the network namespace of the calling thread. Nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// The kernel has no iptables for IPv4, or does not let us use it.
    pub fn open(programs: Programs, conntrack: Conntrack) -> Result<Self, BackendError> {
        let families = Families::ask(&programs);
        let families = families.map_err(|error| failed("ask for iptables", error))?;
        Ok(Self {
            watch: Watch::of(programs.variant())?,
            programs,
            conntrack,
            families,
            lists: Lists::new(),
            counts: RuleCounts::default(),
            trouble: Trouble::default(),
            lacks: Lacks::default(),
            accounts: Accounts::open(),
        })
    }

    /// Whether IPv6 is served, and why not.
    pub fn ipv6(&self) -> &Ipv6 {
        self.families.ipv6()
    }

    /// The programs in use.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// As [`Watch::generation`], since the last [`observe`](Backend::observe).
    pub fn generation(&self) -> Arc<AtomicU32> {
        self.watch.generation()
    }

    /// As [`Watch::own_writes`].
    pub fn own_writes(&self) -> OwnWrites {
        self.watch.own_writes()
    }

    /// Writes what keeps other hosts from this one's loopback address (CVE-2020-8558) where it is
    /// not there, and nothing else: before `route_localnet` is set by somebody who may, for an
    /// agent that may not.
    ///
    /// # Errors
    ///
    /// The rules could not be listed, or the kernel refused.
    pub fn guard_loopback(&mut self) -> Result<(), BackendError> {
        let listing = self.programs.save(IpFamily::V4, layout::READ);
        let listing = listing.map_err(|error| failed("list rules", error))?;
        let mut observed = BTreeMap::new();
        observe::objects(IpFamily::V4, listing, &mut observed);
        let mut missing = layout::loopback_guard();
        missing.retain(|(key, _)| !observed.contains_key(key));
        self.apply(&Delta {
            add: missing,
            ..Delta::default()
        })
    }

    fn list(&mut self) -> Result<Vec<(IpFamily, Listing)>, BackendError> {
        self.watch.begin(self.families.served())?;
        let listings = self.families.list(&self.programs);
        let listings = listings.map_err(|error| failed("list rules", error))?;
        self.watch.listed(self.families.served());
        Ok(listings)
    }

    /// Repairs what the last apply could not do in its usual way.
    fn work_around(&mut self, observed: &mut BTreeMap<Key, Object>) {
        if std::mem::take(&mut self.trouble.with_rules) {
            observed.retain(|key, _| {
                let place = key.place();
                let kind = name::kind(place.table, place.chain.as_str());
                kind != Some(Kind::Common)
            });
        }
        let is_empty = |object: &Object| matches!(object, Object::Rules(it) if it.is_empty());
        let stuck = &self.trouble.with_chains;
        observed.retain(|key, object| !(stuck.contains(key) && is_empty(object)));
    }

    /// Asks what the kernel can do, unless its rules show that it does it already.
    fn ask(&mut self, family: IpFamily, ruleset: &Ruleset) {
        self.lacks.see(family, ruleset);
        let samples = self.lacks.samples(family);
        let mut candidates: Vec<Candidate> =
            samples.iter().enumerate().map(Sample::candidate).collect();
        let counting = self.accounts.sample(family, ruleset);
        let owner = samples.len();
        candidates.extend(counting.iter().map(|rule| Candidate {
            owner,
            table: Table::Filter,
            rule: rule.clone(),
        }));
        let findings = self.trial(family, &candidates);
        self.lacks.learn(family, &samples, &findings);
        if counting.is_some() {
            self.accounts.learn(family, owner, &findings);
        }
    }

    /// Who of these is refused by itself.
    fn trial(&mut self, family: IpFamily, candidates: &[Candidate]) -> Findings {
        let (programs, watch) = (&self.programs, &mut self.watch);
        trial::find(candidates, |script| watch.restore(programs, family, script))
    }

    /// What an error of writing means. A program for IPv6 that fails costs IPv6 alone.
    fn failed(
        &mut self,
        delta: &Delta<Key, Object>,
        family: IpFamily,
        error: RestoreError,
    ) -> BackendError {
        if family == IpFamily::V6 && !matches!(error, RestoreError::Locked { .. }) {
            self.families.lose_ipv6(error.to_string());
        }
        if let RestoreError::Refused { owner, text, .. } = &error
            && let Some(key) = owner.and_then(|it| script::key(delta, it))
        {
            match text.split(' ').next() {
                Some("-D") => self.trouble.with_rules = true,
                Some("-X") => {
                    self.trouble.with_chains.insert(key.clone());
                }
                _ => {}
            }
        }
        failed("write rules", error)
    }
}

fn failed(operation: &str, error: impl std::error::Error + Send + Sync + 'static) -> BackendError {
    BackendError {
        operation: operation.into(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    }
}

/// The objects of one service port, as a first sync would write them. Pure.
pub fn render_port(scene: &Scene, port: &PortPlan, accounting: Accounting) -> Vec<(Key, Object)> {
    render::port(scene, port, accounting)
}

/// Every object of a plan, as a first sync would write it, in kube-proxy's order. Pure.
pub fn render_plan(
    plan: &Plan,
    conntrack: Conntrack,
    accounting: Accounting,
) -> Vec<(Key, Object)> {
    let standing = layout::standing(&plan.node, &IpFamily::ALL, conntrack, |_| accounting);
    let ports = plan.ports.values();
    let scene = Scene {
        node: plan.node.clone(),
        scale: Scale::Small,
    };
    let ports = ports.flat_map(|it| render::port(&scene, it, accounting));
    let mut seen = BTreeSet::new();
    let all = standing.into_iter().chain(ports);
    all.filter(|(key, _)| !Iptables::is_shared(key) || seen.insert(key.clone()))
        .collect()
}

impl Backend for Iptables {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = Key;
    type Object = Object;
    type Placement = ();

    const SCENE_SHAPES_OWNERS: bool = true;

    fn is_shared(key: &Key) -> bool {
        let place = key.place();
        match (place.table, place.chain.as_str()) {
            // Of the health check port: its comment names the port and no protocol.
            (Table::Filter, name::NODE_PORTS) => matches!(key, Key::Rule(..)),
            (Table::Filter, name::CLUSTER_IPS) => matches!(key, Key::Rule(..)),
            (Table::Filter, _) if name::is_of_prefix(&place.chain) => {
                matches!(key, Key::Common(_))
            }
            _ => false,
        }
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        let served = self.families.served();
        let accounting = |family| self.accounts.accounting(family);
        layout::standing(&scene.node, served, self.conntrack, accounting)
    }

    fn place(&mut self, _port: &PortPlan, _previous: Option<(&PortPlan, &())>) {}

    fn recover(&self, _port: &PortPlan, _observed: &BTreeMap<Key, Object>) {}

    fn render(&self, scene: &Scene, port: &PortPlan, _placement: &()) -> Objects<Self> {
        match self.families.served().contains(&port.key.family) {
            true => {
                let accounting = self.accounts.accounting(port.key.family);
                render::port(scene, port, accounting)
            }
            false => Vec::new(),
        }
    }

    fn probe(&mut self) -> Result<bool, BackendError> {
        let before = self.lacks.len();
        for family in self.families.served().to_vec() {
            let samples = self.lacks.samples(family);
            let candidates: Vec<_> = samples.iter().enumerate().map(Sample::candidate).collect();
            let findings = self.trial(family, &candidates);
            self.lacks.learn(family, &samples, &findings);
        }
        Ok(self.lacks.len() < before)
    }

    fn lacks(&self, scene: &Scene, port: &PortPlan, placement: &()) -> Option<Refusal> {
        if self.lacks.len() == 0 {
            return None;
        }
        self.lacks.refusal(&self.render(scene, port, placement))
    }

    fn is_undisturbed(&mut self) -> bool {
        self.watch.is_undisturbed()
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        self.accounts.ensure();
        let mut observed = BTreeMap::new();
        for (family, listing) in self.list()? {
            self.ask(family, &listing.rules);
            observe::objects(family, listing, &mut observed);
        }
        self.work_around(&mut observed);
        let lists = observed.iter().filter_map(|(key, object)| match object {
            Object::Rules(rules) if matches!(key, Key::Tail(_) | Key::Jumps(_)) => {
                Some((key.clone(), rules.iter().collect()))
            }
            _ => None,
        });
        self.lists = lists.collect();
        self.counts.observed(&observed);
        Ok(observed)
    }

    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        let watched = self.watch.upkeep()?;
        let awaited = self.families.upkeep(&self.programs);
        Ok(awaited.and(watched.into()))
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let stuck = &self.trouble.with_chains;
        let scripts = script::scripts(delta, &self.lists, stuck, self.programs.variant());
        let written = scripts.into_iter().try_for_each(|(family, script)| {
            let written = self.watch.restore(&self.programs, family, &script);
            written.map_err(|error| (family, error))
        });
        written.map_err(|(family, error)| self.failed(delta, family, error))?;
        self.families.written();
        script::remember(delta, &mut self.lists);
        self.counts.written(delta);
        Ok(())
    }
}

impl DataPlane for Iptables {
    /// As kube-proxy's large-cluster mode: from here on the rules of endpoints have no comments,
    /// which are most of what they take.
    const LARGE: usize = 1000;

    fn rule_counts(&self) -> Vec<RuleCount> {
        self.counts.all()
    }

    fn unserved(&self) -> Option<Unserved> {
        match self.families.ipv6() {
            Ipv6::Awaited(reason) => Some(Unserved {
                family: IpFamily::V6,
                reason: reason.clone(),
            }),
            Ipv6::Served | Ipv6::Impossible(_) => None,
        }
    }
}

/// Whether a chain is ours, or one of the kernel's that leads to ours: a change of it by somebody
/// else is worth a look.
pub fn concerns(table: Table, chain: &str) -> bool {
    name::kind(table, chain).is_some()
}
