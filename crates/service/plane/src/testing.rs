//! A data plane in memory, for tests of its users.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use sluice_plan::explain::Explanation;
use sluice_plan::settings::Settings;
use sluice_plan::{Event, Plan, PortKey, PortPlan};
use sluice_reconcile::{Backend, BackendError, Change, Delta, Objects, Parts, Refusal, Upkeep};

use crate::{
    DataPlane, FailureMetrics, ForeignChange, Keep, Leftovers, Live, Looks, Options, Proxy,
    Removal, RenderedObject, Request, RuleMetrics, Scene, ServiceBackend, Sysctl, Unserved,
};

/// The objects of a [`Fake`].
pub trait Shape: Clone + Default + fmt::Debug + 'static {
    /// Identity of an object.
    type Key: Ord + Clone + fmt::Display + fmt::Debug + Send;
    /// Content of an object.
    type Object: Clone + Eq + fmt::Debug + Send;

    /// As [`ServiceBackend::PART`].
    const PART: usize;

    /// As [`ServiceBackend::cost`].
    fn cost(port: &PortPlan) -> usize {
        port.weight()
    }

    /// As [`Backend::is_shared`].
    fn is_shared(_: &Self::Key) -> bool {
        false
    }

    /// As [`Backend::standing`].
    fn standing() -> Vec<(Self::Key, Self::Object)> {
        Vec::new()
    }

    /// As [`Backend::parts`].
    fn parts(_: &[Change<PortPlan, ()>]) -> Option<Box<dyn Parts<Self::Key, Self::Object>>> {
        None
    }

    /// As [`Backend::render`].
    fn render(port: &PortPlan) -> Vec<(Self::Key, Self::Object)>;
}

/// An object for each frontend, with the addresses of the endpoints, and the object `table` that always exists.
#[derive(Clone, Debug, Default)]
pub struct Text;

impl Shape for Text {
    type Key = String;
    type Object = String;

    const PART: usize = 100;

    fn standing() -> Vec<(String, String)> {
        vec![("table".to_owned(), String::new())]
    }

    fn render(port: &PortPlan) -> Vec<(String, String)> {
        let endpoints: Vec<String> = port
            .reachable()
            .iter()
            .map(|it| it.addr.to_string())
            .collect();
        let frontends = port.frontends.iter();
        let object = |frontend: &dyn fmt::Display| (frontend.to_string(), endpoints.join(" "));
        frontends.map(|it| object(&it.frontend)).collect()
    }
}

/// A kernel in memory that records the writes, and fails on demand.
#[derive(Debug)]
pub struct Kernel<S: Shape = Text> {
    /// What the kernel holds.
    pub objects: BTreeMap<S::Key, S::Object>,
    /// Panics when an added object exists, or a deleted or replaced one does not.
    pub is_strict: bool,
    /// Number of times that all objects were read.
    pub observed: usize,
    /// Number of writes, those that failed included.
    pub applied: usize,
    /// How many of the next writes fail.
    pub failures: usize,
    /// The family that is not served any more after a write has failed.
    pub loses: Option<Unserved>,
    /// The machine lacks a feature for the service ports with this text in the key of an object.
    pub lacks: Option<&'static str>,
    /// The family that is not served for any Service.
    pub unserved: Option<Unserved>,
    /// Number of calls of [`Backend::upkeep`].
    pub upkeeps: usize,
    /// Number of calls of [`DataPlane::started`].
    pub started: usize,
    /// Time until upkeep is due.
    pub waits: Option<Duration>,
    /// The foreign change that upkeep finds.
    pub disturbed: Option<String>,
    /// The reason of a resync that upkeep asks for, because the family that was not served may be now.
    pub recovered: Option<String>,
}

impl<S: Shape> Default for Kernel<S> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            is_strict: false,
            observed: 0,
            applied: 0,
            failures: 0,
            loses: None,
            lacks: None,
            unserved: None,
            upkeeps: 0,
            started: 0,
            waits: None,
            disturbed: None,
            recovered: None,
        }
    }
}

impl<S: Shape> Kernel<S> {
    fn write(&mut self, delta: &Delta<S::Key, S::Object>) {
        let is_strict = self.is_strict;
        let check = |is_right: bool, key: &S::Key, what: &str| {
            assert!(is_right || !is_strict, "{key} is {what}");
        };
        for key in &delta.delete {
            let old = self.objects.remove(key);
            check(old.is_some(), key, "deleted, but not there");
        }
        for (key, object) in &delta.replace {
            let old = self.objects.insert(key.clone(), object.clone());
            check(old.is_some(), key, "replaced, but not there");
        }
        for (key, object) in &delta.add {
            let old = self.objects.insert(key.clone(), object.clone());
            check(old.is_none(), key, "added, but there");
        }
    }
}

/// Plays rounds of events, of which each comes after one part was written, until everything is. No object is added twice, none is
/// deleted that another service port needs, and in the end the kernel has what the plan renders. `check` looks at the kernel
/// after each part. With `doubts` the kernel is read while a part is left: none of it is another program's change.
///
/// # Panics
///
/// One of these is not so.
pub fn parts_add_up<S: Shape>(
    settings: Settings,
    rounds: Vec<Vec<Event>>,
    doubts: bool,
    check: impl Fn(&BTreeMap<S::Key, S::Object>),
) {
    const ENOUGH: usize = 1000;
    let memory = Fake::<S>::default();
    memory.0.borrow_mut().is_strict = true;
    let mut proxy = Proxy::new(settings, memory.clone());
    let sync = |proxy: &mut Proxy<Fake<S>>| {
        proxy.replan();
        let synced = proxy.sync().expect("memory takes everything");
        check(&memory.0.borrow().objects);
        synced
    };
    for events in rounds {
        events.into_iter().for_each(|it| proxy.absorb(it));
        sync(&mut proxy);
    }
    if doubts && proxy.reconciler().has_begun() {
        proxy.reconciler_mut().doubt();
        let report = sync(&mut proxy).report;
        assert!(report.full && report.foreign == 0);
    }
    let mut parts = 0;
    while proxy.is_any_left() {
        sync(&mut proxy);
        parts += 1;
        assert!(parts < ENOUGH);
    }
    let ports = proxy.plan().ports.values();
    let mut wanted: BTreeMap<_, _> = S::standing().into_iter().collect();
    wanted.extend(ports.flat_map(|it| S::render(it)));
    assert_eq!(memory.0.borrow().objects, wanted);
}

/// A data plane whose kernel is in memory. Clones have one kernel.
#[derive(Clone, Debug, Default)]
pub struct Fake<S: Shape = Text>(pub Rc<RefCell<Kernel<S>>>);

impl<S: Shape> Backend for Fake<S> {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = S::Key;
    type Object = S::Object;
    type Placement = ();

    const SCENE_SHAPES_OWNERS: bool = false;

    fn is_shared(key: &S::Key) -> bool {
        S::is_shared(key)
    }

    fn standing(&self, _: &Scene) -> Objects<Self> {
        S::standing()
    }

    fn place(&mut self, _: &PortPlan, _: Option<(&PortPlan, &())>) {}

    fn recover(&self, _: &PortPlan, _: &BTreeMap<S::Key, S::Object>) {}

    fn lacks(&self, _: &Scene, port: &PortPlan, (): &()) -> Option<Refusal> {
        let part = self.0.borrow().lacks?;
        let mut objects = S::render(port).into_iter();
        let is_hurt = objects.any(|(key, _)| key.to_string().contains(part));
        is_hurt.then(|| Refusal {
            reason: "not here".to_owned(),
            is_served: false,
        })
    }

    fn probe(&mut self) -> Result<bool, BackendError> {
        Ok(self.0.borrow().lacks.is_none())
    }

    fn render(&self, _: &Scene, port: &PortPlan, (): &()) -> Objects<Self> {
        S::render(port)
    }

    fn observe(&mut self) -> Result<BTreeMap<S::Key, S::Object>, BackendError> {
        let mut kernel = self.0.borrow_mut();
        kernel.observed += 1;
        Ok(kernel.objects.clone())
    }

    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        let mut kernel = self.0.borrow_mut();
        kernel.upkeeps += 1;
        if let Some(reason) = kernel.recovered.take() {
            kernel.unserved = None;
            return Ok(Upkeep::Resync(reason));
        }
        match kernel.disturbed.take() {
            None => Ok(kernel.waits.into()),
            Some(reason) => Err(BackendError {
                operation: "look".to_owned(),
                reason,
                source: None,
            }),
        }
    }

    fn parts(
        &self,
        _: &Scene,
        changes: &[Change<PortPlan, ()>],
    ) -> Option<Box<dyn Parts<S::Key, S::Object>>> {
        S::parts(changes)
    }

    fn apply(&mut self, delta: &Delta<S::Key, S::Object>) -> Result<(), BackendError> {
        let mut kernel = self.0.borrow_mut();
        kernel.applied += 1;
        if kernel.failures > 0 {
            kernel.failures -= 1;
            kernel.unserved = kernel.loses.take().or(kernel.unserved.take());
            return Err(BackendError {
                operation: "apply".to_owned(),
                reason: "out of memory".to_owned(),
                source: None,
            });
        }
        kernel.write(delta);
        Ok(())
    }
}

impl<S: Shape> ServiceBackend for Fake<S> {
    const LARGE: usize = 1000;
    const PART: usize = S::PART;

    fn cost(port: &PortPlan) -> usize {
        S::cost(port)
    }
}

impl<S: Shape> DataPlane for Fake<S> {
    const NAME: &'static str = "fake";
    const RUNS_PROGRAMS: bool = false;
    const METRICS: RuleMetrics = RuleMetrics {
        tells_full_syncs: true,
        failures: FailureMetrics::Nftables,
        counts_rules: false,
        counts_denials: true,
        has_tables: false,
    };
    const LEFTOVERS: &'static dyn Leftovers = &NoLeftovers;

    fn open(_: &Options<'_>) -> Result<Self, BackendError> {
        Ok(Self::default())
    }

    fn keep(&self) -> Box<Keep> {
        Box::new(|_| false)
    }

    fn started(&mut self, _: ForeignChange) -> Vec<Sysctl> {
        self.0.borrow_mut().started += 1;
        Vec::new()
    }

    fn unserved(&self) -> Option<Unserved> {
        self.0.borrow().unserved.clone()
    }

    fn live(explanation: &Explanation) -> Result<Live, BackendError> {
        Live::without_rules(explanation)
    }

    fn text(_: &Plan, _: &Options<'_>) -> String {
        String::new()
    }

    fn objects(_: &Plan, _: &Options<'_>) -> Vec<RenderedObject> {
        Vec::new()
    }
}

struct NoLeftovers;

impl Leftovers for NoLeftovers {
    fn remove(&self, _: &Request<'_>, _: &mut Removal) {}

    fn sign_of_kube_proxy(&self, _: &Keep, _: &mut Looks) -> Option<String> {
        None
    }
}
