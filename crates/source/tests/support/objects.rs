//! The events of a consumer of all kinds.

use std::fmt;
use std::sync::Arc;

use sluice_model::{
    Change, EndpointSlice, Namespace, NamespacedName, Node, Notice, Pod, Service, ServiceCidr,
};

/// One statement of a source about the cluster.
///
/// The order of events for different objects is free; the later of two events for one object wins.
/// To set an object again unchanged is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The object exists with this content.
    Set(Object),
    /// The object is gone. The object may be unknown.
    Delete(ObjectKey),
    /// The problems of one origin (a file, a watch). Replaces the problems of this origin; an empty
    /// list clears them. Each problem is one line for a person.
    Problems {
        /// File name, or name of a watch.
        origin: Arc<str>,
        /// Every problem, with object and field.
        problems: Vec<String>,
    },
    /// The first complete list was delivered. Nothing is applied before: an incomplete list would
    /// delete the rules of missing objects.
    Synced,
}

impl From<Notice> for Event {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Problems { origin, problems } => Self::Problems { origin, problems },
            Notice::Synced => Self::Synced,
        }
    }
}

macro_rules! from_change {
    ($kind:ident, $name:expr) => {
        impl From<Change<$kind>> for Event {
            fn from(change: Change<$kind>) -> Self {
                match change {
                    Change::Set(it) => Self::Set(Object::$kind(it)),
                    Change::Delete(name) => Self::Delete(ObjectKey::$kind($name(name))),
                }
            }
        }
    };
}

from_change!(Service, |it| it);
from_change!(EndpointSlice, |it| it);
from_change!(Node, |it: NamespacedName| it.name);
from_change!(ServiceCidr, |it: NamespacedName| it.name);
from_change!(Namespace, |it: NamespacedName| it.name);
from_change!(Pod, |it| it);

/// An object of a kind that the proxy or the DNS server reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Service(Arc<Service>),
    /// An EndpointSlice.
    EndpointSlice(Arc<EndpointSlice>),
    Node(Arc<Node>),
    /// A ServiceCIDR.
    ServiceCidr(Arc<ServiceCidr>),
    Namespace(Arc<Namespace>),
    Pod(Arc<Pod>),
}

impl Object {
    /// Kind and name of the object.
    pub(crate) fn key(&self) -> ObjectKey {
        match self {
            Self::Service(it) => ObjectKey::Service(it.name.clone()),
            Self::EndpointSlice(it) => ObjectKey::EndpointSlice(it.name.clone()),
            Self::Node(it) => ObjectKey::Node(it.name.clone()),
            Self::ServiceCidr(it) => ObjectKey::ServiceCidr(it.name.clone()),
            Self::Namespace(it) => ObjectKey::Namespace(it.name.clone()),
            Self::Pod(it) => ObjectKey::Pod(it.name.clone()),
        }
    }
}

/// Identity of an object. Displays as `Service default/web`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ObjectKey {
    Service(NamespacedName),
    /// An EndpointSlice.
    EndpointSlice(NamespacedName),
    Node(Arc<str>),
    /// A ServiceCIDR.
    ServiceCidr(Arc<str>),
    Namespace(Arc<str>),
    Pod(NamespacedName),
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "Service {name}"),
            Self::EndpointSlice(name) => write!(f, "EndpointSlice {name}"),
            Self::Node(name) => write!(f, "Node {name}"),
            Self::ServiceCidr(name) => write!(f, "ServiceCIDR {name}"),
            Self::Namespace(name) => write!(f, "Namespace {name}"),
            Self::Pod(name) => write!(f, "Pod {name}"),
        }
    }
}
