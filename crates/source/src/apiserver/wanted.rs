//! What is followed, and the selectors of each kind that follow from it.

use std::sync::Arc;

use super::follower::{Absence, Selection};
use super::output::Awaited;
use crate::api;
use crate::kind::Kind as _;
use crate::kinds::{Kinds, Pods};

/// The Nodes that are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The one of this name.
    One(Arc<str>),
    /// All of the cluster.
    All,
}

/// The Services that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    /// Those that this proxy serves: no headless ones, and none of another proxy.
    Proxied,
    /// All, as DNS names them.
    All,
}

/// The EndpointSlices that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slices {
    /// No EndpointSlice.
    None,
    /// Those that are not of headless Services.
    Proxied,
    /// All.
    All,
}

/// Whether a kind must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`Event::Synced`](sluice_model::Event::Synced) waits for its first list.
    Required,
    /// A client without the right to read it goes on without it, with a problem that names what is lost. Otherwise
    /// its first list is waited for, but for [`Timeouts::node`](super::Timeouts::node) at most.
    Optional,
}

/// The objects that [`follow`](super::follow()) follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The Services.
    pub services: Services,
    /// The EndpointSlices.
    pub slices: Slices,
    /// The Nodes; `None`: no Node.
    pub nodes: Option<Nodes>,
    /// Whether ServiceCIDRs are followed.
    pub cidrs: bool,
    /// Whether Namespaces are followed.
    pub namespaces: bool,
    /// The Pods that have not ended.
    pub pods: Pods,
    /// Whether Namespaces and Pods must be there, where they are followed.
    pub need: Need,
    /// The label selector of Services, EndpointSlices and Pods, as kubectl writes it; `None`: no selector. The
    /// EndpointSlices of a Service have its labels.
    pub labels: Option<String>,
    /// The label selector of Namespaces; `None`: no selector.
    pub namespace_labels: Option<String>,
    /// The namespaces whose objects are followed; empty: all. The server sends only one namespace or all, so with
    /// several the objects of all others are read and dropped.
    pub only: Vec<Arc<str>>,
}

impl Wanted {
    /// What a proxy needs.
    #[must_use]
    pub fn proxy(nodes: Nodes) -> Self {
        Self {
            services: Services::Proxied,
            slices: Slices::Proxied,
            nodes: Some(nodes),
            cidrs: true,
            namespaces: false,
            pods: Pods::None,
            need: Need::Optional,
            labels: None,
            namespace_labels: None,
            only: Vec::new(),
        }
    }

    /// What a DNS server needs for the names of a whole cluster, without those of pods.
    #[must_use]
    pub fn dns() -> Self {
        Self {
            services: Services::All,
            slices: Slices::All,
            nodes: None,
            cidrs: false,
            namespaces: true,
            pods: Pods::None,
            need: Need::Required,
            labels: None,
            namespace_labels: None,
            only: Vec::new(),
        }
    }

    /// The same and what the DNS server inside an agent needs: one watch of each kind serves both. Namespaces and the
    /// Pods of the agent's node are optional, so that the rules never wait for a permission that only DNS needs.
    #[must_use]
    pub fn with_dns(self, node: Arc<str>) -> Self {
        Self {
            services: Services::All,
            slices: Slices::All,
            namespaces: true,
            pods: Pods::OfNode(node),
            need: Need::Optional,
            ..self
        }
    }

    /// The same choice of kinds for a folder of manifests. Selectors are the API server's: a folder is read whole.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        Kinds {
            namespaces: self.namespaces,
            pods: self.pods.clone(),
        }
    }

    /// Whose first lists are waited for.
    pub(super) fn awaited(&self) -> Awaited {
        let mut awaited = Awaited::default();
        awaited.required.insert(api::Service::OBJECTS);
        if self.slices != Slices::None {
            awaited.required.insert(api::EndpointSlice::OBJECTS);
        }
        if self.nodes.is_some() {
            awaited.wanted.insert(api::Node::OBJECTS);
        }
        if self.cidrs {
            awaited.wanted.insert(api::ServiceCidr::OBJECTS);
        }
        let named = match self.need {
            Need::Required => &mut awaited.required,
            Need::Optional => &mut awaited.wanted,
        };
        if self.namespaces {
            named.insert(api::Namespace::OBJECTS);
        }
        if self.pods != Pods::None {
            named.insert(api::Pod::OBJECTS);
        }
        awaited
    }

    pub(super) fn services(&self) -> Selection {
        let (own, fields) = match self.services {
            Services::Proxied => (
                Some("!service.kubernetes.io/service-proxy-name"),
                Some("spec.clusterIP!=None".to_owned()),
            ),
            Services::All => (None, None),
        };
        Selection {
            // Before 1.31 no server knew this field of Services. Without it headless Services come
            // along, and the plan leaves them out.
            are_fields_optional: fields.is_some(),
            fields,
            // `default/kubernetes`
            is_never_empty: self.labels.is_none() && self.only.is_empty(),
            ..self.namespaced(own)
        }
    }

    pub(super) fn slices(&self) -> Option<Selection> {
        let own = match self.slices {
            Slices::None => return None,
            Slices::Proxied => Some("!service.kubernetes.io/headless"),
            Slices::All => None,
        };
        Some(self.namespaced(own))
    }

    pub(super) fn nodes(&self) -> Option<Selection> {
        let fields = match self.nodes.as_ref()? {
            Nodes::One(name) => Some(format!("metadata.name={name}")),
            Nodes::All => None,
        };
        Some(Selection {
            fields,
            ..Selection::default()
        })
    }

    pub(super) fn cidrs(&self) -> Option<Selection> {
        self.cidrs.then(|| Selection {
            absence: Absence::Normal,
            ..Selection::default()
        })
    }

    pub(super) fn namespaces(&self) -> Option<Selection> {
        let (fields, only) = match &*self.only {
            [one] => (Some(format!("metadata.name={one}")), &[][..]),
            several => (None, several),
        };
        let lost = "a namespace counts as absent while it has no object";
        self.namespaces.then(|| Selection {
            labels: self.namespace_labels.clone(),
            fields,
            only: only.to_vec(),
            absence: self.absence(lost),
            // `default`
            is_never_empty: self.namespace_labels.is_none() && self.only.is_empty(),
            ..Selection::default()
        })
    }

    pub(super) fn pods(&self) -> Option<Selection> {
        let live = "status.phase!=Succeeded,status.phase!=Failed";
        let fields = match &self.pods {
            Pods::None => return None,
            Pods::OfNode(node) => format!("spec.nodeName={node},{live}"),
            Pods::All => live.to_owned(),
        };
        let lost = "the names of pods and their search paths are not known";
        Some(Selection {
            fields: Some(fields),
            absence: self.absence(lost),
            ..self.namespaced(None)
        })
    }

    /// The objects of a kind with namespaces that `labels` select, and `own` as well.
    fn namespaced(&self, own: Option<&str>) -> Selection {
        let labels = [own, self.labels.as_deref()];
        let labels: Vec<&str> = labels.into_iter().flatten().collect();
        let (namespace, only) = match &*self.only {
            [one] => (Some(one.clone()), &[][..]),
            several => (None, several),
        };
        Selection {
            labels: (!labels.is_empty()).then(|| labels.join(",")),
            namespace,
            only: only.to_vec(),
            ..Selection::default()
        }
    }

    fn absence(&self, lost: &'static str) -> Absence {
        match self.need {
            Need::Required => Absence::Outage,
            Need::Optional => Absence::Loss(lost),
        }
    }
}

#[cfg(test)]
mod tests;
