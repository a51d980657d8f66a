//! The tables as objects that follow a plan.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_nft::{Batch, Connection, Generation, Kernel, Purpose};
use sluice_policy_plan::{Content, Piece};
use sluice_reconcile::{Backend, BackendError, Delta, Objects};

use crate::name::scope;
use crate::object::{Key, Object};
use crate::{TABLE, apply, observe, render};

/// Our tables of both families in a ruleset.
#[derive(Debug)]
pub struct PolicyTables<K = Connection> {
    kernel: K,
    /// The ruleset's generation if no other program changed it since the last observation.
    generation: u32,
}

impl PolicyTables {
    /// Connects to nf_tables of the calling thread's network namespace. Nothing is written.
    ///
    /// # Errors
    ///
    /// No netlink socket could be opened.
    pub fn connect() -> Result<Self, BackendError> {
        let kernel = Purpose::Policies.connect();
        let kernel = kernel.map_err(|error| BackendError::new("open netlink socket", error))?;
        Ok(Self::on(kernel))
    }
}

impl<K: Kernel> PolicyTables<K> {
    /// The tables in this ruleset. Nothing is written.
    pub const fn on(kernel: K) -> Self {
        Self {
            kernel,
            generation: 0,
        }
    }

    /// Removes the tables; returns those that were there.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked, refused, or a table of our name is not ours.
    pub fn remove(&mut self) -> Result<Vec<String>, BackendError> {
        let mut batch = Batch::new();
        let mut removed = Vec::new();
        for family in IpFamily::ALL {
            if observe::ours(&mut self.kernel, family)?.is_some() {
                batch.delete_table(0, scope(family));
                removed.push(format!("{} {TABLE}", family.nft_name()));
            }
        }
        let result = self.kernel.commit(&batch);
        result.map_err(|error| error.of(format!("delete tables {TABLE}")))?;
        Ok(removed)
    }

    fn current(&mut self) -> Result<u32, BackendError> {
        let asked = self.kernel.generation().map(|it| it.id);
        asked.map_err(|error| BackendError::new("ask for the generation of the ruleset", error))
    }
}

impl<K: Kernel> Backend for PolicyTables<K> {
    type Owner = Piece;
    type Plan = Content;
    type Scene = ();
    type Key = Key;
    type Object = Object;
    type Placement = ();

    const SCENE_SHAPES_OWNERS: bool = false;

    fn is_shared(_: &Key) -> bool {
        false
    }

    fn standing(&self, (): &()) -> Objects<Self> {
        let families = IpFamily::ALL.into_iter();
        families.flat_map(render::standing).collect()
    }

    fn place(&mut self, _: &Content, _: Option<(&Content, &())>) {}

    fn recover(&self, _: &Content, _: &BTreeMap<Key, Object>) {}

    fn render(&self, (): &(), content: &Content, (): &()) -> Objects<Self> {
        let families = IpFamily::ALL.into_iter();
        families
            .flat_map(|it| render::render(it, content))
            .collect()
    }

    fn is_undisturbed(&mut self) -> bool {
        self.current().is_ok_and(|it| it == self.generation)
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        // Before listing, so that a change in between shows.
        self.generation = self.current()?;
        let mut objects = BTreeMap::new();
        for family in IpFamily::ALL {
            objects.append(&mut observe::table(&mut self.kernel, family)?);
        }
        Ok(objects)
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let batch = apply::transaction(delta);
        let result = self.kernel.commit(&batch);
        result.map_err(|error| {
            // The first object that the kernel refused.
            let object = error.tags().find_map(|tag| apply::key(delta, tag));
            let what = object.map_or_else(|| format!("tables {TABLE}"), Key::to_string);
            error.of(format!("write {what}"))
        })?;
        if !batch.is_empty() {
            self.generation = Generation::after(self.generation);
        }
        Ok(())
    }
}
