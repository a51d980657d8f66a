//! A small API server, with kubelets that start and end pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Typed;
use crate::workloads::*;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::*;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerState, ContainerStateTerminated, ContainerStatus, Namespace, Node,
    PersistentVolumeClaim, Pod, PodCondition, ServiceAccount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::store::{Key, Refused, Store, key};

/// Most rounds until the controllers have nothing to write.
const MOST_ROUNDS: usize = 200;

#[derive(Default)]
pub(super) struct Simulator {
    pub(super) now: Timestamp,
    number: u64,
    pub(super) namespaces: Store<Namespace>,
    pub(super) accounts: Store<ServiceAccount>,
    pub(super) authorities: Store<ConfigMap>,
    pub(super) authority: String,
    pub(super) nodes: Store<Node>,
    pub(super) pods: Store<Pod>,
    pub(super) deployments: Store<Deployment>,
    pub(super) replica_sets: Store<ReplicaSet>,
    pub(super) stateful_sets: Store<StatefulSet>,
    pub(super) daemon_sets: Store<DaemonSet>,
    pub(super) revisions: Store<ControllerRevision>,
    pub(super) claims: Store<PersistentVolumeClaim>,
    pub(super) failures: BTreeMap<String, Failure>,
    pub(super) jobs: Store<Job>,
    pub(super) cron_jobs: Store<CronJob>,
    /// Reason and message of each Event.
    pub(super) events: Vec<(String, String)>,
    /// Seconds until a pod is ready, and until it has ended.
    pub(super) delays: (i64, i64),
    /// One of so many writes is refused; 0: none.
    pub(super) refusals: usize,
    writes: usize,
    /// Called before each write.
    pub(super) check: Option<fn(&Simulator, &Write)>,
}

/// Gives an object the form and the defaults that an API server gives it. Returns what the API's rules refuse.
fn complete<T: Typed>(object: &mut T, old: Option<&T>) -> Vec<String> {
    let (mut new, old) = (object.write(), old.map(Typed::write));
    let causes = sluice_api::complete(old.as_ref(), &mut new).unwrap();
    *object = T::read(&new).unwrap();
    let shown = causes
        .iter()
        .map(|it| format!("{}: {}", it.field, it.message));
    shown.collect()
}

impl Simulator {
    /// A cluster of nodes called `n0`, `n1`, and so on.
    pub(super) fn new(nodes: usize) -> Self {
        let mut simulator = Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            delays: (2, 2),
            ..Self::default()
        };
        (0..nodes).for_each(|it| simulator.add_node(&format!("n{it}")));
        simulator
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(super) fn add_node(&mut self, name: &str) {
        let node = super::manifests::node(name);
        let (number, now) = (self.next(), Time(self.now));
        let _ = self.nodes.create(node, number, now);
    }

    pub(super) fn add_namespace(&mut self, name: &str) {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let (number, now) = (self.next(), Time(self.now));
        let _ = self.namespaces.create(namespace, number, now);
    }

    /// Creates an object or replaces its spec, as `kubectl apply` does. Returns what is wrong with it.
    pub(super) fn apply(&mut self, object: impl Into<Workload>) -> Vec<String> {
        let (number, now) = (self.next(), Time(self.now));
        macro_rules! apply {
            ($object:ident, $store:ident, $default:ident, $validate:ident) => {{
                let mut object = $object;
                let key = key(&object.metadata);
                let old = self.$store.get(&key.0, &key.1).cloned();
                complete(&mut object, None);
                $default(&mut object);
                let causes = complete(&mut object, old.as_deref());
                let problems = $validate(&object, old.as_deref());
                let problems = problems.iter().map(ToString::to_string);
                let problems: Vec<_> = problems.chain(causes).collect();
                if !problems.is_empty() {
                    return problems;
                }
                match old {
                    None => self.$store.create(object, number, now).unwrap(),
                    Some(old) => self.$store.edit(&key, number, |it| {
                        if it.spec != object.spec {
                            it.metadata.generation = old.metadata.generation.map(|it| it + 1);
                        }
                        it.spec = object.spec;
                        it.metadata.labels = object.metadata.labels;
                    }),
                }
                Vec::new()
            }};
        }
        match object.into() {
            Workload::Pod(it) => apply!(it, pods, complete_pod, validate_pod),
            Workload::Deployment(it) => {
                apply!(it, deployments, default_deployment, validate_deployment)
            }
            Workload::ReplicaSet(it) => {
                apply!(it, replica_sets, default_replica_set, validate_replica_set)
            }
            Workload::StatefulSet(it) => {
                apply!(
                    it,
                    stateful_sets,
                    default_stateful_set,
                    validate_stateful_set
                )
            }
            Workload::DaemonSet(it) => {
                apply!(it, daemon_sets, default_daemon_set, validate_daemon_set)
            }
            Workload::Job(mut it) => {
                let key = key(&it.metadata);
                let old = self.jobs.get(&key.0, &key.1).cloned();
                let own = Some(format!("uid-{number:06}"));
                it.metadata.uid = old.as_ref().map_or(own, |it| it.metadata.uid.clone());
                apply!(it, jobs, complete_job, validate_job)
            }
            Workload::CronJob(it) => {
                let validate = |it: &CronJob, old: Option<&CronJob>| {
                    validate_cron_job(it, old, |it| it == "Europe/Berlin")
                };
                let it = *it;
                apply!(it, cron_jobs, default_cron_job, validate)
            }
            other => panic!("nobody applies {other:?}"),
        }
    }

    pub(super) fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Node)) {
        let number = self.next();
        let key = (String::new(), name.to_owned());
        self.nodes.edit(&key, number, edit);
    }

    pub(super) fn edit_pod(&mut self, key: &Key, edit: impl FnOnce(&mut Pod)) {
        let number = self.next();
        self.pods.edit(key, number, edit);
    }

    pub(super) fn set_ready(&mut self, node: &str, status: &str) {
        self.edit_node(node, |it| {
            let conditions = it.status.as_mut().unwrap().conditions.as_mut().unwrap();
            conditions[0].status = status.to_owned();
        });
    }

    pub(super) fn cluster(&self) -> Cluster {
        Cluster {
            namespaces: self.namespaces.all(),
            accounts: self.accounts.all(),
            authorities: self.authorities.all(),
            authority: self.authority.clone(),
            nodes: self.nodes.all(),
            pods: self.pods.all(),
            deployments: self.deployments.all(),
            replica_sets: self.replica_sets.all(),
            stateful_sets: self.stateful_sets.all(),
            daemon_sets: self.daemon_sets.all(),
            revisions: self.revisions.all(),
            claims: self.claims.all(),
            failures: self.failures.clone(),
            jobs: self.jobs.all(),
            cron_jobs: self.cron_jobs.all(),
            zones: BTreeMap::new(),
        }
    }

    /// Makes writes until there are none. Returns when to reconcile again.
    #[track_caller]
    pub(super) fn rest(&mut self) -> Option<Timestamp> {
        for _ in 0..MOST_ROUNDS {
            let plan = reconcile(&self.cluster(), self.now);
            if plan.writes.is_empty() {
                return plan.wake;
            }
            for write in plan.writes {
                if let Some(check) = self.check {
                    check(self, &write);
                }
                self.writes += 1;
                // Not in step with the rounds: a write that is retried succeeds eventually.
                let chance = self.writes.wrapping_mul(0x9e37_79b9) >> 7;
                if self.refusals == 0 || !chance.is_multiple_of(self.refusals) {
                    // A conflict is retried in the next round.
                    let _ = self.write(write);
                }
            }
        }
        let plan = reconcile(&self.cluster(), self.now);
        let writes: Vec<_> = plan.writes.iter().map(summary).collect();
        panic!("no rest: {writes:#?}");
    }

    fn write(&mut self, write: Write) -> Result<(), Refused> {
        let (number, now) = (self.next(), Time(self.now));
        match write {
            Write::Create(it) => match it {
                Workload::Pod(mut it) => {
                    assert_eq!(complete(&mut it, None), [""; 0]);
                    complete_pod(&mut it);
                    assert_eq!(validate_pod(&it, None), []);
                    self.pods.create(it, number, now)
                }
                Workload::ReplicaSet(it) => {
                    assert_eq!(validate_replica_set(&it, None), []);
                    self.replica_sets.create(it, number, now)
                }
                Workload::ControllerRevision(it) => self.revisions.create(it, number, now),
                Workload::Job(mut it) => {
                    it.metadata.uid = Some(format!("uid-{number:06}"));
                    assert_eq!(complete(&mut it, None), [""; 0]);
                    complete_job(&mut it);
                    assert_eq!(validate_job(&it, None), []);
                    self.jobs.create(it, number, now)
                }
                Workload::ServiceAccount(it) => self.accounts.create(it, number, now),
                Workload::ConfigMap(it) => self.authorities.create(it, number, now),
                Workload::PersistentVolumeClaim(it) => self.claims.create(it, number, now),
                other => panic!("no controller creates {other:?}"),
            },
            Write::Update(it) | Write::UpdateStatus(it) => {
                assert!(!is_foreign(&metadata(&it)), "another's: {it:?}");
                match it {
                    Workload::Pod(it) => {
                        let key = key(&it.metadata);
                        let done = self.pods.update(it, number);
                        self.settle_pod(&key);
                        done
                    }
                    Workload::Job(it) => self.jobs.update(it, number),
                    Workload::CronJob(it) => self.cron_jobs.update(*it, number),
                    Workload::ReplicaSet(it) => self.replica_sets.update(it, number),
                    Workload::Deployment(it) => self.deployments.update(it, number),
                    Workload::StatefulSet(it) => self.stateful_sets.update(it, number),
                    Workload::DaemonSet(it) => self.daemon_sets.update(it, number),
                    Workload::ControllerRevision(it) => self.revisions.update(it, number),
                    Workload::Node(it) => self.nodes.update(it, number),
                    Workload::ServiceAccount(it) => self.accounts.update(it, number),
                    Workload::ConfigMap(it) => self.authorities.update(it, number),
                    Workload::PersistentVolumeClaim(it) => self.claims.update(it, number),
                }
            }
            Write::Delete {
                kind,
                key,
                uid,
                grace,
            } => {
                let key = (key.namespace.to_string(), key.name.to_string());
                self.delete(kind, &key, &uid, grace)
            }
            Write::Event {
                reason, message, ..
            } => {
                self.events.push((reason.to_owned(), message));
                Ok(())
            }
        }
    }

    fn delete(
        &mut self,
        kind: &str,
        key: &Key,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<(), Refused> {
        match kind {
            "Pod" => {
                let pod = self.pods.get(&key.0, &key.1).ok_or(Refused)?.clone();
                assert!(!is_foreign(&pod.metadata), "another's: {key:?}");
                if pod.metadata.uid.as_deref() != Some(uid) {
                    return Err(Refused);
                }
                match grace {
                    Some(0) => self.remove_pod(key),
                    _ => self.kill(key),
                }
            }
            "ReplicaSet" => self.replica_sets.remove(key),
            "Job" => self.jobs.remove(key),
            "ControllerRevision" => self.revisions.remove(key),
            other => panic!("no controller deletes a {other}"),
        }
        Ok(())
    }

    /// Deletes a pod: its kubelet ends it, if there is one.
    pub(super) fn kill(&mut self, key: &Key) {
        let pod = self.pods.get(&key.0, &key.1).unwrap().clone();
        if pod.spec.as_ref().unwrap().node_name.is_none() {
            return self.remove_pod(key);
        }
        let now = Time(self.now);
        self.edit_pod(key, |it| {
            it.metadata.deletion_timestamp.get_or_insert(now);
        });
    }

    /// Deletes a pod with grace period 0: it stays until its finalizers are removed.
    fn remove_pod(&mut self, key: &Key) {
        let now = Time(self.now);
        if self.pods.get(&key.0, &key.1).is_none() {
            return;
        }
        self.edit_pod(key, |it| {
            it.metadata.deletion_timestamp.get_or_insert(now);
            it.metadata.deletion_grace_period_seconds = Some(0);
        });
        self.settle_pod(key);
    }

    /// Removes a pod that is deleted and has no finalizers.
    fn settle_pod(&mut self, key: &Key) {
        let is_over = self.pods.get(&key.0, &key.1).is_some_and(|it| {
            it.metadata.deletion_grace_period_seconds == Some(0)
                && it.metadata.finalizers.iter().flatten().next().is_none()
        });
        if is_over {
            self.pods.remove(key);
        }
    }

    /// One second passes for the kubelets of nodes that are ready.
    pub(super) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        for pod in self.pods.all() {
            let node = pod.spec.as_ref().and_then(|it| it.node_name.clone());
            let Some(node) = node.and_then(|it| self.nodes.get("", &it).cloned()) else {
                continue;
            };
            let conditions = node.status.as_ref().unwrap().conditions.as_ref().unwrap();
            if conditions[0].status == "True" {
                self.work(&pod);
            }
        }
    }

    /// What a kubelet does for a pod in a second.
    fn work(&mut self, pod: &Arc<Pod>) {
        let key = key(&pod.metadata);
        let age = |since: &Option<Time>| {
            let since = since.as_ref().unwrap().0;
            self.now.duration_since(since).as_secs()
        };
        if pod.metadata.deletion_timestamp.is_some() {
            if age(&pod.metadata.deletion_timestamp) >= self.delays.1
                && pod.metadata.deletion_grace_period_seconds != Some(0)
            {
                self.end(&key, "Failed");
                self.remove_pod(&key);
            }
            return;
        }
        let phase = pod.status.as_ref().and_then(|it| it.phase.clone());
        if matches!(phase.as_deref(), Some("Succeeded" | "Failed")) {
            return;
        }
        let annotations = pod.metadata.annotations.as_ref();
        let ends = annotations
            .and_then(|it| it.get("ends"))
            .map(String::as_str);
        if is_ready(pod) && age(&pod.metadata.creation_timestamp) > self.delays.0 {
            match ends {
                Some("succeed") => return self.end(&key, "Succeeded"),
                Some("fail") => return self.end(&key, "Failed"),
                _ => {}
            }
        }
        let is_starting = !is_ready(pod) && phase.as_deref() != Some("Failed");
        if is_starting && age(&pod.metadata.creation_timestamp) >= self.delays.0 {
            let now = Time(self.now);
            self.edit_pod(&key, |it| set_ready(it, "True", now));
        }
    }

    /// The containers of a pod have ended.
    fn end(&mut self, key: &Key, phase: &str) {
        let now = Time(self.now);
        self.edit_pod(key, |it| {
            set_ready(it, "False", now.clone());
            let status = it.status.get_or_insert_default();
            status.phase = Some(phase.to_owned());
            status.container_statuses = Some(vec![ContainerStatus {
                state: Some(ContainerState {
                    terminated: Some(ContainerStateTerminated {
                        exit_code: i32::from(phase == "Failed"),
                        finished_at: Some(now),
                        ..ContainerStateTerminated::default()
                    }),
                    ..ContainerState::default()
                }),
                ..ContainerStatus::default()
            }]);
        });
    }

    /// Makes the readiness probe of a pod fail until the kubelet works again.
    pub(super) fn make_unready(&mut self, key: &Key) {
        let now = Time(self.now);
        self.edit_pod(key, |it| set_ready(it, "False", now));
    }

    pub(super) fn fail(&mut self, key: &Key) {
        self.edit_pod(key, |it| {
            it.status.get_or_insert_default().phase = Some("Failed".to_owned());
        });
        self.make_unready(key);
        self.edit_pod(key, |it| {
            it.status.get_or_insert_default().phase = Some("Failed".to_owned());
        });
    }

    /// Lets time pass until nothing is left to do.
    #[track_caller]
    pub(super) fn settle(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.rest();
            self.tick();
        }
        self.rest();
    }

    /// Lets time pass until every pod runs or is gone and the controllers wait for nothing, at most 150 seconds.
    #[track_caller]
    pub(super) fn calm(&mut self) {
        for _ in 0..150 {
            let wake = self.rest();
            let pods = self.pods.all();
            let is_calm = |it: &Pod| is_ready(it) && it.metadata.deletion_timestamp.is_none();
            if wake.is_none() && pods.iter().all(|it| is_calm(it)) {
                return;
            }
            self.tick();
        }
    }

    /// Names of active pods with this prefix, sorted.
    pub(super) fn names(&self, prefix: &str) -> Vec<String> {
        let pods = self.active(prefix).into_iter();
        pods.map(|it| it.metadata.name.clone().unwrap()).collect()
    }

    /// Active pods with this prefix, sorted.
    pub(super) fn active(&self, prefix: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.all();
        pods.retain(|it| {
            let phase = it.status.as_ref().and_then(|it| it.phase.as_deref());
            it.metadata.name.as_ref().unwrap().starts_with(prefix)
                && it.metadata.deletion_timestamp.is_none()
                && phase != Some("Failed")
        });
        pods
    }
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

fn set_ready(pod: &mut Pod, ready: &str, now: Time) {
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Running".to_owned());
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|it| it.type_ != "Ready");
    conditions.push(PodCondition {
        type_: "Ready".to_owned(),
        status: ready.to_owned(),
        last_transition_time: Some(now),
        ..PodCondition::default()
    });
}

fn metadata(object: &Workload) -> ObjectMeta {
    serde_json::from_value(object.write()["metadata"].clone()).unwrap()
}

/// Whether a controller that is not ours owns the object.
fn is_foreign(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|it| it.controller == Some(true) && it.kind == "Foreign")
}

fn summary(write: &Write) -> String {
    let object = |it: &Workload| {
        let (json, metadata) = (it.write(), metadata(it));
        format!("{} {:?}", json["kind"].as_str().unwrap(), key(&metadata))
    };
    match write {
        Write::Create(it) => format!("create {}", object(it)),
        Write::Update(it) => format!("update {}", object(it)),
        Write::UpdateStatus(it) => format!("update status of {}", object(it)),
        other => format!("{other:?}"),
    }
}
