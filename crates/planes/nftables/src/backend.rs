//! The backend: pure rendering on one side, a netlink connection on the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sluice_model::IpFamily;
use sluice_netlink::nftables::{Batch, CommitError, Connection, Create, Exchange, Failure};
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::{Counters, DataPlane, Scale, Scene};
use sluice_reconcile::{Backend, BackendError, Delta, Objects};

use crate::apply;
use crate::counters::ElementCounters;
use crate::name::{ChainName, TABLE};
use crate::object::{Key, Object};
use crate::placement::{self, Placement};
use crate::set::{Counting, SetName};
use crate::{layout, observe, render};

/// The nftables data plane of one network namespace.
#[derive(Debug)]
pub struct Nftables {
    connection: Connection,
    generation: Arc<AtomicU32>,
    counting: Counting,
}

impl Nftables {
    /// Connects to nf_tables of the calling thread's network namespace. Nothing is written.
    ///
    /// # Errors
    ///
    /// No netlink socket could be opened.
    pub fn open() -> Result<Self, BackendError> {
        Ok(Self {
            connection: connect()?,
            generation: Arc::default(),
            counting: Counting::Nothing,
        })
    }

    /// Counts this; without it nothing. Tables that count something else are replaced by the first
    /// sync, and what they counted is lost.
    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.counting = counting;
        self
    }

    /// The number that the namespace's ruleset has as long as nobody but us changed it since the
    /// last [`observe`](Backend::observe): every transaction raises it by one.
    pub fn generation(&self) -> Arc<AtomicU32> {
        self.generation.clone()
    }

    /// Under which the kernel reports our own changes to those who watch.
    pub fn port_id(&self) -> u32 {
        self.connection.port_id()
    }

    /// Tells this function of every transaction that the kernel answers, from now on.
    pub fn on_exchange(&mut self, observer: impl Fn(Exchange) + Send + Sync + 'static) {
        self.connection.on_exchange(observer);
    }

    /// Removes our tables of these families; returns those that were there.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked, refused, or a table of that name is not ours.
    pub fn cleanup(&mut self, families: &[IpFamily]) -> Result<Vec<String>, BackendError> {
        let mut batch = Batch::new();
        let mut removed = Vec::new();
        for &family in families {
            if observe::owns_table(&mut self.connection, family)? {
                batch.delete_table(0, apply::scope(family));
                removed.push(format!("{} {TABLE}", family.nft_name()));
            }
        }
        let result = self.connection.commit(&batch);
        result.map_err(|error| failed("delete tables", error))?;
        Ok(removed)
    }

    /// Asks the kernel to check that it has nf_tables and lets us use it, without changing
    /// anything: a table is added and deleted in one transaction.
    ///
    /// # Errors
    ///
    /// The kernel's answer: no permission, no nf_tables.
    pub fn probe(&mut self) -> Result<(), BackendError> {
        let mut batch = Batch::new();
        let scope = sluice_netlink::nftables::Scope {
            table: "sluice-probe",
            ..apply::scope(IpFamily::V4)
        };
        batch.add_table(0, scope, None, Create::IfMissing);
        batch.delete_table(1, scope);
        let result = self.connection.commit(&batch);
        result.map_err(|error| failed("ask for nf_tables", error))
    }
}

fn connect() -> Result<Connection, BackendError> {
    Connection::open().map_err(|error| BackendError {
        operation: "open netlink socket".into(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    })
}

/// The objects of one service port, as a first sync would write them. Pure.
pub fn render_port(port: &PortPlan) -> Vec<(Key, Object)> {
    render::port(port, &placement::place(port, None))
}

/// Every object of a plan, as a first sync would write it. Pure.
pub fn render_plan(plan: &Plan, counting: Counting) -> BTreeMap<Key, Object> {
    let ports = plan.ports.values().flat_map(|port| render_port(port));
    let standing = layout::standing(&plan.node, Scale::Small, counting);
    standing.into_iter().chain(ports).collect()
}

impl Backend for Nftables {
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
            Key::Chain(_, ChainName::Pool(..)) | Key::Element(_, SetName::Hairpin, _)
        )
    }

    fn standing(&self, scene: &Scene) -> Objects<Self> {
        layout::standing(&scene.node, scene.scale, self.counting)
    }

    fn place(&mut self, port: &PortPlan, previous: Option<(&PortPlan, &Placement)>) -> Placement {
        placement::place(port, previous)
    }

    fn recover(&self, port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
        placement::recover(port, observed)
    }

    fn render(&self, _: &Scene, port: &PortPlan, placement: &Placement) -> Objects<Self> {
        render::port(port, placement)
    }

    fn is_undisturbed(&mut self) -> bool {
        let current = observe::generation(&mut self.connection);
        current.is_ok_and(|it| it == self.generation.load(Ordering::Acquire))
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        // Before listing, so that a change in between shows.
        let current = observe::generation(&mut self.connection)?;
        self.generation.store(current, Ordering::Release);
        observe::tables(&mut self.connection, self.counting)
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        for batch in apply::transactions(delta) {
            self.commit(delta, &batch)?;
        }
        Ok(())
    }
}

impl DataPlane for Nftables {
    const LARGE: usize = 4096;

    fn counters(&self) -> Result<Option<Box<dyn Counters>>, BackendError> {
        Ok(match self.counting {
            Counting::Nothing => None,
            Counting::Connections => Some(Box::new(ElementCounters::new(connect()?))),
        })
    }
}

impl Nftables {
    /// Commits one transaction of a delta. A refusal names the objects, by the tags of the messages
    /// that the kernel refused.
    fn commit(&mut self, delta: &Delta<Key, Object>, batch: &Batch) -> Result<(), BackendError> {
        match self.connection.commit(batch) {
            Ok(()) if batch.is_empty() => Ok(()),
            Ok(()) => {
                let last = self.generation.load(Ordering::Acquire);
                // Zero is no generation (`nft_base_seq_inc`, nf_tables_api.c).
                let next = last.wrapping_add(1).max(1);
                self.generation.store(next, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                let object = match &error {
                    CommitError::Refused { failures } => refused(delta, failures),
                    _ => None,
                };
                let what = object.map_or("tables ip sluice and ip6 sluice".into(), Key::to_string);
                Err(failed(&format!("write {what}"), error))
            }
        }
    }
}

/// The first object that the kernel refused.
fn refused<'a>(delta: &'a Delta<Key, Object>, failures: &[Failure]) -> Option<&'a Key> {
    let tags = failures.iter().flat_map(|it| &it.tags);
    tags.filter_map(|tag| apply::key(delta, *tag)).next()
}

fn reason(failure: &Failure) -> String {
    match &failure.message {
        Some(message) => format!("{} ({message})", failure.errno.desc()),
        None => failure.errno.desc().to_owned(),
    }
}

fn failed(operation: &str, error: CommitError) -> BackendError {
    BackendError {
        operation: operation.into(),
        reason: match &error {
            CommitError::Refused { failures } => {
                let reasons: Vec<String> = failures.iter().map(reason).collect();
                format!("kernel said: {}", reasons.join("; "))
            }
            other => other.to_string(),
        },
        source: Some(Box::new(error)),
    }
}
