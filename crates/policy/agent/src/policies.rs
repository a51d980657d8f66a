//! Keeps the kernel's rules as the policies are.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sluice_model::{Announcement, NamespacedName};
use sluice_nft::{Connection, Kernel};
use sluice_node::{Consumer, Section, Settled, StepClock, chain};
use sluice_policy_nftables::PolicyTables;
use sluice_policy_plan::lookup::{Packet, lookup, ranges};
use sluice_policy_plan::{
    Connections, Content, Direction, Outcome, Piece, Planner, PolicyPlan, UnknownPods,
};
use sluice_reconcile::{BackendError, Backoff, Portion, Reconciler, Report};
use tracing::{error, info, warn};

use crate::bridges;
use crate::connections::Cutting;
use crate::drops::{Drops, Events};
use crate::event::PolicyEvent;
use crate::questions::PolicyAnswer;

/// Time between two looks whether another program changed the ruleset, for a change that the watch missed. The kernel says
/// so without a listing, and only a ruleset that was changed is read.
const LOOK: Duration = Duration::from_secs(30);
/// Shortest time between two repairs: a program that changes our tables again and again must not have the whole thread.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a part of a large difference should take: other consumers of the thread wait for it, and come between two parts.
const PART_TAKES: Duration = Duration::from_millis(30);
/// The smallest part, the first and the largest, in elements of sets, as of Services in the nftables mode: each transaction waits
/// for all processors, however small it is.
const PARTS: [usize; 3] = [4_096, 8_192, 32_768];

const NO_RANGE: &str = "--policy-unknown-pods: this node's Node has no spec.podCIDRs, so unknown pods are open: let the \
                        controller manager allocate them (--allocate-node-cidrs), or start with --policy-unknown-pods \
                        accept";

/// Begins to watch for changes by other programs, from this generation of the ruleset on.
type Watch = Box<dyn FnOnce(u32) + Send>;

/// Network policy in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Addresses of pods on this node.
    pub addresses: usize,
    /// Those that some policy is about.
    pub isolated: usize,
    /// Policies that some pod of this node needs, each direction once.
    pub policies: usize,
    /// Entries of sets of peers.
    pub members: usize,
    /// The rules in the kernel are these, in both families.
    pub is_in_force: bool,
    /// Pod ranges of this node of which addresses without a known pod are closed (`--policy-unknown-pods drop`).
    #[serde(default)]
    pub closed: Vec<String>,
    /// What some policy does not get.
    pub issues: Vec<String>,
    /// How often rules were repaired that another program had changed.
    pub repairs: u64,
    /// The change before the last repair, with the program that made it, if it was seen.
    pub last_change: Option<String>,
    /// Why the rules in the kernel are not these; empty when they are.
    pub error: String,
}

impl fmt::Display for PolicyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            addresses,
            isolated,
            policies,
            members,
            closed,
            is_in_force: _,
            issues,
            repairs,
            last_change,
            error,
        } = self;
        write!(
            f,
            "{isolated} of {addresses} pod addresses isolated by {policies} policies with {members} peers"
        )?;
        if closed.is_empty() {
            f.write_str("; pods are open until they are known")?;
        } else {
            write!(f, "; unknown pods of {} closed", closed.join(" and "))?;
        }
        if !issues.is_empty() {
            write!(f, "; {}", issues.join("; "))?;
        }
        if *repairs > 0 {
            write!(f, "; repaired {repairs} times")?;
        }
        if let Some(change) = last_change {
            write!(f, ", the last time after {change}")?;
        }
        if !error.is_empty() {
            write!(f, "; NOT IN FORCE: {error}")?;
        }
        Ok(())
    }
}

/// Plans and writes the rules of this node's pods.
pub struct Policies<K: Kernel = Connection> {
    planner: Planner,
    tables: Reconciler<PolicyTables<K>>,
    clock: StepClock,
    /// The first complete list is there. Nothing is written before: a rule that allows may still be missing.
    is_synced: bool,
    /// Something is to be written, or to be looked at.
    due: Option<Instant>,
    /// When to look next whether another program changed something.
    look: Option<Instant>,
    backoff: Backoff,
    /// What a part costs at most.
    portion: Portion,
    /// Something was written since the rules were last complete.
    is_writing: bool,
    was_written: bool,
    /// Waits for the first write: before it there is nothing to watch.
    watch: Option<Watch>,
    /// What another program did since the last look, if the watch saw it.
    change: Option<String>,
    /// When the rules were last repaired.
    repaired: Option<Instant>,
    repairs: u64,
    last_change: Option<String>,
    /// Those that the log has.
    issues: BTreeSet<String>,
    /// What the last look said about bridges.
    unfiltered: BTreeSet<String>,
    /// Looks at the bridges that pods of these addresses are on.
    look_at_bridges: fn(&[IpAddr]) -> BTreeSet<String>,
    error: String,
    pub(crate) drops: Drops,
    /// `None`: open connections go on.
    cutting: Option<Cutting>,
}

impl<K: Kernel> Policies<K> {
    /// Policies that follow this planner. `clock` learns of each write.
    pub fn new(planner: Planner, tables: PolicyTables<K>, clock: StepClock) -> Self {
        Self {
            planner,
            tables: Reconciler::new(tables),
            clock,
            is_synced: false,
            due: None,
            look: None,
            backoff: Backoff::default(),
            portion: Portion::new(PARTS[0], PARTS[1], PARTS[2], PART_TAKES),
            is_writing: false,
            was_written: false,
            watch: None,
            change: None,
            repaired: None,
            repairs: 0,
            last_change: None,
            issues: BTreeSet::new(),
            unfiltered: BTreeSet::new(),
            look_at_bridges: |_| BTreeSet::new(),
            error: String::new(),
            drops: Drops::default(),
            cutting: None,
        }
    }

    /// Begins this watch after the first write. It reports to [`kernel_changed`](Self::kernel_changed).
    #[must_use]
    pub fn watched(mut self, watch: impl FnOnce(u32) + Send + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Announces dropped and audited packets on the pods whose policies these are.
    #[must_use]
    pub fn announcing(mut self, announce: Sender<Announcement>) -> Self {
        self.drops.events = Some(Events::new(announce, Instant::now()));
        self
    }

    /// Tells of bridges of the calling thread's network namespace that rules of policies are not asked on.
    #[must_use]
    pub fn with_bridges(mut self) -> Self {
        self.look_at_bridges = bridges::unfiltered;
        self
    }

    /// Ends open connections that policies begin to forbid.
    pub(crate) fn with_cutting(mut self, cutting: Cutting) -> Self {
        self.cutting = Some(cutting);
        self
    }

    /// What becomes of open connections where a policy does not say; `None` where nothing is cut, or rules are not written
    /// yet.
    pub(crate) fn usual_for_open(&self) -> Option<Connections> {
        let usual = self.cutting.as_ref()?.usual;
        let is_written = self.unwritten().is_none();
        (is_written && self.planner.may_cut(usual)).then_some(usual)
    }

    pub(crate) fn tables_mut(&mut self) -> &mut PolicyTables<K> {
        self.tables.backend_mut()
    }

    /// The status as it is now.
    pub(crate) fn facts(&self) -> PolicyStatus {
        let mut status = PolicyStatus {
            is_in_force: self.was_written && self.error.is_empty(),
            issues: self.issues.iter().cloned().collect(),
            repairs: self.repairs,
            last_change: self.last_change.clone(),
            error: self.error.clone(),
            ..PolicyStatus::default()
        };
        for content in self.planner.plan().values() {
            match &**content {
                Content::Address(_, plan) => {
                    status.addresses += 1;
                    status.isolated += usize::from(plan.ingress.or(plan.egress).is_some());
                }
                Content::Policy(..) => status.policies += 1,
                Content::Member(..) => status.members += 1,
                Content::Range(range) => status.closed.push(range.to_string()),
                Content::Set(..) | Content::Group(..) | Content::Profile(..) => {}
            }
        }
        status
    }

    /// The kernel tells of packets that are dropped.
    pub(crate) fn is_logging(&self) -> bool {
        self.tables.backend().is_logging()
    }

    pub(crate) const fn planner(&self) -> &Planner {
        &self.planner
    }

    /// Why the kernel has not all rules that follow from the objects as they are known; `None` when it has.
    pub(crate) fn unwritten(&self) -> Option<String> {
        if !self.is_synced {
            return Some("the agent does not know all objects yet".to_owned());
        }
        if !self.error.is_empty() {
            return Some(self.error.clone());
        }
        let is_whole = !(self.planner.is_changed() || self.tables.has_begun());
        let is_written = self.was_written && is_whole;
        (!is_written).then(|| "the rules are being written".to_owned())
    }

    /// What the plan says about a connection.
    pub(crate) fn answer(&self, packet: &Packet) -> PolicyAnswer {
        let decision = lookup(self.planner.plan(), packet);
        PolicyAnswer {
            allowed: decision.is_allowed(),
            egress: decision.egress.words(Direction::Egress),
            ingress: decision.ingress.words(Direction::Ingress),
        }
    }

    /// Another program changed our tables.
    pub fn kernel_changed(&mut self, change: String, now: Instant) {
        self.change = Some(change);
        self.tables.doubt();
        if self.backoff.due().is_none() {
            let due = self.repaired.map_or(now, |it| now.max(it + PAUSE));
            self.due = Some(self.due.map_or(due, |it| it.min(due)));
        }
    }

    /// Writes what changed, or the next part of what is begun. When it is time to look, and somebody changed the ruleset,
    /// everything is read and compared; the Service proxy changes it too, so this is no part of every write.
    fn write(&mut self, now: Instant) -> Result<Report, BackendError> {
        let began = Instant::now();
        let has_begun = self.tables.has_begun();
        if !has_begun && self.look.is_none_or(|it| it <= now) {
            self.look = Some(now + LOOK);
            let addresses: Vec<IpAddr> = self.planner.addresses().collect();
            self.unfiltered = (self.look_at_bridges)(&addresses);
            if !self.tables.is_resync_due() && !self.tables.is_undisturbed() {
                self.tables.doubt();
            }
        }
        let limit = self.portion.limit();
        let report = if has_begun && !self.tables.is_resync_due() {
            self.tables.go_on(limit)
        } else {
            let changed = self.planner.take_changed();
            self.tables.sync(&(), self.planner.plan(), &changed, limit)
        };
        let cost = self.tables.backend_mut().take_cost();
        self.portion.took(cost, began.elapsed());
        report
    }

    /// Takes note of families that are not enforced while the other one is.
    fn report_unserved(&mut self) {
        let unserved = self.tables.backend().unserved().iter();
        let texts = unserved.map(|(family, error)| format!("{family}: {}", chain(error)));
        let error = texts.collect::<Vec<_>>().join("; ");
        if error == self.error {
            return;
        }
        if error.is_empty() {
            info!("network policies are in force again");
        } else {
            error!(why = error, "network policies are not in force everywhere");
        }
        self.error = error;
    }

    fn issues(&self) -> BTreeSet<String> {
        // They stand together in the plan, which has far more members of sets.
        let first = Piece::Policy(Direction::Ingress, NamespacedName::new("", ""));
        let pieces = self.planner.plan().range(first..);
        let policies = pieces.map_while(|(_, content)| match &**content {
            Content::Policy(direction, name, policy) => Some((*direction, name, policy)),
            _ => None,
        });
        let issues =
            policies.filter_map(|(direction, name, policy)| issue(direction, name, policy));
        let has_no_range = self.planner.unknown_pods() == UnknownPods::Drop
            && ranges(self.planner.plan()).next().is_none();
        issues
            .chain(self.unfiltered.iter().cloned())
            .chain(has_no_range.then(|| NO_RANGE.to_owned()))
            .collect()
    }

    /// Takes note of what came of a write.
    fn written(&mut self, result: Result<Report, BackendError>, now: Instant) {
        match result {
            Ok(report) => {
                // Before the first write there is nothing that another program could have changed.
                let was_written = std::mem::replace(&mut self.was_written, true);
                let by = self.change.take();
                if was_written && report.foreign > 0 {
                    let objects = report.foreign;
                    warn!(
                        objects,
                        by, "another program had changed the rules of network policies: repaired"
                    );
                    self.repaired = Some(now);
                    self.repairs += 1;
                    self.last_change = by;
                }
                self.report_unserved();
                if let Some(watch) = self.watch.take() {
                    watch(self.tables.backend().generation());
                }
                self.backoff.succeed();
                self.is_writing |= !report.is_empty();
                if self.tables.has_begun() {
                    self.due = Some(now);
                    return;
                }
                let issues = self.issues();
                for issue in issues.difference(&self.issues) {
                    warn!("{issue}");
                }
                self.issues = issues;
                self.clock.done();
                self.due = if self.planner.is_changed() {
                    Some(now)
                } else {
                    self.look
                };
                if std::mem::take(&mut self.is_writing)
                    && self.usual_for_open().is_some()
                    && let Some(cutting) = &self.cutting
                {
                    cutting.begin();
                }
            }
            Err(error) => {
                let why = chain(&error);
                error!(why, "network policies are as they were: trying again");
                self.error = why;
                self.backoff.fail(now);
                self.due = self.backoff.due();
            }
        }
    }
}

impl Policies {
    /// The packets that were dropped or audited; none while the kernel cannot be asked, which the next write tells of.
    pub(crate) fn packets(&mut self) -> Vec<(Outcome, Direction, u64)> {
        self.tables.backend_mut().packets().unwrap_or_default()
    }
}

impl<K: Kernel + 'static> Consumer for Policies<K> {
    type Event = PolicyEvent;

    fn absorb(&mut self, events: Vec<PolicyEvent>) {
        self.is_synced |= events.iter().any(|it| matches!(it, PolicyEvent::Synced));
        self.planner
            .absorb_all(events.iter().filter_map(|it| match it {
                PolicyEvent::Object(event) => Some(event),
                PolicyEvent::Synced => None,
            }));
        let now = Instant::now();
        if self.is_synced && self.backoff.due().is_none() {
            self.clock.wanted(now);
            self.due = Some(now);
        }
    }

    fn due(&self, _: Instant) -> Option<Instant> {
        self.due
    }

    fn step(&mut self, now: Instant) -> Option<Settled> {
        if self.due.is_none_or(|it| it > now) {
            return None;
        }
        let result = self.write(now);
        self.written(result, now);
        None
    }

    fn status(&self) -> Section {
        Section::named("network_policy", &self.facts())
    }
}

/// What is wrong with a policy.
fn issue(direction: Direction, name: &NamespacedName, policy: &PolicyPlan) -> Option<String> {
    let (kept, left_out) = (policy.rules.len(), policy.left_out);
    let issue = format!(
        "NetworkPolicy {name}: {} combinations of peers and ports for {direction} are more than one policy may have \
         ({kept}): the last {left_out} allow nothing. Make several policies of it",
        kept + left_out
    );
    (left_out > 0).then_some(issue)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
