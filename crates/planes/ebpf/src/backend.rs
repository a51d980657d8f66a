//! The backend: pure rendering on one side, the maps on the other.

use std::collections::BTreeMap;

use sluice_bpf::{BpfError, Maps, Programs, Setup, Sizes};
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::{Scene, ServiceBackend};
use sluice_reconcile::{Backend, BackendError, Delta, Objects};
use tracing::info;

use crate::apply::{self, Fill};
use crate::flows::{Sweeper, Timeouts};
use crate::object::{Key, Object};
use crate::observe;
use crate::placement::{self, Ids, Placement};
use crate::render::{self, Facts, has_members};

/// The eBPF data plane of one network namespace.
#[derive(Debug)]
pub struct Ebpf {
    programs: Programs,
    facts: Facts,
    ids: Ids,
    /// What the maps hold.
    fill: Fill,
    timeouts: Timeouts,
    /// Removes connections that ended, once programs are attached.
    sweeper: Option<Sweeper>,
}

impl Ebpf {
    /// Loads the programs for the calling thread's network namespace. No packet passes them before the first
    /// write, unless an earlier agent attached them.
    ///
    /// # Errors
    ///
    /// This build has no programs, or the kernel refuses one.
    pub fn connect(setup: Setup, facts: Facts) -> Result<Self, BackendError> {
        let facts = Facts {
            netns_cookie: sluice_bpf::netns_cookie().map_err(failed)?,
            ..facts
        };
        Ok(Self {
            programs: Programs::open(setup).map_err(failed)?,
            facts,
            ids: Ids::default(),
            fill: Fill::default(),
            timeouts: Timeouts::default(),
            sweeper: None,
        })
    }

    /// Forgets connections without packets after these times.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    pub(crate) fn maps_mut(&mut self) -> &mut Maps {
        self.programs.maps_mut()
    }

    /// From here on packets pass the programs.
    fn attach(&mut self) -> Result<(), BackendError> {
        self.programs.attach().map_err(failed)?;
        if self.sweeper.is_none() {
            let flows = Maps::open(self.programs.pins()).map_err(failed)?.flows;
            let sweeper = Sweeper::start(flows, self.timeouts);
            let failed = |error| BackendError::new("start a thread for connections", error);
            self.sweeper = Some(sweeper.map_err(failed)?);
        }
        Ok(())
    }

    /// The programs and maps.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    fn sizes(&self) -> Sizes {
        let maps = self.programs.maps();
        Sizes {
            frontends: maps.frontends.capacity(),
            endpoints: maps.endpoints.capacity(),
            members: maps.members.capacity(),
            maglev: maps.maglev.capacity(),
            sources: maps.sources.capacity(),
            addresses: maps.addresses.capacity(),
            flows: maps.flows.capacity(),
            affinity: maps.affinity.capacity(),
        }
    }

    /// Makes room for what a delta adds.
    fn make_room(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let now = self.sizes();
        let wanted = self.fill.with_added(delta).sizes(&now);
        if wanted == now {
            return Ok(());
        }
        self.programs.grow(&wanted).map_err(failed)?;
        let (frontends, endpoints) = (wanted.frontends, wanted.endpoints);
        info!(frontends, endpoints, "maps have room for more entries");
        Ok(())
    }
}

pub(crate) fn failed(error: BpfError) -> BackendError {
    BackendError {
        operation: "eBPF".into(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    }
}

/// The objects of one service port with this id, as a first sync would write them. Pure.
pub fn render_port(port: &PortPlan, service: u32, facts: &Facts) -> Vec<(Key, Object)> {
    render::port(port, &placement::place(port, service, None), facts)
}

/// Every object of a plan, as a first sync would write it. Pure.
pub fn render_plan(plan: &Plan, facts: &Facts) -> BTreeMap<Key, Object> {
    let mut ids = Ids::default();
    let mut objects: BTreeMap<Key, Object> =
        render::standing(&plan.node, facts).into_iter().collect();
    for port in plan.ports.values() {
        let service = ids.assign(&port.key, 0);
        objects.extend(render_port(port, service, facts));
    }
    objects
}

impl Backend for Ebpf {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = Key;
    type Object = Object;
    type Placement = Placement;

    const SCENE_SHAPES_OWNERS: bool = false;

    fn is_shared(key: &Key) -> bool {
        matches!(key, Key::Source(..) | Key::Address(..))
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        render::standing(&scene.node, &self.facts)
    }

    fn place(&mut self, port: &PortPlan, previous: Option<(&PortPlan, &Placement)>) -> Placement {
        let previous = previous.map(|(_, it)| it);
        let wanted = previous.map_or(0, |it| it.service);
        let service = self.ids.assign(&port.key, wanted);
        let previous = previous.filter(|it| it.service == service);
        placement::place(port, service, previous)
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
        placement::recover(port, observed)
    }

    fn render(&self, _: &Scene, port: &PortPlan, placement: &Placement) -> Objects<Self> {
        render::port(port, placement, &self.facts)
    }

    /// Nobody else writes the maps.
    fn is_undisturbed(&mut self) -> bool {
        true
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        let objects = observe::all(self.programs.maps()).map_err(failed)?;
        self.fill = Fill::of(objects.keys());
        // An earlier agent wrote the maps: they are whole, and our programs take the place of its own.
        if objects.contains_key(&Key::Node) {
            self.attach()?;
        }
        Ok(objects)
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        self.make_room(delta)?;
        let maps = self.programs.maps_mut();
        for write in apply::ordered(delta) {
            apply::write(maps, write).map_err(|error| refused(write, error))?;
        }
        self.fill = self.fill.after(delta);
        self.attach()
    }
}

fn refused(write: apply::Write<'_>, error: BpfError) -> BackendError {
    let operation = match write {
        apply::Write::Set(key, _) => format!("write {key}"),
        apply::Write::Delete(key) => format!("delete {key}"),
    };
    BackendError::new(operation, error)
}

impl ServiceBackend for Ebpf {
    const LARGE: usize = usize::MAX;
    const PART: usize = 65_536;

    /// Each element is one system call of about a microsecond.
    fn cost(port: &PortPlan) -> usize {
        let members = match has_members(port) {
            true => 2 * port.members(),
            false => port.members(),
        };
        port.frontends.len() + members + port.sources()
    }
}
