//! An object of any kind, and the events about it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use sluice_model::{KindName, Labels, Model, NamespacedName, Owner, Reference};

/// An object whose kind is known when the program runs.
#[derive(Clone, Debug)]
pub(crate) struct Object(Arc<dyn Erased>);

impl Object {
    pub(crate) fn new(model: impl Model) -> Self {
        Self(Arc::new(model))
    }

    pub(crate) fn kind(&self) -> &'static KindName {
        self.0.kind()
    }

    pub(crate) fn reference(&self) -> Reference {
        self.0.reference()
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.0.owner()
    }

    pub(crate) fn labels(&self) -> Option<&Labels> {
        self.0.labels()
    }

    pub(crate) fn field(&self, path: &str) -> Option<&str> {
        self.0.field(path)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// The object, shared; `None` for an object of another kind.
    pub(crate) fn model<M: Model>(&self) -> Option<Arc<M>> {
        self.0.clone().any().downcast().ok()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.equals(&*other.0)
    }
}

trait Erased: Any + Debug + Send + Sync {
    fn kind(&self) -> &'static KindName;
    fn reference(&self) -> Reference;
    fn owner(&self) -> Option<Owner>;
    fn labels(&self) -> Option<&Labels>;
    fn field(&self, path: &str) -> Option<&str>;
    fn is_complete(&self) -> bool;
    fn equals(&self, other: &dyn Erased) -> bool;
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<M: Model> Erased for M {
    fn kind(&self) -> &'static KindName {
        M::KIND
    }

    fn reference(&self) -> Reference {
        Reference::to::<M>(self.name())
    }

    fn owner(&self) -> Option<Owner> {
        Model::owner(self)
    }

    fn labels(&self) -> Option<&Labels> {
        Model::labels(self)
    }

    fn field(&self, path: &str) -> Option<&str> {
        Model::field(self, path)
    }

    fn is_complete(&self) -> bool {
        Model::is_complete(self)
    }

    fn equals(&self, other: &dyn Erased) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// An event of a feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The object exists with this content.
    Set(Object),
    /// The object is gone.
    Delete(Reference),
    /// The problems of an origin now, one line each.
    Problems {
        origin: Arc<str>,
        problems: Vec<String>,
    },
}

/// The name of a cluster-scoped object.
pub(crate) fn scoped(is_namespaced: bool, name: NamespacedName) -> NamespacedName {
    if is_namespaced {
        name
    } else {
        NamespacedName::new("", name.name)
    }
}
