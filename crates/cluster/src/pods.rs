//! The kubelets of all nodes: Pods with a node become namespaces and processes.

mod command;
mod container;
mod prober;
mod record;
mod resolver;
mod status;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

pub(crate) use record::Record;

use crate::machines::Machines;
use worker::{News, Worker};

/// Whom the kubelets tell.
pub(crate) trait Report: Send + Sync {
    /// The pod's status is this now. Whether it was written.
    fn status(&self, pod: &Pod, status: &PodStatus) -> bool;
    /// Something happened to the pod.
    fn event(&self, pod: &Pod, reason: &str, message: &str, warning: bool);
    /// Its processes and its machine are gone: the object may go. Whether it went.
    fn finished(&self, pod: &Pod) -> bool;
}

/// One worker for each pod that has a node.
pub(crate) struct Pods {
    machines: Arc<Machines>,
    report: Arc<dyn Report>,
    /// By uid.
    workers: BTreeMap<String, Sender<News>>,
    /// Of an earlier server, by uid.
    records: BTreeMap<String, Record>,
}

impl Pods {
    pub(crate) fn new(
        machines: Arc<Machines>,
        report: Arc<dyn Report>,
        records: Vec<Record>,
    ) -> Self {
        let records = records.into_iter().map(|it| (it.uid.clone(), it));
        Self {
            machines,
            report,
            workers: BTreeMap::new(),
            records: records.collect(),
        }
    }

    /// A pod is there, or changed; `power`: whether its node has any.
    pub(crate) fn set(&mut self, pod: &Arc<Pod>, power: bool) {
        let scheduled = pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
        let Some(uid) = pod.metadata.uid.clone().filter(|_| scheduled) else {
            return;
        };
        if let Some(worker) = self.workers.get(&uid) {
            // A worker that ended needs no news.
            let _ = worker.send(News::Pod(pod.clone(), power));
            return;
        }
        let (sender, news) = channel();
        let (machines, report) = (self.machines.clone(), self.report.clone());
        let mut worker = Worker::new(pod, power, machines, report, sender.clone());
        if let Some(record) = self.records.remove(&uid) {
            worker.adopt(&record);
        }
        thread::spawn(move || worker.run(&news));
        self.workers.insert(uid, sender);
    }

    /// A pod is gone.
    pub(crate) fn delete(&mut self, uid: &str) {
        if let Some(worker) = self.workers.remove(uid) {
            let _ = worker.send(News::Remove);
        }
    }

    /// After all pods were set: ends those that do not exist, and what an earlier server knew and nobody wants.
    pub(crate) fn keep(&mut self, exists: impl Fn(&str) -> bool) {
        let gone = self.workers.keys().filter(|it| !exists(it));
        for uid in gone.cloned().collect::<Vec<_>>() {
            self.delete(&uid);
        }
        for record in std::mem::take(&mut self.records).values() {
            if let Err(error) = self.machines.lock().remove_pod(&record.pod.name) {
                tracing::warn!(%error, pod = %record.pod.name, "cannot be removed");
            }
            record.forget(self.machines.place());
        }
    }
}
