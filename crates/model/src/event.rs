//! What a source says.

use std::fmt;
use std::sync::Arc;

use crate::{EndpointSlice, LocalAddresses, NamespacedName, Node, Service, ServiceCidr};

/// One statement of a source about the cluster.
///
/// The order of events for different objects means nothing; of two events for one object the
/// later one counts. An object that is set again unchanged is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object exists and looks like this now.
    Set(Object),
    /// The object is gone. An unknown object is no error.
    Delete(ObjectKey),
    /// Problems of one origin (a file, a watch): replaces all that was said of this origin
    /// before, so an empty list clears it. Each problem is one line for a person.
    Problems {
        /// Where the problems are: a file name, the name of a watch.
        origin: Arc<str>,
        /// Every problem there, object and field named.
        problems: Vec<String>,
    },
    /// The addresses of the machine: replaces what was said before.
    LocalAddresses(LocalAddresses),
    /// The first complete list has been delivered. Nothing is programmed before: half a cluster
    /// would delete the other half's rules.
    Synced,
}

/// An object of one of the kinds a proxy learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A Service.
    Service(Arc<Service>),
    /// An EndpointSlice.
    EndpointSlice(Arc<EndpointSlice>),
    /// A Node.
    Node(Arc<Node>),
    /// A ServiceCIDR.
    ServiceCidr(Arc<ServiceCidr>),
}

impl Object {
    /// What identifies the object.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Service(it) => ObjectKey::Service(it.name.clone()),
            Self::EndpointSlice(it) => ObjectKey::EndpointSlice(it.name.clone()),
            Self::Node(it) => ObjectKey::Node(it.name.clone()),
            Self::ServiceCidr(it) => ObjectKey::ServiceCidr(it.name.clone()),
        }
    }
}

/// Identity of an object. Displays as `Service default/web`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKey {
    /// A Service.
    Service(NamespacedName),
    /// An EndpointSlice.
    EndpointSlice(NamespacedName),
    /// A Node.
    Node(Arc<str>),
    /// A ServiceCIDR.
    ServiceCidr(Arc<str>),
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "Service {name}"),
            Self::EndpointSlice(name) => write!(f, "EndpointSlice {name}"),
            Self::Node(name) => write!(f, "Node {name}"),
            Self::ServiceCidr(name) => write!(f, "ServiceCIDR {name}"),
        }
    }
}
