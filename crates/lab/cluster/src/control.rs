//! The loop of all controllers: reads the changes of the store, and writes what the controllers ask for.
//!
//! ```text
//! store ──changes──▶ Objects ──▶ slices, workloads, IPAddresses ──writes──▶ store
//!                       └──────▶ nodes and pods of this machine
//! ```

mod cidrs;
mod delays;
mod failures;
mod objects;
mod refusals;
mod tokens;
mod writes;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use sluice_api::{Api, Store};
use sluice_controller::{Allocator, Controller, workloads};
use sluice_reconcile::Waits;
use tokio::runtime;
use tokio::time::timeout;
use tracing::warn;

use crate::events::Events;
use crate::kube_system;
use crate::lab_dir::write;
use crate::nodes::Nodes;
use crate::object::key_of;
use crate::pods::Pods;
use failures::Failures;
use objects::Objects;
use refusals::Refusals;
use writes::Writes;

/// First pause after a write that came too late, before everything is observed again. It doubles from one to the next.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest wait when no controller asks for an earlier run.
const IDLE: Duration = Duration::from_secs(3600);

pub(crate) struct Control {
    pub(crate) store: Arc<Store>,
    pub(crate) api: Arc<Api>,
    pub(crate) allocator: Arc<Mutex<Allocator>>,
    pub(crate) nodes: Nodes,
    pub(crate) pods: Pods,
    pub(crate) events: Events,
    /// The file for the Corefile of the agents.
    pub(crate) corefile: PathBuf,
    /// The certificate of the API's authority, in PEM.
    pub(crate) authority: String,
}

impl Control {
    /// Runs until the process ends.
    pub(crate) fn run(mut self) {
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a clock needs nothing of the machine");
        let (mut failures, mut refusals) = (Failures::default(), Refusals::default());
        let mut pauses = Waits::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let mut changed = self.store.subscribe();
            let mut revision = self.store.revision();
            let (mut objects, mut slices) = (Objects::default(), Controller::with_endpoints());
            for it in self.all() {
                self.absorb(None, Some(&it), &mut objects, &mut slices);
            }
            // Nodes and pods that were deleted while no server ran.
            self.nodes.keep(|name| objects.nodes.contains_key(name));
            let uids = objects.pods.values();
            let uids: BTreeSet<_> = uids.filter_map(|it| it.metadata.uid.as_deref()).collect();
            self.pods.keep(|uid| uids.contains(uid));
            loop {
                changed.mark_unchanged();
                let Ok(changes) = self.store.changes_since(revision) else {
                    // The history no longer reaches back to the last change that was read: start anew.
                    break;
                };
                for change in &changes {
                    revision = change.revision;
                    let (old, new) = (change.old.as_deref(), change.new.as_deref());
                    self.absorb(old, new, &mut objects, &mut slices);
                }
                let now = Timestamp::now();
                let writes = Writes {
                    store: &self.store,
                    events: &self.events,
                };
                let plan = workloads::reconcile(&objects.cluster(&self.authority, &failures), now);
                refusals.begin(now);
                writes.own_service(&mut refusals);
                for it in writes.slices(slices.changes(), &mut refusals) {
                    slices.ask_again(&it, now);
                }
                writes.workloads(plan.writes, &mut failures, &mut refusals);
                writes.addresses(&objects, &self.allocator, &mut refusals);
                tokens::keep(&self.api, &objects.tokens, &self.authority, &mut refusals);
                let again = refusals.end();
                if refusals.is_stale() {
                    // Back off, observe again.
                    #[expect(clippy::disallowed_methods, reason = "back-off")]
                    thread::sleep(pauses.take());
                    break;
                }
                pauses.reset();
                let wake = plan.wake.into_iter().chain(again).min();
                let until = wake.map_or(IDLE, |it| until(it, now));
                // A timeout and a change both lead to the next round.
                let _ = runtime.block_on(async { timeout(until, changed.changed()).await });
            }
        }
    }

    fn all(&self) -> Vec<Arc<Value>> {
        let kinds = objects::KINDS.iter();
        kinds.flat_map(|it| self.store.list(it)).collect()
    }

    fn absorb(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        objects: &mut Objects,
        slices: &mut Controller,
    ) {
        let Some(object) = new.or(old) else { return };
        // Without the ConfigMap the agents keep what they have.
        if let Some(text) = new.and_then(kube_system::corefile)
            && let Err(error) = write(&self.corefile, text.as_bytes())
        {
            warn!(%error, "the agents keep their Corefile");
        }
        match objects.absorb(object, new.is_some()) {
            Ok(change) => {
                change
                    .into_iter()
                    .for_each(|it| slices.absorb(it, Timestamp::now()));
            }
            Err(error) => {
                warn!(%error, kind = %object["kind"], name = %object["metadata"]["name"], "left out");
                return;
            }
        }
        let key = key_of(object);
        match (object["kind"].as_str(), new.is_some()) {
            (Some("Node"), true) => {
                if let Some(node) = objects.nodes.get(&*key.name) {
                    self.nodes.set(node);
                    let power = !crate::nodes::is_off(node);
                    for pod in objects.pods.values() {
                        if node_of(pod) == Some(&*key.name) {
                            self.pods.set(pod, power);
                        }
                    }
                }
            }
            (Some("Node"), false) => self.nodes.delete(&key.name),
            (Some("Pod"), true) => {
                if let Some(pod) = objects.pods.get(&key) {
                    let node = node_of(pod).and_then(|it| objects.nodes.get(it));
                    let power = node.is_none_or(|it| !crate::nodes::is_off(it));
                    self.pods.set(pod, power);
                }
            }
            (Some("Pod"), false) => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                self.pods.delete(uid);
            }
            (Some("ConfigMap" | "Secret" | "ServiceAccount"), _) => {
                self.pods.refresh(&key.namespace);
            }
            _ => {}
        }
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn until(wake: Timestamp, now: Timestamp) -> Duration {
    let left = wake.duration_since(now);
    // Rounded up: the clock of the timer may be ahead by less than that.
    Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1)
}
