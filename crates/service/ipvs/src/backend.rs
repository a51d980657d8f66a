//! The backend: pure rendering on one side, netlink and iptables on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_netlink::ipvs::{SCHEDULERS, Timeouts};
use sluice_plan::settings::DEFAULT_MASQUERADE_MARK;
use sluice_plan::{NodePlan, Plan, PortKey, PortPlan};
use sluice_plane::{Families, RuleCounts, Scene};
use sluice_reconcile::{Backend, BackendError, Delta, Objects, Refusal, Upkeep};
use sluice_xtables::programs::Programs;
use sluice_xtables::rule::Table;
use tracing::warn;

use crate::kernel::{self, Kernel};
use crate::mark::{MarkLayout, Marks};
use crate::object::{Key, Object, Server};
use crate::observe::{self, Scope};
use crate::placement::{self, Placement};
use crate::scheduler::Choice;
use crate::set::SetName;
use crate::state::State;
use crate::{apply, chain, drain, render};

/// Scheduler of Services that ask for none, if the operator says nothing: as kube-proxy.
const DEFAULT_SCHEDULER: &str = "rr";

/// 0 unless the operator disabled IPv6; missing if the kernel has no IPv6. Without IPv6, kube-ipvs0 takes
/// no IPv6 address.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// The operator's options.
#[derive(Clone, Debug)]
pub struct IpvsOptions {
    /// Scheduler of Services that ask for none; empty is `rr`.
    pub scheduler: Arc<str>,
    /// Virtual servers in these networks are never changed, except those of Services.
    pub exclude_cidrs: Vec<IpNet>,
    /// Idle timeouts of connections, in seconds; 0 keeps the kernel's.
    pub timeouts: Timeouts,
    /// The mark bit of packets to masquerade: our marks of near clients do not have it.
    pub masquerade_mark: u32,
}

impl Default for IpvsOptions {
    fn default() -> Self {
        Self {
            scheduler: DEFAULT_SCHEDULER.into(),
            exclude_cidrs: Vec::new(),
            timeouts: Timeouts::default(),
            masquerade_mark: DEFAULT_MASQUERADE_MARK,
        }
    }
}

/// The IPVS data plane of one network namespace.
#[derive(Debug)]
pub struct Ipvs {
    pub(crate) kernel: Kernel,
    state: State,
    pub(crate) families: Families,
    scheduler: Arc<str>,
    exclude: Vec<IpNet>,
    layout: MarkLayout,
    marks: Marks,
    /// Schedulers that the kernel was asked for since the last full sync, and whether it has them.
    schedulers: BTreeMap<Arc<str>, bool>,
    /// Names of all schedulers that the kernel has; empty until it lacked one.
    offered: String,
    pub(crate) rules: RuleCounts<Key>,
}

impl Ipvs {
    /// Connects to IPVS, ipset and rtnetlink in the network namespace of the calling thread, in which
    /// these programs are run, and sets the timeouts. Nothing else is written.
    ///
    /// # Errors
    ///
    /// One of them is missing, or the kernel lacks the scheduler: the error lists those it has.
    pub fn with(programs: Programs, options: IpvsOptions) -> Result<Self, BackendError> {
        let mut kernel = Kernel::open(programs)?;
        let families = Families::open(families(), |it| kernel.programs.probe(it, &Table::ALL));
        let families = families.map_err(|error| BackendError::new("ask for iptables", error))?;
        let scheduler = match &*options.scheduler {
            "" => DEFAULT_SCHEDULER.into(),
            _ => options.scheduler,
        };
        let mut ipvs = Self {
            layout: MarkLayout::beside(options.masquerade_mark),
            exclude: options.exclude_cidrs,
            marks: Marks::default(),
            state: State::default(),
            schedulers: BTreeMap::new(),
            offered: String::new(),
            rules: RuleCounts::default(),
            scheduler,
            families,
            kernel: {
                let set = kernel.ipvs.set_timeouts(options.timeouts);
                set.map_err(kernel::asked)?;
                kernel
            },
        };
        let scheduler = ipvs.scheduler.clone();
        if ipvs.has_scheduler(&scheduler)? {
            Ok(ipvs)
        } else {
            Err(BackendError {
                operation: format!("use scheduler {scheduler}"),
                reason: ipvs.without_scheduler(&scheduler),
                source: None,
            })
        }
    }

    /// Whether the kernel has a scheduler. The next resync asks again for one that it lacks.
    fn has_scheduler(&mut self, name: &Arc<str>) -> Result<bool, BackendError> {
        if let Some(has) = self.schedulers.get(name) {
            return Ok(*has);
        }
        // A Service must not make the kernel load a module of any name.
        let is_one = SCHEDULERS.contains(&&**name);
        let ipvs = &mut self.kernel.ipvs;
        let has = is_one && ipvs.has_scheduler(name).map_err(kernel::asked)?;
        if !has && self.offered.is_empty() {
            let known = self.kernel.ipvs.schedulers().map_err(kernel::asked)?;
            self.offered = known.join(", ");
        }
        self.schedulers.insert(name.clone(), has);
        Ok(has)
    }

    /// Says that the kernel lacks a scheduler, and which ones it has.
    fn without_scheduler(&self, name: &str) -> String {
        let offered = &self.offered;
        format!("the kernel has no scheduler {name:?} (module ip_vs_{name}); it has {offered}")
    }

    /// Schedulers that this service port would have and the kernel lacks, including stand-ins. When the
    /// kernel cannot be asked, the write fails.
    fn lacking(&mut self, port: &PortPlan, has_mark: bool) -> BTreeSet<Arc<str>> {
        let usual = self.scheduler.clone();
        let mut lacking = BTreeSet::new();
        loop {
            let choice = Choice {
                port,
                usual: &usual,
                lacking: &lacking,
            };
            let mut more = choice.schedulers(has_mark);
            more.retain(|it| self.has_scheduler(it).is_ok_and(|has| !has));
            if more.is_empty() {
                return lacking;
            }
            lacking.append(&mut more);
        }
    }
}

/// The families that the machine has.
fn families() -> Vec<IpFamily> {
    let disabled = fs::read_to_string(NO_IPV6);
    if disabled.as_ref().is_ok_and(|it| it.trim() == "0") {
        return IpFamily::ALL.to_vec();
    }
    warn!(
        path = NO_IPV6,
        ?disabled,
        "this machine has no IPv6: only IPv4 is served"
    );
    vec![IpFamily::V4]
}

/// Every object of a plan, as a first sync would write it. Pure.
pub fn render_plan(plan: &Plan, scheduler: &str) -> BTreeMap<Key, Object> {
    let standing = standing(&plan.node, &IpFamily::ALL);
    let ports = render_ports(plan, scheduler).flat_map(|(_, objects)| objects);
    standing.into_iter().chain(ports).collect()
}

/// The objects of each service port, as a first sync would write them. Pure.
pub fn render_ports<'a>(
    plan: &'a Plan,
    scheduler: &str,
) -> impl Iterator<Item = (&'a PortKey, Vec<(Key, Object)>)> {
    let scheduler: Arc<str> = match scheduler {
        "" => DEFAULT_SCHEDULER.into(),
        scheduler => scheduler.into(),
    };
    let layout = MarkLayout::beside(plan.node.masquerade_mark);
    let mut marks = Marks::default();
    plan.ports.iter().map(move |(key, port)| {
        let mark = placement::has_near_clients(port, false).then(|| marks.claim(layout, key, None));
        let placement = Placement {
            mark,
            ..Placement::default()
        };
        let objects = render::port(&plan.node, port, &placement, &scheduler);
        (key, objects)
    })
}

/// The objects that do not depend on any Service.
fn standing(node: &NodePlan, families: &[IpFamily]) -> Vec<(Key, Object)> {
    let mut objects = vec![(Key::Device, Object::Device)];
    for family in families {
        let sets = SetName::ALL.map(|set| (Key::Set(*family, set), Object::Set));
        objects.extend(sets);
        objects.extend(chain::objects(node, *family));
    }
    objects
}

impl Backend for Ipvs {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = Key;
    type Object = Object;
    type Placement = Placement;

    const SCENE_SHAPES_OWNERS: bool = true;

    fn is_shared(key: &Key) -> bool {
        match key {
            Key::Address(_) => true,
            Key::Member(_, set, _) => matches!(
                set,
                SetName::LoopBack | SetName::IpvsIps | SetName::HealthCheckNodePort
            ),
            _ => false,
        }
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        standing(&scene.node, &self.families.served())
    }

    fn place(&mut self, port: &PortPlan, previous: Option<(&PortPlan, &Placement)>) -> Placement {
        let had = previous.and_then(|(_, placement)| placement.mark);
        let claim = || self.marks.claim(self.layout, &port.key, had);
        let mark = placement::has_near_clients(port, had.is_some()).then(claim);
        Placement {
            mark,
            lacking: self.lacking(port, mark.is_some()),
        }
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
        placement::recover(port, observed)
    }

    fn render(&self, scene: &Scene, port: &PortPlan, placement: &Placement) -> Objects<Self> {
        if !self.families.serves(port.key.family) {
            return Vec::new();
        }
        render::port(&scene.node, port, placement, &self.scheduler)
    }

    fn probe(&mut self) -> Result<bool, BackendError> {
        let lacking = self.schedulers.extract_if(.., |_, has| !*has);
        let lacking: Vec<Arc<str>> = lacking.map(|(name, _)| name).collect();
        let mut any = false;
        for name in lacking {
            any |= self.has_scheduler(&name)?;
        }
        Ok(any)
    }

    fn lacks(&self, _: &Scene, port: &PortPlan, placement: &Placement) -> Option<Refusal> {
        let choice = Choice {
            port,
            usual: &self.scheduler,
            lacking: &placement.lacking,
        };
        let missed = choice.missed().next()?;
        let (lack, usual) = (self.without_scheduler(missed), &self.scheduler);
        Some(Refusal {
            reason: format!("{lack}; {usual} stands in"),
            is_served: true,
        })
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        self.schedulers.clear();
        self.offered.clear();
        let (kernel, state) = (&mut self.kernel, &mut self.state);
        let began = kernel.watch.begin(&self.families.served());
        began.map_err(|error| BackendError::new("watch rules", error))?;
        let programs = &kernel.programs;
        let listings = self.families.list(|family, timeout| {
            let programs = programs.clone().with_timeout(timeout);
            let listing = programs.save(family, &Table::ALL);
            listing.map(|it| it.rules)
        });
        let listings = listings.map_err(|error| BackendError::new("list rules", error))?;
        let scope = Scope {
            families: &self.families.served(),
            exclude: &self.exclude,
            marks: self.layout,
        };
        let objects = observe::everything(kernel, state, &scope, listings)?;
        kernel.watch.listed();
        self.rules.observed(&objects);
        Ok(objects)
    }

    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        let (kernel, state) = (&mut self.kernel, &mut self.state);
        let drained = drain::upkeep(kernel, state)?;
        let probed = self
            .families
            .upkeep(|family, timeout| apply::probe(kernel, family, timeout));
        let next = kernel.watch.upkeep();
        let next = next.map_err(|error| BackendError::new("watch rules", error))?;
        Ok(probed.and(drained).and(Upkeep::After(next)))
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let (kernel, state) = (&mut self.kernel, &mut self.state);
        apply::device(delta)?;
        for family in self.families.served() {
            if let Err(error) = apply::foundation(kernel, state, family, delta) {
                // This sync has failed, whether or not the other family is served.
                let _ = self.families.lose(family, &error);
                return Err(error);
            }
        }
        self.families.written();
        apply::write(kernel, state, delta)?;
        self.rules.written(delta);
        for key in &delta.delete {
            if let Key::Server(Server::Mark(_, _, mark)) = key {
                self.marks.release(*mark);
            }
        }
        Ok(())
    }
}
