//! The backend: pure rendering on one side, the host's programs on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sluice_model::IpFamily;
use sluice_netlink::nfacct::Accounts;
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::kube_proxy::is_hashed;
use sluice_plane::{Families, RuleCounts, Scale, Scene};
use sluice_reconcile::{Backend, BackendError, Delta, Objects, Refusal, Upkeep};
use sluice_xtables::extension::Extension;
use sluice_xtables::programs::{Programs, RestoreError, SaveError};
use sluice_xtables::rule::Table;
use sluice_xtables::watch::Watch;
use tracing::{debug, warn};

use crate::accounts::{self, Accounting};
use crate::lack::Lacks;
use crate::layout::Conntrack;
use crate::name;
use crate::object::{Key, Object};
use crate::script::{self, Present};
use crate::{layout, observe, render};

/// Exists if the kernel has IPv6.
const IPV6: &str = "/proc/thread-self/net/if_inet6";

/// The iptables data plane of one network namespace.
#[derive(Debug)]
pub struct Iptables {
    pub(crate) programs: Programs,
    conntrack: Conntrack,
    pub(crate) families: Families,
    present: Present,
    pub(crate) counts: RuleCounts<Key>,
    lacks: Lacks,
    /// `None`: the kernel has no nfacct.
    accounts: Option<Accounts>,
    watch: Watch,
    /// NodePorts answer on 127.0.0.1, so that packets from there are routed to pods.
    pub(crate) routes_loopback: bool,
}

impl Iptables {
    /// Works with these programs in the network namespace of the calling thread. Nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// The kernel has no iptables, or does not let us use it.
    pub fn with(programs: Programs, conntrack: Conntrack) -> Result<Self, BackendError> {
        let mut families = vec![IpFamily::V4];
        if Path::new(IPV6).exists() {
            families.push(IpFamily::V6)
        } else {
            warn!("this kernel has no IPv6: only IPv4 is served")
        }
        let families = Families::open(families, |it| programs.probe(it, layout::READ));
        let watch = Watch::open(programs.variant());
        let accounts = Accounts::open();
        Ok(Self {
            families: families.map_err(|error| BackendError::new("ask for iptables", error))?,
            watch: watch.map_err(|error| BackendError::new("watch rules", error))?,
            programs,
            conntrack,
            present: Present::default(),
            counts: RuleCounts::default(),
            lacks: Lacks::default(),
            accounts: accounts
                .inspect_err(|error| debug!(%error, "no nfacct"))
                .ok(),
            routes_loopback: false,
        })
    }

    /// The programs in use.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Writes the missing rules that drop packets of other hosts to loopback addresses (CVE-2020-8558), for
    /// `--init-only`, which then sets `route_localnet`.
    ///
    /// # Errors
    ///
    /// The rules could not be listed, or the kernel refused.
    pub(crate) fn write_loopback_firewall(&mut self) -> Result<(), BackendError> {
        let listing = self.programs.save(IpFamily::V4, layout::READ);
        let listing = listing.map_err(|error| BackendError::new("list rules", error))?;
        let mut observed = BTreeMap::new();
        observe::objects(IpFamily::V4, listing, &BTreeSet::new(), &mut observed);
        let mut missing = layout::loopback_firewall();
        missing.retain(|(key, _)| !observed.contains_key(key));
        self.apply(&Delta {
            add: missing,
            ..Delta::default()
        })
    }

    /// Probes the extensions that no rule of the kernel uses.
    fn probe(&mut self, family: IpFamily) -> Result<bool, RestoreError> {
        let programs = self.programs.quick();
        let watch = &mut self.watch;
        self.lacks
            .probe(family, |script| watch.restore(&programs, family, script))
    }

    fn accounting(&self, family: IpFamily) -> Accounting {
        if self.lacks.has(family, Extension::Nfacct) {
            Accounting::On
        } else {
            Accounting::Off
        }
    }
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
            // The rule of a health check port has no protocol, so ports of two protocols have the same.
            (Table::Filter, name::NODE_PORTS) => matches!(key, Key::Rule(..)),
            (Table::Filter, name::CLUSTER_IPS) => matches!(key, Key::Rule(..)),
            (Table::Filter, chain) if is_hashed(chain, name::OF_PREFIXES) => {
                matches!(key, Key::Common(_))
            }
            _ => false,
        }
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        let served = self.families.served();
        let accounting = |family| self.accounting(family);
        layout::standing(&scene.node, &served, self.conntrack, accounting)
    }

    fn place(&mut self, _port: &PortPlan, _previous: Option<(&PortPlan, &())>) {}

    fn recover(&self, _port: &PortPlan, _observed: &BTreeMap<Key, Object>) {}

    fn render(&self, scene: &Scene, port: &PortPlan, _placement: &()) -> Objects<Self> {
        let family = port.key.family;
        if self.families.serves(family) {
            render::port(scene, port, self.accounting(family))
        } else {
            Vec::new()
        }
    }

    fn probe(&mut self) -> Result<bool, BackendError> {
        let mut any_new = false;
        for family in self.families.served() {
            let probed = self.probe(family);
            any_new |= probed.map_err(|error| BackendError::new("probe iptables", error))?;
        }
        Ok(any_new)
    }

    fn lacks(&self, scene: &Scene, port: &PortPlan, placement: &()) -> Option<Refusal> {
        if !self.lacks.any_for_services() {
            return None;
        }
        self.lacks.refusal(&self.render(scene, port, placement))
    }

    fn is_undisturbed(&mut self) -> bool {
        self.watch.is_undisturbed()
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        let began = self.watch.begin(&self.families.served());
        began.map_err(|error| BackendError::new("watch rules", error))?;
        let programs = &self.programs;
        let listings = self.families.list(|family, timeout| {
            // The other family would wait for a whole listing of programs that hang.
            let answers = programs.answer(family);
            answers.map_err(|source| SaveError::Failed { family, source })?;
            let programs = programs.clone().with_timeout(timeout);
            programs.save(family, layout::READ)
        });
        let listings = listings.map_err(|error| BackendError::new("list rules", error))?;
        self.watch.listed();
        let can_count = self.accounts.as_mut().is_some_and(accounts::ensure);
        let (mut observed, mut needed) = (BTreeMap::new(), BTreeSet::new());
        for (family, listing) in listings {
            self.lacks.see(family, &listing.rules);
            if !can_count {
                self.lacks.forget(family, Extension::Nfacct);
            }
            if let Err(error) = self.probe(family) {
                let is_locked = matches!(error, RestoreError::Locked(_));
                if is_locked || self.families.lose(family, &error).is_err() {
                    return Err(BackendError::new("probe iptables", error));
                }
                continue;
            }
            needed.append(&mut observe::needed(family, &listing.rules));
            observe::objects(family, listing, &needed, &mut observed);
        }
        self.present = Present::observed(&observed, needed);
        self.counts.observed(&observed);
        Ok(observed)
    }

    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        let next = self.watch.upkeep();
        let next = next.map_err(|error| BackendError::new("watch rules", error))?;
        let programs = &self.programs;
        let tried = self.families.upkeep(|family, timeout| {
            let probed = programs.probe_again(family, layout::READ);
            probed.map_err(|error| error.to_string())?;
            let programs = programs.clone().with_timeout(timeout);
            let listed = programs.save(family, layout::READ);
            listed.map(drop).map_err(|error| error.to_string())
        });
        Ok(tried.and(Upkeep::After(next)))
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let largest = self.programs.variant().largest_step();
        let mut scripts = script::scripts(delta, &self.present, largest);
        // It may hang once more.
        scripts.sort_by_key(|(family, _)| self.families.has_failed(*family));
        let mut failed: Option<(IpFamily, BackendError)> = None;
        for (family, script) in scripts {
            if failed.as_ref().is_some_and(|it| it.0 == family) {
                continue;
            }
            let Err(error) = self.watch.restore(&self.programs, family, &script) else {
                continue;
            };
            // If another program changed rules or has the lock, the next sync may succeed.
            if self.watch.is_unchanged() && !matches!(error, RestoreError::Locked(_)) {
                // This sync has failed, whether or not the other family is served.
                let _ = self.families.lose(family, &error);
            }
            failed.get_or_insert((family, BackendError::new("write rules", error)));
        }
        if let Some((_, error)) = failed {
            return Err(error);
        }
        self.families.written();
        self.present.written(delta);
        self.counts.written(delta);
        Ok(())
    }
}

/// Whether a chain is ours, or a built-in chain that jumps to ours.
pub(crate) fn concerns(table: Table, chain: &str) -> bool {
    name::kind(table, chain).is_some()
}
