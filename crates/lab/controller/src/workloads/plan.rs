//! The writes that the controllers ask the caller to make.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Node, ObjectReference, PersistentVolumeClaim, Pod, ServiceAccount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{Metadata, Resource};
use serde_json::Value;
use sluice_model::NamespacedName;

use crate::{Typed, meta};

/// The writes, and when to reconcile again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order to make them. When one is refused, the next ones are made all the same.
    pub writes: Vec<Write>,
    /// The earliest time at which there may be new writes without a change of an object: a pod becomes available
    /// (`minReadySeconds`), a rollout is late (`progressDeadlineSeconds`), a toleration ends.
    pub wake: Option<Timestamp>,
    now: Timestamp,
    failures: BTreeMap<String, Failure>,
}

/// A pod or Job that the API refused to create for its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Why, in the words of the API.
    pub message: String,
    /// The controller creates no other pod before this time.
    pub until: Timestamp,
}

/// One write to the Kubernetes API.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create the object. It has no uid, creation time or resourceVersion, and a Pod does not have the defaults of
    /// [`default_pod`](super::default_pod) yet.
    Create(Workload),
    /// Metadata or spec change. The resourceVersion is that of the version read: a newer one is a conflict.
    ///
    /// A Pod that gets its `nodeName` also gets the condition PodScheduled, which is status: kube-apiserver writes both
    /// for a Binding (`pkg/registry/core/pod/storage/storage.go`).
    Update(Workload),
    /// Change the status, as with the subresource `status`.
    UpdateStatus(Workload),
    /// Delete the object if it has this uid.
    Delete {
        /// `Pod`, `ReplicaSet`, `Job` or `ControllerRevision`.
        kind: &'static str,
        key: NamespacedName,
        uid: String,
        /// Grace period of a Pod in seconds. `None`: its `terminationGracePeriodSeconds`. 0: the object is deleted at
        /// once, without waiting for the kubelet.
        grace: Option<u32>,
    },
    /// Write an Event.
    Event {
        about: ObjectReference,
        /// In CamelCase, for programs.
        reason: &'static str,
        message: String,
        /// Whether the type is Warning; otherwise Normal.
        warning: bool,
    },
}

/// An object that a controller writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    Pod(Pod),
    ReplicaSet(ReplicaSet),
    Deployment(Deployment),
    StatefulSet(StatefulSet),
    DaemonSet(DaemonSet),
    /// A revision of a StatefulSet or DaemonSet.
    ControllerRevision(ControllerRevision),
    Node(Node),
    Job(Job),
    CronJob(Box<CronJob>),
    ServiceAccount(ServiceAccount),
    /// The certificate of the API in a namespace.
    ConfigMap(ConfigMap),
    /// A claim of a StatefulSet's pod.
    PersistentVolumeClaim(PersistentVolumeClaim),
}

macro_rules! workload {
    ($($kind:ident)*) => {
        $(impl From<$kind> for Workload {
            fn from(object: $kind) -> Self {
                Self::$kind(object.into())
            }
        })*

        impl Workload {
            /// The object as JSON.
            #[must_use]
            pub fn write(&self) -> Value {
                match self {
                    $(Self::$kind(it) => it.write(),)*
                }
            }
        }
    };
}

workload! {
    Pod ReplicaSet Deployment StatefulSet DaemonSet ControllerRevision Node Job CronJob ServiceAccount
    ConfigMap PersistentVolumeClaim
}

/// A typed object of the API with `ObjectMeta`.
pub(super) trait Object:
    Metadata<Ty = ObjectMeta> + Clone + PartialEq + Into<Workload>
{
}

impl<T: Metadata<Ty = ObjectMeta> + Clone + PartialEq + Into<Workload>> Object for T {}

impl Plan {
    pub(super) fn new(now: Timestamp, failures: BTreeMap<String, Failure>) -> Self {
        Self {
            now,
            failures,
            ..Self::default()
        }
    }

    /// Why the last pod or Job of an owner was refused.
    pub(super) fn failure<T: Object>(&self, owner: &T) -> Option<&str> {
        let failure = self.failures.get(owner.metadata().uid.as_deref()?)?;
        Some(&failure.message)
    }

    /// Whether an owner may create another pod or Job. If not yet, the plan wakes then.
    pub(super) fn may_create<T: Object>(&mut self, owner: &T) -> bool {
        let uid = owner.metadata().uid.as_deref().unwrap_or_default();
        let until = self.failures.get(uid).map(|it| it.until);
        let waits = until.filter(|it| *it > self.now);
        if let Some(until) = waits {
            self.wake_at(until);
        }
        waits.is_none()
    }

    /// The time of the plan.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// The time of the plan, as a field of an object.
    pub(super) fn time(&self) -> Time {
        Time(self.now)
    }

    pub(super) fn create(&mut self, object: impl Into<Workload>) {
        self.writes.push(Write::Create(object.into()));
    }

    /// Plans a write of metadata and spec if they changed.
    pub(super) fn update<T: Object>(&mut self, before: &T, after: T) {
        if *before != after {
            self.writes.push(Write::Update(after.into()));
        }
    }

    /// Plans a write of the status if it changed.
    pub(super) fn update_status<T: Object>(&mut self, before: &T, after: T) {
        if *before != after {
            self.writes.push(Write::UpdateStatus(after.into()));
        }
    }

    /// Plans a deletion, once. A terminating pod is left to its kubelet. Returns whether it is planned now.
    pub(super) fn delete<T: Object>(&mut self, object: &T) -> bool {
        object.metadata().deletion_timestamp.is_none() && self.push_deletion(object, None)
    }

    /// Plans a deletion with grace period 0.
    pub(super) fn delete_at_once<T: Object>(&mut self, object: &T) {
        self.push_deletion(object, Some(0));
    }

    /// Whether this plan deletes an object.
    pub(super) fn deletes<T: Object>(&self, object: &T) -> bool {
        let metadata = object.metadata();
        let wanted = metadata.uid.as_deref().unwrap_or_default();
        let key = meta::key(metadata);
        self.writes.iter().any(|it| match it {
            Write::Delete {
                kind, key: it, uid, ..
            } => *kind == T::KIND && *it == key && uid == wanted,
            _ => false,
        })
    }

    /// Whether this plan writes a Node.
    pub(super) fn writes_nodes(&self) -> bool {
        let mut writes = self.writes.iter();
        writes.any(|it| matches!(it, Write::Update(Workload::Node(_))))
    }

    fn push_deletion<T: Object>(&mut self, object: &T, grace: Option<u32>) -> bool {
        if self.deletes(object) {
            return false;
        }
        self.writes.push(Write::Delete {
            kind: T::KIND,
            key: meta::key(object.metadata()),
            uid: object.metadata().uid.clone().unwrap_or_default(),
            grace,
        });
        true
    }

    pub(super) fn event<T: Object>(&mut self, about: &T, reason: &'static str, message: String) {
        self.push_event(about, reason, message, false);
    }

    pub(super) fn warning<T: Object>(&mut self, about: &T, reason: &'static str, message: String) {
        self.push_event(about, reason, message, true);
    }

    fn push_event<T: Object>(
        &mut self,
        about: &T,
        reason: &'static str,
        message: String,
        warning: bool,
    ) {
        let metadata = about.metadata();
        self.writes.push(Write::Event {
            about: ObjectReference {
                api_version: Some(<T as Resource>::API_VERSION.to_owned()),
                kind: Some(T::KIND.to_owned()),
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
                field_path: None,
            },
            reason,
            message,
            warning,
        });
    }

    /// Whether `seconds` after `since` have passed. If not, the plan wakes then.
    pub(super) fn is_over(&mut self, since: Timestamp, seconds: i64) -> bool {
        // A time that a timestamp cannot hold never comes.
        let Ok(end) = since.checked_add(seconds.seconds()) else {
            return false;
        };
        if end > self.now {
            self.wake_at(end);
        }
        end <= self.now
    }

    /// Reconciles again at `time`, or earlier.
    pub(super) fn wake_at(&mut self, time: Timestamp) {
        self.wake = Some(self.wake.map_or(time, |it| it.min(time)));
    }
}
