//! The tables as objects that follow a plan.

use std::collections::BTreeMap;

use sluice_model::IpFamily;
use sluice_netlink::RequestError;
use sluice_netlink::conntrack::Flow;
use sluice_netlink::request::uninterrupted;
use sluice_nft::{
    Batch, Chain, Connection, Create, Datum, ElementRef, Family, Generation, Kernel, KernelRule,
    KeyBytes, Purpose, Scope, drift,
};
use sluice_policy_plan::{Content, Direction, Outcome, Piece};
use sluice_reconcile::{Backend, BackendError, Change, Delta, Objects, Parts};

use crate::name::{ChainName, SetName, scope};
use crate::object::{Key, Object};
use crate::{Aside, TABLE, apply, observe, render};

/// Our tables of both families in a ruleset.
#[derive(Debug)]
pub struct PolicyTables<K = Connection> {
    kernel: K,
    /// The group of nflog that packets are shown to which are dropped, or are audited.
    log: Option<u16>,
    /// The ruleset's generation if no other program changed it since the last observation.
    generation: u32,
    /// Families whose table could not be read by the last observation, or is not ours. The other one is enforced.
    unserved: Vec<(IpFamily, BackendError)>,
    /// What was written since somebody asked.
    cost: usize,
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

    /// How many packets came to each end: of both families since the table was made. The kernel counts per CPU, without a
    /// lock.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    pub fn packets(&mut self) -> Result<Vec<(Outcome, Direction, u64)>, RequestError> {
        let mut all = Vec::new();
        for direction in Direction::ALL {
            for outcome in Outcome::ALL {
                let chain = ChainName::outcome(outcome, direction).to_string();
                let mut packets = 0;
                for family in IpFamily::ALL {
                    let list = || self.kernel.rule_packets(scope(family), &chain);
                    let counts = uninterrupted(list)?;
                    packets += counts.into_iter().flatten().sum::<u64>();
                }
                all.push((outcome, direction, packets));
            }
        }
        Ok(all)
    }

    /// Prepares a watch for changes of the tables by other programs. It begins when it is called with the
    /// [`generation`](Self::generation) after a write.
    pub fn watch(
        &self,
        report: impl Fn(String) + Send + 'static,
    ) -> impl FnOnce(u32) + Send + 'static {
        let port_id = self.kernel.port_id();
        move |generation| drift::watch(TABLE, port_id, generation, report)
    }
}

impl<K: Kernel> PolicyTables<K> {
    /// The tables in this ruleset. Nothing is written.
    pub const fn on(kernel: K) -> Self {
        Self {
            kernel,
            log: None,
            generation: 0,
            unserved: Vec::new(),
            cost: 0,
        }
    }

    /// The cost of what was written since the last call, as parts are measured: that of so many elements.
    pub const fn take_cost(&mut self) -> usize {
        std::mem::replace(&mut self.cost, 0)
    }

    /// Shows dropped and audited packets to a group of nflog from the next full write on. Their text is that of
    /// [`Outcome`] and [`Direction`]: `dropped ingress`.
    ///
    /// # Errors
    ///
    /// The kernel cannot do that: nothing is shown.
    pub fn log_to(&mut self, group: u16) -> Result<(), BackendError> {
        // A kernel without `CONFIG_NFT_LOG` would refuse our tables with all that is in them.
        let scope = Scope {
            family: Family::Ipv4,
            table: "sluice-policy-probe",
        };
        let (name, log) = render::probe(group);
        let chain = Chain {
            name: name.to_owned(),
            hook: None,
            comment: None,
        };
        let rule = KernelRule {
            chain: name.to_owned(),
            exprs: log.exprs(Family::Ipv4),
            comment: None,
        };
        let mut batch = Batch::new();
        batch.add_table(0, scope, None, Create::New);
        batch.add_chain(0, scope, &chain, Create::New);
        batch.add_rule(0, scope, &rule);
        batch.delete_table(0, scope);
        let result = self.kernel.commit(&batch);
        result.map_err(|error| error.of(format!("log to the nflog group {group}")))?;
        self.log = Some(group);
        Ok(())
    }

    /// Holds connections cut: packets of their replies are dropped that belong to no connection that the kernel tracks. So
    /// their entries of connection tracking are to be deleted next. Packets of the other direction are what rules drop.
    ///
    /// # Errors
    ///
    /// The kernel refused: nothing is cut.
    pub fn cut(&mut self, flows: &[Flow]) -> Result<(), BackendError> {
        let mut batch = Batch::new();
        let mut key = KeyBytes::default();
        let set = SetName::Cut.to_string();
        for Flow { reply, .. } in flows {
            key.set(&[
                Datum::Address(reply.src),
                Datum::Address(reply.dst),
                Datum::Protocol(reply.protocol),
                Datum::Port(reply.src_port),
                Datum::Port(reply.dst_port),
            ]);
            let element = ElementRef {
                timeout_ms: Some(u64::from(render::CUT_SECONDS) * 1_000),
                ..ElementRef::default()
            };
            let scope = scope(IpFamily::of(&reply.src));
            key.write(element, |it| {
                batch.add_element(0, scope, &set, it, Create::IfMissing);
            });
        }
        let result = self.kernel.commit(&batch);
        result.map_err(|error| error.of(format!("write set {TABLE} {set}")))?;
        if !batch.is_empty() {
            self.generation = Generation::after(self.generation);
        }
        Ok(())
    }

    /// Whether dropped and audited packets are shown.
    #[must_use]
    pub const fn is_logging(&self) -> bool {
        self.log.is_some()
    }

    /// The families whose policies are not in force, and why.
    #[must_use]
    pub fn unserved(&self) -> &[(IpFamily, BackendError)] {
        &self.unserved
    }

    /// The generation that the ruleset has if no other program changed it since the last observation.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    fn served(&self) -> impl Iterator<Item = IpFamily> {
        let is_served = |it: &IpFamily| self.unserved.iter().all(|(family, _)| family != it);
        IpFamily::ALL.into_iter().filter(is_served)
    }

    /// Our tables that exist, each as `ip sluice-policy`.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked, or a table of our name is not ours.
    pub fn present(&mut self) -> Result<Vec<String>, BackendError> {
        Ok(self.families()?.into_iter().map(shown).collect())
    }

    /// Removes the tables; returns those that were there.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked, refused, or a table of our name is not ours.
    pub fn remove(&mut self) -> Result<Vec<String>, BackendError> {
        let mut batch = Batch::new();
        let families = self.families()?;
        for &family in &families {
            batch.delete_table(0, scope(family));
        }
        let result = self.kernel.commit(&batch);
        result.map_err(|error| error.of(format!("delete tables {TABLE}")))?;
        Ok(families.into_iter().map(shown).collect())
    }

    /// The families in which our table exists.
    fn families(&mut self) -> Result<Vec<IpFamily>, BackendError> {
        let mut families = Vec::new();
        for family in IpFamily::ALL {
            if observe::ours(&mut self.kernel, family)?.is_some() {
                families.push(family);
            }
        }
        Ok(families)
    }

    fn current(&mut self) -> Result<u32, BackendError> {
        let asked = self.kernel.generation().map(|it| it.id);
        asked.map_err(|error| BackendError::new("ask for the generation of the ruleset", error))
    }
}

fn shown(family: IpFamily) -> String {
    format!("{} {TABLE}", family.nft_name())
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
        let standing = |family| render::standing(family, self.log);
        self.served().flat_map(standing).collect()
    }

    fn place(&mut self, _: &Content, _: Option<(&Content, &())>) {}

    fn recover(&self, _: &Content, _: &BTreeMap<Key, Object>) {}

    fn render(&self, (): &(), content: &Content, (): &()) -> Objects<Self> {
        self.served()
            .flat_map(|it| render::render(it, content))
            .collect()
    }

    fn parts(
        &self,
        (): &(),
        changes: &[Change<Content, ()>],
    ) -> Option<Box<dyn Parts<Key, Object>>> {
        let (mut old, mut new) = (BTreeMap::new(), Vec::new());
        for change in changes {
            if let Some((content, ())) = &change.old {
                old.extend(self.render(&(), content, &()));
            }
            if let Some((content, ())) = &change.new {
                new.extend(self.render(&(), content, &()));
            }
        }
        Some(Box::new(Aside::of(Delta::between(old, new))))
    }

    fn render_shared(&self, (): &(), _: &Content, (): &()) -> Objects<Self> {
        Vec::new()
    }

    fn weight(object: &Object) -> usize {
        object.weight()
    }

    fn is_undisturbed(&mut self) -> bool {
        self.current().is_ok_and(|it| it == self.generation)
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        // Before listing, so that a change in between shows.
        self.generation = self.current()?;
        let mut objects = BTreeMap::new();
        self.unserved.clear();
        for family in IpFamily::ALL {
            match observe::table(&mut self.kernel, family) {
                Ok(mut table) => objects.append(&mut table),
                Err(error) => self.unserved.push((family, error)),
            }
        }
        if self.served().next().is_none() {
            return Err(self.unserved.remove(0).1);
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
        self.cost += delta.weight(Object::weight);
        if !batch.is_empty() {
            self.generation = Generation::after(self.generation);
        }
        Ok(())
    }
}
