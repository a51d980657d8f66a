//! The objects to follow, and the selectors of each kind that select them.

use std::sync::Arc;

use sluice_model::{Event, Selector};

use crate::hub::{FieldTest, Need, Notice, Selection, Wants};
use crate::kinds;
use crate::wanted_kinds::{Kinds, Pods};

/// The Nodes that are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The Node of this name.
    One(Arc<str>),
    /// All Nodes of the cluster.
    All,
}

/// The Services that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    /// The Services that this proxy serves: no headless Service, and none of another proxy.
    Proxied,
    /// All Services, for DNS.
    All,
}

/// The EndpointSlices that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slices {
    /// No EndpointSlice.
    None,
    /// The EndpointSlices of Services that are not headless.
    Proxied,
    /// All EndpointSlices.
    All,
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
    /// Whether Namespaces and Pods must be there, where they are followed. Otherwise a client without the right to read
    /// them goes on without.
    pub is_required: bool,
    /// The label selector of Services, EndpointSlices and Pods. The EndpointSlices of a Service have the labels of
    /// the Service.
    pub labels: Selector,
    /// The label selector of Namespaces.
    pub namespace_labels: Selector,
    /// The namespaces whose objects are followed; empty: all. The server sends only one namespace or all, so with
    /// several the objects of all others are read and dropped.
    pub only: Vec<Arc<str>>,
}

impl Wanted {
    /// The objects that a proxy needs.
    #[must_use]
    pub fn proxy(nodes: Nodes) -> Self {
        Self {
            services: Services::Proxied,
            slices: Slices::Proxied,
            nodes: Some(nodes),
            cidrs: true,
            namespaces: false,
            pods: Pods::None,
            is_required: false,
            labels: Selector::default(),
            namespace_labels: Selector::default(),
            only: Vec::new(),
        }
    }

    /// The objects that a DNS server needs for the names of a whole cluster, without those of pods.
    #[must_use]
    pub fn dns() -> Self {
        Self {
            services: Services::All,
            slices: Slices::All,
            nodes: None,
            cidrs: false,
            namespaces: true,
            pods: Pods::None,
            is_required: true,
            labels: Selector::default(),
            namespace_labels: Selector::default(),
            only: Vec::new(),
        }
    }

    /// These objects, and those that the DNS server inside an agent needs: one watch of each kind serves both.
    /// Namespaces and the Pods of the agent's node are optional, so that the rules never wait for a permission that
    /// only DNS needs.
    #[must_use]
    pub fn with_dns(self, node: Arc<str>) -> Self {
        Self {
            services: Services::All,
            slices: Slices::All,
            namespaces: true,
            pods: Pods::OfNode(node),
            is_required: false,
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

    /// The wants of a consumer of [`Event`]s.
    #[must_use]
    pub fn wants(&self) -> Wants<Event> {
        let mut wants =
            Wants::new(notice).want::<kinds::Service>(self.services(), Need::Required, Event::from);
        if self.slices != Slices::None {
            wants = wants.want::<kinds::EndpointSlice>(self.slices(), Need::Required, Event::from);
        }
        if let Some(nodes) = &self.nodes {
            wants = wants.want::<kinds::Node>(nodes.selection(), Need::Complete, Event::from);
        }
        if self.cidrs {
            let all = Selection::default();
            wants = wants.want::<kinds::ServiceCidr>(all, Need::MayBeAbsent, Event::from);
        }
        if self.namespaces {
            let need = self.need("a namespace counts as absent while it has no object");
            wants = wants.want::<kinds::Namespace>(self.namespaces(), need, Event::from);
        }
        if let Some(pods) = self.pods() {
            let need = self.need("the names of pods and their search paths are not known");
            wants = wants.want::<kinds::Pod>(pods, need, Event::from);
        }
        wants
    }

    fn need(&self, lost: &'static str) -> Need {
        if self.is_required {
            Need::Required
        } else {
            Need::Optional(lost)
        }
    }

    fn services(&self) -> Selection {
        let (own, fields) = match self.services {
            Services::Proxied => (
                "!service.kubernetes.io/service-proxy-name",
                vec![FieldTest::unequal("spec.clusterIP", "None")],
            ),
            Services::All => ("", Vec::new()),
        };
        Selection {
            // Before 1.31 no server knew this field of Services. Without it headless Services come
            // along, and the plan leaves them out.
            are_fields_optional: !fields.is_empty(),
            fields,
            // `default/kubernetes`
            is_never_empty: self.labels.is_empty() && self.only.is_empty(),
            ..self.namespaced(own)
        }
    }

    fn slices(&self) -> Selection {
        self.namespaced(match self.slices {
            Slices::Proxied => "!service.kubernetes.io/headless",
            Slices::None | Slices::All => "",
        })
    }

    fn namespaces(&self) -> Selection {
        Selection {
            labels: self.namespace_labels.clone(),
            names: self.only.clone(),
            // `default`
            is_never_empty: self.namespace_labels.is_empty() && self.only.is_empty(),
            ..Selection::default()
        }
    }

    fn pods(&self) -> Option<Selection> {
        let pods = match &self.pods {
            Pods::None => return None,
            Pods::OfNode(node) => Selection::of_pods(Some(node)),
            Pods::All => Selection::of_pods(None),
        };
        let fields = pods.fields;
        Some(Selection {
            fields,
            ..self.namespaced("")
        })
    }

    /// The objects of a kind with namespaces that `labels` select, and `own` as well.
    fn namespaced(&self, own: &str) -> Selection {
        let own = Selector::parse(own).expect("it is well-formed");
        Selection {
            labels: own.and(&self.labels),
            namespaces: self.only.clone(),
            ..Selection::default()
        }
    }
}

impl Nodes {
    fn selection(&self) -> Selection {
        let one = |it: &Arc<str>| FieldTest::equal("metadata.name", it.clone());
        Selection {
            fields: match self {
                Self::One(name) => vec![one(name)],
                Self::All => Vec::new(),
            },
            ..Selection::default()
        }
    }
}

/// Makes an event of a notice.
pub(crate) fn notice(notice: Notice) -> Event {
    match notice {
        Notice::Problems { origin, problems } => Event::Problems { origin, problems },
        Notice::Synced => Event::Synced,
    }
}

#[cfg(test)]
mod tests;
