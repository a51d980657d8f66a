//! The kinds of objects that a reader wants.

use std::sync::Arc;

use sluice_model::Object;

use crate::api;
use crate::kind::Kind as _;

/// The Pods that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    /// No Pod.
    #[default]
    None,
    /// The Pods that run on this node or are bound to it.
    OfNode(Arc<str>),
    /// All Pods.
    All,
}

/// The kinds that are read from manifests beside Services, EndpointSlices, Nodes and ServiceCIDRs. Objects of other
/// kinds are skipped: they take no memory, and nothing in them is a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Whether Namespaces are read.
    pub namespaces: bool,
    /// The Pods that are read.
    pub pods: Pods,
}

impl Kinds {
    /// What the proxy needs.
    pub const PROXY: Self = Self {
        namespaces: false,
        pods: Pods::None,
    };

    /// Whether objects of this `kind` are read.
    pub(crate) fn has(&self, kind: &str) -> bool {
        match kind {
            api::Namespace::NAME => self.namespaces,
            api::Pod::NAME => self.pods != Pods::None,
            _ => true,
        }
    }

    /// Whether an object of a kind that is read is kept.
    pub(crate) fn has_object(&self, object: &Object) -> bool {
        match (object, &self.pods) {
            (Object::Pod(pod), Pods::OfNode(node)) => pod.node.as_ref() == Some(node),
            _ => true,
        }
    }
}
