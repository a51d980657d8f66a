//! The backend: pure rendering on one side, the maps on the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_bpf::BpfError;
use sluice_bpf_abi::{Counter, Node, node_flags};
use sluice_plan::settings::Settings;
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::{Scene, ServiceBackend, Sockets};
use sluice_reconcile::{Backend, BackendError, Change, Delta, Objects};
use tracing::{info, warn};

use crate::apply::{self, Fill};
use crate::dns;
use crate::fills::Fills;
use crate::flows::{self, RulesOpen, Sweeper, Timeouts};
use crate::leftovers::other_versions;
use crate::maps::{AFFINITY, CounterTable, FLOWS, Maps};
use crate::netfilter::{self, Watch};
use crate::object::{Key, Object};
use crate::observe;
use crate::parts::Parts;
use crate::placement::{self, Ids, Placement};
use crate::ports::Ports;
use crate::programs::{Programs, Setup};
use crate::render::{self, Facts, has_members};
use crate::sizes::Sizes;
use crate::sockets::SocketSetup;
use crate::witness;

/// The eBPF data plane of one network namespace.
#[derive(Debug)]
pub struct Ebpf {
    programs: Programs,
    facts: Facts,
    ids: Ids,
    /// How full the maps are.
    fill: Fill,
    /// The ports that frontends have.
    ports: Ports,
    fills: Arc<Fills>,
    timeouts: Timeouts,
    sockets: SocketSetup,
    /// Programs of another version still carry connections.
    carries_soon: bool,
    /// [`settle`](Self::settle) has failed.
    settles_soon: bool,
    /// The programs open no connection before they are at every interface ([`node_flags::WAITS`]).
    waits: bool,
    /// Follows the connections that netfilter translates, from the first sync on.
    netfilter: Option<Watch>,
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
        let programs = Programs::open(setup).map_err(failed)?;
        let node = programs.maps().node().map_err(failed)?;
        let fills = Arc::default();
        tell_connections(programs.maps(), &fills).map_err(failed)?;
        Ok(Self {
            programs,
            facts,
            ids: Ids::default(),
            fill: Fill::default(),
            ports: Ports::default(),
            fills,
            timeouts: Timeouts::default(),
            sockets: SocketSetup::off(),
            carries_soon: false,
            settles_soon: false,
            // No agent has written these maps, or one of another mode has ended the work of their programs.
            waits: node == Node::default() || node.flags & node_flags::WAITS != 0,
            netfilter: None,
            sweeper: None,
        })
    }

    /// Forgets connections without packets after these times.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Leads the sockets of a cgroup.
    #[must_use]
    pub fn with_sockets(mut self, sockets: SocketSetup) -> Self {
        self.facts.flags |= sockets.flags();
        self.sockets = sockets;
        self
    }

    /// Leaves queries alone that the DNS server of these settings wants.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn with_dns(mut self, settings: &Settings) -> Result<Self, BackendError> {
        let dns = dns::server(settings);
        self.programs.maps_mut().set_dns(&dns).map_err(failed)?;
        Ok(self)
    }

    /// How full the maps are.
    pub(crate) fn fills(&self) -> &Arc<Fills> {
        &self.fills
    }

    /// The protocols whose sockets are ended with their endpoint.
    pub(crate) fn ended_sockets(&self) -> Sockets {
        self.sockets.ended
    }

    /// From here on no packet of TCP without an entry is another proxy's; while there are programs of another version, from the
    /// first resync on after their end.
    fn carry_all(&mut self) -> Result<(), BpfError> {
        self.carries_soon = !other_versions().is_empty();
        if self.carries_soon {
            return Ok(());
        }
        let maps = self.programs.maps_mut();
        maps.change_node(|node| node.flags |= node_flags::CARRIES_ALL)
    }

    /// Leaves the connections to netfilter that rules of an earlier proxy opened, before the rules go; then no other packet
    /// is another proxy's. Returns how many connections. Where it fails, it is done at the next resync.
    pub(crate) fn settle(&mut self) -> Result<usize, BpfError> {
        self.settles_soon = true;
        let kept = self.keep_netfilters()?;
        self.settles_soon = false;
        self.carry_all()?;
        Ok(kept)
    }

    /// Netfilter's hooks stay, and the thread looks again, also where not all could be entered now.
    fn keep_netfilters(&mut self) -> Result<usize, BpfError> {
        let maps = self.programs.maps_mut();
        let may_have_rules = maps.node()?.flags & node_flags::CARRIES_ALL == 0;
        let holds = may_have_rules && netfilter::hold();
        let kept = flows::import(maps, RulesOpen::Nodes);
        let has_kept = kept.as_ref().map_or(true, |it| !it.is_empty());
        if has_kept && !may_have_rules {
            netfilter::hold();
        }
        if holds || has_kept {
            let first = kept.as_ref().cloned().unwrap_or_default();
            match Watch::start(self.programs.pins().clone(), first) {
                Ok(watch) => self.netfilter = Some(watch),
                Err(error) => warn!(%error, "no thread for connections that netfilter translates"),
            }
        }
        Ok(kept?.len())
    }

    /// From here on packets pass the programs, and sockets are led.
    fn attach(&mut self) -> Result<(), BackendError> {
        if !self.programs.is_attached() {
            self.attach_sockets();
            if self.waits {
                let maps = self.programs.maps_mut();
                let waits = maps.change_node(|node| node.flags |= node_flags::WAITS);
                waits.map_err(failed)?;
            }
        }
        self.programs.attach().map_err(failed)?;
        if self.waits {
            self.begin()?;
            self.waits = false;
        }
        self.replace_older().map_err(failed)?;
        if self.sweeper.is_none() {
            let pins = self.programs.pins();
            let maps = Maps::open(pins).map_err(failed)?;
            let sweeper = Sweeper::start(maps, self.timeouts, Arc::clone(&self.fills));
            let failed = |error| BackendError::new("start a thread for connections", error);
            self.sweeper = Some(sweeper.map_err(failed)?);
        }
        Ok(())
    }

    /// From here on the programs open connections; those of netfilter have entries. An error if they cannot have them all:
    /// then the programs wait, and nothing else goes on.
    fn begin(&mut self) -> Result<(), BackendError> {
        let has_older = self.programs.has_older();
        let ports = render::other_ports(self.facts.masquerade_ports);
        let listed = flows::list(self.programs.maps()).map_err(failed)?;
        self.make_room_for_netfilters(listed.len())?;
        let maps = self.programs.maps_mut();
        let begun = flows::enter_all(maps, &listed, RulesOpen::All).and_then(|_| {
            maps.change_node(|node| {
                node.flags &= !node_flags::WAITS;
                if has_older {
                    node.masquerade_ports = ports;
                }
            })
        });
        begun.map_err(failed)?;
        // What netfilter opened meanwhile, and above all what has ended since: it would give another source port to a
        // connection of ours with the same answers.
        if let Err(error) = flows::import(maps, RulesOpen::Nodes) {
            warn!(%error, "datagrams of an earlier proxy's flows open others");
        }
        Ok(())
    }

    /// Makes room in FLOWS for the connections that netfilter translates, and for as many more.
    fn make_room_for_netfilters(&mut self, connections: usize) -> Result<(), BackendError> {
        let mut entries = 0;
        let flows = &self.programs.maps().flows;
        flows.each(|_, _| entries += 1).map_err(failed)?;
        let now = self.sizes();
        let wanted = now.with_room_for(connections, entries);
        if wanted == now {
            return Ok(());
        }
        if let Err(error) = self.programs.grow(&wanted) {
            self.fills.refuse(&[FLOWS], &error.to_string());
            let operation = format!(
                "make room in {FLOWS} for {connections} connections that netfilter translates"
            );
            return Err(BackendError::new(operation, error));
        }
        self.fills.refuse(&[], "");
        info!(
            connections,
            map = FLOWS,
            entries = wanted.flows,
            "room for what netfilter translates"
        );
        Ok(())
    }

    /// Ends programs of an older version. Which ports they have chosen since their table was copied is not known until it
    /// is copied for the last time, so connections get others meanwhile.
    fn replace_older(&mut self) -> Result<(), BpfError> {
        if !self.programs.has_older() {
            return Ok(());
        }
        self.programs.replace_older();
        let ports = self.facts.masquerade_ports;
        let maps = self.programs.maps_mut();
        maps.change_node(|node| node.masquerade_ports = ports)
    }

    fn attach_sockets(&mut self) {
        let Some(cgroup) = &self.sockets.cgroup else {
            self.programs.detach_sockets();
            return;
        };
        if let Err(error) = self.programs.attach_sockets(cgroup) {
            warn!(%error, "sockets are not led, packets are");
        }
    }

    /// The programs and maps.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Packets that the programs counted for a reason, of IPv4 and IPv6; zeros when they cannot be read.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> [u64; 2] {
        let counters = CounterTable::open(self.programs.pins());
        counters.and_then(|it| it.read(counter)).unwrap_or_default()
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

    /// Writes which ports frontends have.
    fn show_ports(&mut self) -> Result<(), BackendError> {
        let maps = self.programs.maps_mut();
        let shown = maps.change_ports(|value| self.ports.show(value));
        shown.map_err(failed)
    }

    /// Makes room for what a delta adds, and for as much again.
    fn make_room(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let now = self.sizes();
        let filled = self.fill.with_added(delta);
        let wanted = filled.sizes(&now);
        let tables = wanted.larger_than(&now);
        if tables.is_empty() {
            self.fills.refuse(&[], "");
            return Ok(());
        }
        let names = tables.join(", ");
        match self.programs.grow(&wanted) {
            Ok(()) => {
                self.fills.refuse(&[], "");
                info!(maps = names, "maps have room for more entries");
                Ok(())
            }
            Err(error) => {
                let is_new = self.fills.refuse(&tables, &error.to_string());
                if !filled.fits(&now) {
                    return Err(BackendError::new(format!("make room in {names}"), error));
                }
                if is_new {
                    warn!(maps = names, %error, "maps do not grow: new Services will soon have no room");
                }
                Ok(())
            }
        }
    }
}

/// Tells what the tables have that programs fill, until the first sweep does.
fn tell_connections(maps: &Maps, fills: &Fills) -> Result<(), BpfError> {
    let (mut flows, mut clients) = (0, 0);
    maps.flows.each(|_, _| flows += 1)?;
    maps.affinity.each(|_, _| clients += 1)?;
    fills.set(FLOWS, flows, maps.flows.capacity());
    fills.set(AFFINITY, clients, maps.affinity.capacity());
    Ok(())
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

/// The difference between service ports with these ids, of what is not shared, as if the first sync had placed both. Pure.
pub fn port_parts(
    changes: &[Change<PortPlan, u32>],
    facts: &Facts,
) -> Box<dyn sluice_reconcile::Parts<Key, Object>> {
    let place = |it: &Option<(Arc<PortPlan>, u32)>| {
        let (plan, service) = it.clone()?;
        let placement = placement::place(&plan, service, None);
        Some((plan, placement))
    };
    let placed = changes.iter().map(|it| Change {
        old: place(&it.old),
        new: place(&it.new),
    });
    Box::new(Parts::new(&placed.collect::<Vec<_>>(), *facts))
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
        matches!(key, Key::Source(..))
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

    /// No other program writes the maps.
    fn is_undisturbed(&mut self) -> bool {
        true
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        let objects = observe::all(self.programs.maps()).map_err(failed)?;
        self.ids.retain(&objects);
        self.fill = Fill::of(objects.keys());
        self.fill.tell(&self.sizes(), &self.fills);
        self.ports = Ports::of(objects.keys());
        self.show_ports()?;
        let pins = self.programs.pins().clone();
        witness::end_forgotten(self.programs.maps_mut(), &pins).map_err(failed)?;
        if self.settles_soon {
            if let Err(error) = self.settle() {
                warn!(%error, "connections of an earlier proxy may break: the next resync looks again");
            }
        } else if self.carries_soon {
            self.carry_all().map_err(failed)?;
        }
        if self.programs.is_attached() && !self.waits {
            // Somebody else may have detached them.
            self.programs.attach_again();
            self.attach_sockets();
        } else if objects.contains_key(&Key::Node) {
            // An earlier agent wrote the maps: they are whole, and our programs take the place of its own. Or they still wait.
            self.attach()?;
        }
        Ok(objects)
    }

    fn parts(
        &self,
        _: &Scene,
        changes: &[Change<PortPlan, Placement>],
    ) -> Option<Box<dyn sluice_reconcile::Parts<Key, Object>>> {
        Some(Box::new(Parts::new(changes, self.facts)))
    }

    fn render_shared(&self, _: &Scene, port: &PortPlan, _: &Placement) -> Objects<Self> {
        render::sources(port)
    }

    /// Where there is no room for all, what there is room for.
    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let room = self.make_room(delta);
        if self.ports.add(delta) {
            self.show_ports()?;
        }
        let written = apply::write_all(self.programs.maps_mut(), delta);
        self.attach()?;
        room.and(written)?;
        if self.ports.delete(delta) {
            self.show_ports()?;
        }
        self.fill = self.fill.after(delta);
        self.fill.tell(&self.sizes(), &self.fills);
        Ok(())
    }
}

impl ServiceBackend for Ebpf {
    const LARGE: usize = usize::MAX;
    const PART: usize = 32_768;

    /// Each element is one system call of about a microsecond.
    fn cost(port: &PortPlan) -> usize {
        let members = if has_members(port) {
            2 * port.members()
        } else {
            port.members()
        };
        port.frontends.len() + members + port.sources()
    }
}
