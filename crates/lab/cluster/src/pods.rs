//! The kubelets of all nodes: make a network namespace and processes for each Pod with a node.

mod command;
mod container;
mod fields;
mod hosts;
mod prober;
mod resolver;
mod security;
mod status;
mod variables;
mod volumes;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::Value;

pub(crate) use fields::{NODE_CPU, NODE_MEMORY};
pub(crate) use status::CONDITIONS;

use crate::machines::Machines;
use crate::record::Record;
use worker::{News, Worker};

/// The receiver of the reports of kubelets.
pub(crate) trait Report: Send + Sync {
    /// Reports the status of a pod with [`CONDITIONS`]. Returns whether it is written.
    fn status(&self, pod: &Pod, status: &PodStatus) -> bool;
    /// Writes an Event about a pod.
    fn event(&self, pod: &Pod, reason: &str, message: &str, warning: bool);
    /// Reports that processes and machine of a pod are removed, so that the object can be deleted. Returns whether it
    /// is deleted.
    fn finished(&self, pod: &Pod) -> bool;
}

/// The reader of the objects that volumes and variables are made from.
pub(crate) trait Read: Send + Sync {
    fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// All objects of a kind.
    fn list(&self, kind: &str) -> Vec<Arc<Value>>;
    /// A token of the ServiceAccount of a pod, valid as long as the pod exists; the error is in kubelet's words.
    fn token(&self, pod: &Pod, audience: Option<&str>, seconds: i64) -> Result<String, String>;
}

/// One worker thread for each pod with a node.
pub(crate) struct Pods {
    machines: Arc<Machines>,
    report: Arc<dyn Report>,
    objects: Arc<dyn Read>,
    /// By the pod's uid: its namespace, and the way to its worker.
    workers: BTreeMap<String, (String, Sender<News>)>,
    /// Pods of an earlier server, by uid.
    records: BTreeMap<String, Record>,
}

impl Pods {
    pub(crate) fn new(
        machines: Arc<Machines>,
        report: Arc<dyn Report>,
        objects: Arc<dyn Read>,
        records: Vec<Record>,
    ) -> Self {
        let records = records.into_iter().map(|it| (it.uid.clone(), it));
        Self {
            machines,
            report,
            objects,
            workers: BTreeMap::new(),
            records: records.collect(),
        }
    }

    /// A Pod was added or changed. `power`: whether its node is switched on.
    pub(crate) fn set(&mut self, pod: &Arc<Pod>, power: bool) {
        let scheduled = pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
        let Some(uid) = pod.metadata.uid.clone().filter(|_| scheduled) else {
            return;
        };
        if let Some((_, worker)) = self.workers.get(&uid) {
            // The worker may have ended.
            let _ = worker.send(News::Pod(pod.clone(), power));
            return;
        }
        let (sender, news) = channel();
        let (machines, report) = (self.machines.clone(), self.report.clone());
        let objects = self.objects.clone();
        let mut worker = Worker::new(pod, power, machines, report, objects, sender.clone());
        if let Some(record) = self.records.remove(&uid) {
            worker.adopt(&record);
        }
        thread::spawn(move || worker.run(&news));
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        self.workers.insert(uid, (namespace, sender));
    }

    /// An object changed that volumes and variables of this namespace may be made from.
    pub(crate) fn refresh(&self, namespace: &str) {
        for (_, worker) in self.workers.values().filter(|(it, _)| it == namespace) {
            // The worker may have ended.
            let _ = worker.send(News::Refresh);
        }
    }

    /// Removes a pod.
    pub(crate) fn delete(&mut self, uid: &str) {
        if let Some((_, worker)) = self.workers.remove(uid) {
            let _ = worker.send(News::Remove);
        }
    }

    /// Removes the pods that do not exist, those of an earlier server included; called once all Pods are known.
    pub(crate) fn keep(&mut self, exists: impl Fn(&str) -> bool) {
        let gone = self.workers.keys().filter(|it| !exists(it));
        for uid in gone.cloned().collect::<Vec<_>>() {
            self.delete(&uid);
        }
        for record in std::mem::take(&mut self.records).values() {
            if let Err(error) = self.machines.lock().remove_pod(&record.machine) {
                tracing::warn!(%error, pod = %record.machine, "cannot be removed");
            }
            record.forget(self.machines.lab_dir());
        }
    }
}
