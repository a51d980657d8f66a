//! What objects of every kind have in common: a kind, a name, changes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{EndpointSlice, Labels, Namespace, NamespacedName, Node, Pod, Service, ServiceCidr};

/// A kind of objects. Any crate may have its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindName {
    /// `kind`: `Service`.
    pub name: &'static str,
    /// `apiVersion`: `v1`.
    pub version: &'static str,
}

/// Without the version: two kinds seldom share a name, and every event is looked up by its [`Reference`].
impl Hash for KindName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Identity of an object of any kind. Displays as `Service default/web`, or `Node n1` without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    pub kind: &'static KindName,
    /// Namespace and name. The namespace of a cluster-scoped object is empty.
    pub name: NamespacedName,
}

impl Reference {
    /// The object of the kind `M` with this name.
    #[must_use]
    pub fn to<M: Model>(name: NamespacedName) -> Self {
        Self {
            kind: M::KIND,
            name,
        }
    }

    /// The object of the kind `M`, which has no namespaces, with this name.
    #[must_use]
    pub fn cluster_scoped<M: Model>(name: &Arc<str>) -> Self {
        Self::to::<M>(cluster_scoped(name))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name } = self;
        match &*name.namespace {
            "" => write!(f, "{} {}", kind.name, name.name),
            _ => write!(f, "{} {name}", kind.name),
        }
    }
}

/// One statement about an object. Of two about one object the later one counts; to set an object again unchanged is no
/// change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<M> {
    /// The object exists with this content.
    Set(Arc<M>),
    /// The object is gone. It may be unknown.
    Delete(NamespacedName),
}

impl<M: Model> Change<M> {
    /// Namespace and name of the object; the namespace of a cluster-scoped object is empty.
    #[must_use]
    pub fn name(&self) -> NamespacedName {
        match self {
            Self::Set(object) => object.name(),
            Self::Delete(name) => name.clone(),
        }
    }

    /// The object; `None` when it is gone.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<M>> {
        match self {
            Self::Set(object) => Some(object),
            Self::Delete(_) => None,
        }
    }

    /// The object that it is about.
    #[must_use]
    pub fn reference(&self) -> Reference {
        Reference::to::<M>(self.name())
    }
}

/// An object of a kind.
pub trait Model: fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Its kind.
    const KIND: &'static KindName;

    /// Namespace and name; the namespace of a cluster-scoped object is empty.
    fn name(&self) -> NamespacedName;

    /// The object without which this one is of no use.
    fn owner(&self) -> Option<Owner> {
        None
    }

    /// Its labels, if the model keeps them.
    fn labels(&self) -> Option<&Labels> {
        None
    }

    /// The value of a field that lists can be narrowed by, such as `spec.nodeName`: empty where the object has none,
    /// `None` if the model does not keep the field.
    fn field(&self, _path: &str) -> Option<&str> {
        None
    }

    /// Whether it has what others wait for: a Node its addresses.
    fn is_complete(&self) -> bool {
        true
    }
}

/// What an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The other object.
    pub object: Reference,
    /// What is lost without it: `nobody reaches these endpoints`.
    pub lost: &'static str,
}

/// The name of an object without a namespace.
fn cluster_scoped(name: &Arc<str>) -> NamespacedName {
    NamespacedName::new("", name.clone())
}

impl Model for Service {
    const KIND: &'static KindName = &KindName {
        name: "Service",
        version: "v1",
    };

    fn name(&self) -> NamespacedName {
        self.name.clone()
    }
}

impl Model for EndpointSlice {
    const KIND: &'static KindName = &KindName {
        name: "EndpointSlice",
        version: "discovery.k8s.io/v1",
    };

    fn name(&self) -> NamespacedName {
        self.name.clone()
    }

    fn owner(&self) -> Option<Owner> {
        let service = self.service.clone()?;
        let name = NamespacedName::new(self.name.namespace.clone(), service);
        Some(Owner {
            object: Reference::to::<Service>(name),
            lost: "nobody reaches these endpoints",
        })
    }
}

impl Model for Node {
    const KIND: &'static KindName = &KindName {
        name: "Node",
        version: "v1",
    };

    fn name(&self) -> NamespacedName {
        cluster_scoped(&self.name)
    }

    /// The kubelet gives a new Node its addresses a moment later.
    fn is_complete(&self) -> bool {
        !self.addresses.is_empty()
    }
}

impl Model for ServiceCidr {
    const KIND: &'static KindName = &KindName {
        name: "ServiceCIDR",
        version: "networking.k8s.io/v1",
    };

    fn name(&self) -> NamespacedName {
        cluster_scoped(&self.name)
    }
}

impl Model for Namespace {
    const KIND: &'static KindName = &KindName {
        name: "Namespace",
        version: "v1",
    };

    fn name(&self) -> NamespacedName {
        cluster_scoped(&self.name)
    }

    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }
}

impl Model for Pod {
    const KIND: &'static KindName = &KindName {
        name: "Pod",
        version: "v1",
    };

    fn name(&self) -> NamespacedName {
        self.name.clone()
    }

    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }

    fn field(&self, path: &str) -> Option<&str> {
        (path == "spec.nodeName").then(|| self.node.as_deref().unwrap_or_default())
    }
}
