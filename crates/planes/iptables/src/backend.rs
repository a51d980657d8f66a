//! The backend: pure rendering on one side, the host's programs on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sluice_model::IpFamily;
use sluice_plan::backend::{
    ApplyError, Backend, BackendError, Objects, RefusedObject, RuleCount, Scale, Scene, Unserved,
    Upkeep,
};
use sluice_plan::delta::Delta;
use sluice_plan::{Plan, PortPlan};
use sluice_xtables::parse::Ruleset;
use sluice_xtables::programs::{Listing, Programs, RestoreError};
use sluice_xtables::rule::Table;
use sluice_xtables::script::Script;
use sluice_xtables::trial::{self, Candidate, Findings};
use sluice_xtables::watch::{OwnWrites, Watch};

use crate::accounts::{Accounting, Accounts};
use crate::count::RuleCounts;
use crate::family::{Families, Ipv6};
use crate::lack::{Lacks, Sample};
use crate::layout::Conntrack;
use crate::name::{self, Kind};
use crate::object::{Key, Object};
use crate::refusal::{self, Refusals};
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
    refusals: Refusals,
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

/// Where writing came to an end.
struct Stop {
    family: IpFamily,
    error: RestoreError,
    /// Nothing was written before.
    is_first: bool,
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
            refusals: Refusals::default(),
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
    pub fn guard_loopback(&mut self) -> Result<(), ApplyError<Key>> {
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

    /// Asks again for what the kernel lacked, as far as a delta needs it.
    fn ask_again(&mut self, delta: &Delta<Key, Object>) {
        for &family in self.families.served() {
            let samples = self.lacks.doubts(delta, family);
            let candidates = samples.iter().enumerate().map(Sample::candidate);
            let candidates: Vec<Candidate> = candidates.collect();
            let findings = self.trial(family, &candidates);
            self.lacks.learn(family, &samples, &findings);
        }
    }

    /// What of a delta would be refused, as far as it is known before it is written.
    fn foreseen(&mut self, delta: &Delta<Key, Object>) -> Vec<RefusedObject<Key>> {
        self.ask_again(delta);
        let mut refused = self.lacks.refused(delta);
        refused.extend(self.refusals.certain(delta));
        for &family in self.families.served() {
            let suspects = self.refusals.suspects(delta, family);
            let findings = self.trial(family, &suspects);
            if findings.is_complete && findings.culprits.is_empty() {
                self.refusals.acquit(delta, &suspects);
            }
            refused.extend(refusal::objects(delta, findings));
        }
        refused
    }

    /// Who of these is refused by itself.
    fn trial(&mut self, family: IpFamily, candidates: &[Candidate]) -> Findings {
        let (programs, watch) = (&self.programs, &mut self.watch);
        trial::find(candidates, |script| watch.restore(programs, family, script))
    }

    /// Turns an error into what it means for the delta.
    fn refused(&mut self, delta: &Delta<Key, Object>, stop: Stop) -> ApplyError<Key> {
        let Stop {
            family,
            error,
            is_first,
        } = stop;
        let RestoreError::Refused {
            owner,
            text,
            reason,
            ..
        } = &error
        else {
            if family == IpFamily::V6 && matches!(error, RestoreError::Failed(_)) {
                self.families.lose_ipv6(error.to_string());
            }
            return failed("write rules", error).into();
        };
        let key = owner.and_then(|it| script::key(delta, it));
        match (key, text.split(' ').next()) {
            (Some(_), Some("-D")) => {
                self.trouble.with_rules = true;
                return failed("write rules", error).into();
            }
            (Some(key), Some("-X")) => {
                self.trouble.with_chains.insert(key.clone());
                return failed("write rules", error).into();
            }
            _ => {}
        }
        let candidates = refusal::candidates(delta, family);
        let findings = self.trial(family, &candidates);
        let mut refused = refusal::objects(delta, findings);
        self.refusals.alone(delta, &refused);
        if let Some(key) = key.filter(|it| refused.iter().all(|other| other.key != **it)) {
            let (key, reason) = (key.clone(), reason.clone());
            let together = RefusedObject { key, reason };
            self.refusals.together(delta, &together);
            refused.push(together);
        }
        if refused.is_empty() {
            return failed("write rules", error).into();
        }
        match self.without(refused) {
            refused @ ApplyError::Refused(_) if !is_first => failed("write rules", refused).into(),
            error => error,
        }
    }

    /// What it means that these are refused. IPv6 without what all its Services need is not served.
    fn without(&mut self, refused: Vec<RefusedObject<Key>>) -> ApplyError<Key> {
        let is_of_ipv6 = |it: &&RefusedObject<Key>| it.key.place().family == IpFamily::V6;
        let mut of_ipv6 = refused.iter().filter(is_of_ipv6);
        match of_ipv6.find(|it| it.key.is_for_all()) {
            Some(needed) => {
                self.families.lose_ipv6(needed.to_string());
                failed("write rules", ApplyError::Refused(refused)).into()
            }
            None => ApplyError::Refused(refused),
        }
    }
}

/// Whether steps before the line that was refused are written.
fn is_committed_before(script: &Script<'_>, error: &RestoreError) -> bool {
    match error {
        RestoreError::Refused { line, .. } => script.commits_before(*line) > 0,
        RestoreError::Locked { .. } | RestoreError::Failed(_) => false,
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
    type Key = Key;
    type Object = Object;
    type Placement = ();

    /// As kube-proxy's large-cluster mode: from here on the rules of endpoints have no comments,
    /// which are most of what they take.
    const LARGE: usize = 1000;
    const SCENE_SHAPES_PORTS: bool = true;

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

    /// What is refused is refused before anything is written, or everything is read again.
    fn retries_alone(&self) -> bool {
        true
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
        self.refusals.observed();
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

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), ApplyError<Key>> {
        let foreseen = self.foreseen(delta);
        if !foreseen.is_empty() {
            return Err(self.without(foreseen));
        }
        self.refusals.writing();
        let stuck = &self.trouble.with_chains;
        let scripts = script::scripts(delta, &self.lists, stuck, self.programs.variant());
        let mut stop = None;
        for (part, (family, script)) in scripts.into_iter().enumerate() {
            let written = self.watch.restore(&self.programs, family, &script);
            if let Err(error) = written {
                let is_first = part == 0 && !is_committed_before(&script, &error);
                stop = Some(Stop {
                    family,
                    error,
                    is_first,
                });
                break;
            }
        }
        if let Some(stop) = stop {
            return Err(self.refused(delta, stop));
        }
        self.refusals.applied();
        self.families.written();
        script::remember(delta, &mut self.lists);
        self.counts.written(delta);
        Ok(())
    }

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

    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        let watched = self.watch.upkeep()?;
        let awaited = self.families.upkeep(&self.programs);
        Ok(awaited.and(watched.into()))
    }
}

/// Whether a chain is ours, or one of the kernel's that leads to ours: a change of it by somebody
/// else is worth a look.
pub fn concerns(table: Table, chain: &str) -> bool {
    name::kind(table, chain).is_some()
}
