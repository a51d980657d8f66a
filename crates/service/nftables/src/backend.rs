//! The backend: pure rendering on one side, a netlink connection on the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluice_model::IpFamily;
use sluice_nft::{Batch, Connection, Create, Generation, Kernel, drift};
use sluice_plan::explain::Explanation;
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::{
    Counters, DataPlane, DenialCounters, ExchangeObserver, FailureMetrics, Families, ForeignChange,
    Keep, Leftovers, Live, Options, RenderedObject, RuleMetrics, Scale, Scene, ServiceBackend,
    Sysctl, Trace, Unserved,
};
use sluice_reconcile::{Backend, BackendError, Change, Delta, Objects, Upkeep};

use crate::apply;
use crate::counters::ElementCounters;
use crate::denials::RuleCounters;
use crate::leftovers::Tables;
use crate::name::{ChainName, TABLE, scope};
use crate::object::{Key, Object};
use crate::observe::Unlisted;
use crate::parts::Parts;
use crate::placement::{self, Placement};
use crate::render::Render;
use crate::set::{Counting, SetName};
use crate::unreachable::{self, Search};
use crate::{layout, live, observe, render, slots, tables, text};

/// A difference in parts.
type ObjectParts = dyn sluice_reconcile::Parts<Key, Object>;

/// Pause between two checks whether a search in the background has ended.
const SEARCH_POLL: Duration = Duration::from_secs(1);

/// The nftables data plane of one network namespace.
#[derive(Debug)]
pub struct Nftables<K = Connection> {
    kernel: K,
    /// A table of our name may be somebody else's in one of them.
    families: Families,
    /// The generation that the namespace's ruleset has if no other program changed it since the last
    /// [`observe`](Backend::observe): every transaction raises it by one.
    generation: u32,
    counting: Counting,
    /// Maps whose elements the last observation may not have listed all.
    unlisted: Unlisted,
    /// The running search of those maps.
    search: Option<Search>,
    /// The result of the last search: elements that no frontend led to.
    unreachable: Vec<Key>,
}

impl Nftables {
    /// Connects to nf_tables of the calling thread's network namespace. Nothing is written.
    ///
    /// # Errors
    ///
    /// No netlink socket could be opened.
    pub fn connect() -> Result<Self, BackendError> {
        Ok(Self::on(tables::connect()?))
    }
}

impl<K: Kernel> Nftables<K> {
    /// The data plane of this ruleset. Nothing is written.
    pub fn on(kernel: K) -> Self {
        Self {
            kernel,
            families: Families::of(IpFamily::ALL.to_vec()),
            generation: 0,
            counting: Counting::Nothing,
            unlisted: Unlisted::new(),
            search: None,
            unreachable: Vec::new(),
        }
    }

    /// Sets what to count; the default is nothing. Tables that count something else are replaced by the first sync,
    /// and their counts are lost.
    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.counting = counting;
        self
    }

    /// Asks the kernel to check that it has nf_tables and lets us use it, without changing
    /// anything: a table is added and deleted in one transaction.
    ///
    /// # Errors
    ///
    /// The kernel's answer: no permission, no nf_tables.
    fn probe(&mut self) -> Result<(), BackendError> {
        let mut batch = Batch::new();
        let scope = sluice_nft::Scope {
            table: "sluice-probe",
            ..scope(IpFamily::V4)
        };
        batch.add_table(0, scope, None, Create::IfMissing);
        batch.delete_table(1, scope);
        let result = self.kernel.commit(&batch);
        result.map_err(|error| error.of("ask for nf_tables"))
    }
}

/// The objects of one service port, as a first sync would write them. Pure.
pub fn render_port(port: &PortPlan) -> Vec<(Key, Object)> {
    render::port(port, &placement::place(port, None))
}

/// The difference between service ports, of what is not shared, as if the first sync had placed both. Pure.
pub fn port_parts(changes: &[Change<PortPlan, ()>]) -> Box<ObjectParts> {
    let place = |it: &Option<(Arc<PortPlan>, ())>| {
        let (plan, ()) = it.clone()?;
        let placement = placement::place(&plan, None);
        Some((plan, placement))
    };
    let placed = changes.iter().map(|it| Change {
        old: place(&it.old),
        new: place(&it.new),
    });
    Box::new(Parts::new(&placed.collect::<Vec<_>>()))
}

/// Every object of a plan, as a first sync would write it. Pure.
pub fn render_plan(plan: &Plan, counting: Counting) -> BTreeMap<Key, Object> {
    let ports = plan.ports.values().flat_map(|port| render_port(port));
    let standing = layout::standing(&plan.node, Scale::Small, counting);
    standing.into_iter().chain(ports).collect()
}

impl<K: Kernel + Send + 'static> Backend for Nftables<K> {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = Key;
    type Object = Object;
    type Placement = Placement;

    const SCENE_SHAPES_OWNERS: bool = false;

    fn is_shared(key: &Key) -> bool {
        matches!(
            key,
            Key::Chain(_, ChainName::Pool(..) | ChainName::Sources(_))
                | Key::Sources(..)
                | Key::Element(_, SetName::Hairpin, _)
        )
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        let mut objects = layout::standing(&scene.node, scene.scale, self.counting);
        objects.retain(|(key, _)| self.families.serves(key.family()));
        objects
    }

    fn place(&mut self, port: &PortPlan, previous: Option<(&PortPlan, &Placement)>) -> Placement {
        placement::place(port, previous)
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
        placement::recover(port, observed)
    }

    fn render(&self, _: &Scene, port: &PortPlan, placement: &Placement) -> Objects<Self> {
        if self.families.serves(port.key.family) {
            render::port(port, placement)
        } else {
            Vec::new()
        }
    }

    fn parts(
        &self,
        _: &Scene,
        changes: &[Change<PortPlan, Placement>],
    ) -> Option<Box<ObjectParts>> {
        let is_served = |it: &&Change<PortPlan, Placement>| {
            let plan = it.old.as_ref().or(it.new.as_ref());
            plan.is_some_and(|(it, _)| self.families.serves(it.key.family))
        };
        let served: Vec<_> = changes.iter().filter(is_served).cloned().collect();
        Some(Box::new(Parts::new(&served)))
    }

    fn render_shared(&self, _: &Scene, port: &PortPlan, placement: &Placement) -> Objects<Self> {
        if self.families.serves(port.key.family) {
            Render::new(port, placement).shared()
        } else {
            Vec::new()
        }
    }

    fn weight(object: &Object) -> usize {
        object.weight()
    }

    fn is_undisturbed(&mut self) -> bool {
        let current = observe::generation(&mut self.kernel);
        current.is_ok_and(|it| it == self.generation)
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        // Before listing, so that a change in between shows.
        self.generation = observe::generation(&mut self.kernel)?;
        let Self {
            kernel,
            families,
            counting,
            ..
        } = self;
        let tables = families.list(|family, _| observe::table(kernel, family, *counting))?;
        let (mut objects, mut unlisted) = (BTreeMap::new(), Unlisted::new());
        for (_, mut table) in tables {
            objects.append(&mut table.0);
            unlisted.append(&mut table.1);
        }
        self.unlisted = unlisted;
        let mut unreachable = std::mem::take(&mut self.unreachable);
        unreachable.retain(|it| self.families.serves(it.family()));
        let unseen = unreachable.iter().filter(|key| !objects.contains_key(key));
        let unseen: Vec<&Key> = unseen.collect();
        objects.append(&mut self.look_up(&unseen)?);
        Ok(objects)
    }

    fn look_up(&mut self, keys: &[&Key]) -> Result<BTreeMap<Key, Object>, BackendError> {
        let mut objects = BTreeMap::new();
        for (&(family, map), unseen) in &mut self.unlisted {
            let keys = keys.iter().filter_map(|key| match key {
                Key::Element(of, set, key) if (*of, *set) == (family, map) => Some(key),
                _ => None,
            });
            let found = slots::find(&mut self.kernel, family, map, keys, &mut objects);
            let found = found.map_err(|error| tables::failed(family, error))?;
            *unseen = unseen.map(|it| it.saturating_sub(found));
        }
        Ok(objects)
    }

    /// Searches the maps that were not listed, unless all their elements were seen, and tries a family again that is not served.
    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        let kernel = &mut self.kernel;
        let tried = self
            .families
            .upkeep(|family, _| tables::ours(kernel, family).map(drop));
        Ok(tried.and(self.search()?))
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        for batch in apply::transactions(delta) {
            self.commit(delta, &batch)?;
        }
        self.families.written();
        Ok(())
    }
}

impl<K: Kernel + Send + 'static> Nftables<K> {
    fn search(&mut self) -> Result<Upkeep, BackendError> {
        if let Some(search) = self.search.take_if(|it| it.is_finished()) {
            self.unreachable = search.join().expect("the listing does not panic")?;
            if !self.unreachable.is_empty() {
                let count = self.unreachable.len();
                let reason = format!("no frontend leads to {count} elements of endpoint maps");
                return Ok(Upkeep::Resync(reason));
            }
        }
        if self.search.is_none() {
            let unlisted = std::mem::take(&mut self.unlisted).into_iter();
            let maps = unlisted.filter(|(_, unseen)| *unseen != Some(0));
            let maps: Vec<_> = maps.map(|(map, _)| map).collect();
            if !maps.is_empty() {
                self.search = Some(unreachable::search(self.another()?, maps)?);
            }
        }
        Ok(self.search.as_ref().map(|_| SEARCH_POLL).into())
    }
}

impl<K: Kernel + Send + 'static> ServiceBackend for Nftables<K> {
    const LARGE: usize = 4096;
    const PART: usize = 32_768;

    /// Measured: an element takes 1.5 us, and each endpoint with affinity two rules of 7 us. Beside frontends and slots there
    /// are the ClusterIP, and endpoints of this node.
    fn cost(port: &PortPlan) -> usize {
        let endpoints = match port.affinity_seconds {
            Some(_) => 9 * port.members(),
            None => port.weight(),
        };
        1 + port.frontends.len() + endpoints + port.members() + port.sources()
    }
}

impl DataPlane for Nftables {
    const NAME: &'static str = "nftables";
    const RUNS_PROGRAMS: bool = false;
    const METRICS: RuleMetrics = RuleMetrics {
        tells_full_syncs: true,
        failures: FailureMetrics::Nftables,
        counts_rules: false,
        counts_denials: true,
        has_tables: false,
    };
    const LEFTOVERS: &'static dyn Leftovers = &Tables;

    fn open(options: &Options<'_>) -> Result<Self, BackendError> {
        let need = "this kernel offers no nf_tables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4)";
        let opened = Self::connect().and_then(|mut it| it.probe().map(|()| it));
        let plane = opened.map_err(|error| BackendError::new(need, error))?;
        Ok(plane.counting(counting(options)))
    }

    fn keep(&self) -> Box<Keep> {
        Box::new(|trace| matches!(trace, Trace::Table(name) if *name == TABLE))
    }

    fn started(&mut self, report: ForeignChange) -> Vec<Sysctl> {
        drift::watch(TABLE, self.kernel.port_id(), self.generation, report);
        Vec::new()
    }

    fn unserved(&self) -> Option<Unserved> {
        self.families.unserved().cloned()
    }

    fn on_exchange(&mut self, observer: ExchangeObserver) {
        self.kernel.on_exchange(observer);
    }

    fn counters(&self) -> Result<Option<Box<dyn Counters>>, BackendError> {
        Ok(match self.counting {
            Counting::Nothing => None,
            Counting::Connections => Some(Box::new(ElementCounters::new(self.another()?))),
        })
    }

    fn denial_counters(&self) -> Result<Option<Box<dyn DenialCounters>>, BackendError> {
        Ok(Some(Box::new(RuleCounters::new(self.another()?))))
    }

    fn live(explanation: &Explanation) -> Result<Live, BackendError> {
        live::live(explanation)
    }

    fn text(plan: &Plan, options: &Options<'_>) -> String {
        text::ruleset(&render_plan(plan, counting(options)))
    }

    fn objects(plan: &Plan, options: &Options<'_>) -> Vec<RenderedObject> {
        let objects = render_plan(plan, counting(options)).into_iter();
        objects
            .map(|(key, object)| RenderedObject {
                key: key.to_string(),
                comment: object.comment().to_owned(),
                text: text::object(&key, &object),
            })
            .collect()
    }
}

/// The counting that the operator's options ask for.
fn counting(options: &Options<'_>) -> Counting {
    if options.counts_connections {
        Counting::Connections
    } else {
        Counting::Nothing
    }
}

impl<K: Kernel> Nftables<K> {
    fn another(&self) -> Result<K, BackendError> {
        let another = self.kernel.reopen();
        another.map_err(tables::unconnected)
    }

    /// Commits one transaction of a delta. A refusal names the objects, by the tags of the messages
    /// that the kernel refused.
    fn commit(&mut self, delta: &Delta<Key, Object>, batch: &Batch) -> Result<(), BackendError> {
        match self.kernel.commit(batch) {
            Ok(()) if batch.is_empty() => Ok(()),
            Ok(()) => {
                self.generation = Generation::after(self.generation);
                Ok(())
            }
            Err(error) => {
                // The first object that the kernel refused.
                let object = error.tags().find_map(|tag| apply::key(delta, tag));
                let what = object.map_or("tables ip sluice and ip6 sluice".into(), Key::to_string);
                Err(error.of(format!("write {what}")))
            }
        }
    }
}
