//! The objects that the consumers of the tests want: those of a proxy, of a DNS server, of an agent with both.

use std::path::Path;
use std::sync::Arc;

use sluice_model::Selector;
use sluice_source::{
    FieldTest, Hub, Need, Problem, Selection, SourceError, Subscription, Wants, Watch, kinds,
};

use super::{Event, Object};

/// The Pods that are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) enum Pods {
    #[default]
    None,
    OfNode(Arc<str>),
    All,
}

/// The kinds that are read from manifests beside those of a proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) namespaces: bool,
    pub(crate) pods: Pods,
}

impl Kinds {
    /// The kinds that the proxy needs.
    pub(crate) const PROXY: Self = Self {
        namespaces: false,
        pods: Pods::None,
    };

    pub(crate) fn wants(&self) -> Wants<Event> {
        let mut wants = Wants::new(Event::from)
            .want_all::<kinds::Service>(Event::from)
            .want_all::<kinds::EndpointSlice>(Event::from)
            .want_all::<kinds::Node>(Event::from)
            .want_all::<kinds::ServiceCidr>(Event::from);
        if self.namespaces {
            wants = wants.want_all::<kinds::Namespace>(Event::from);
        }
        let fields = match &self.pods {
            Pods::None => return wants,
            Pods::OfNode(node) => vec![FieldTest::equal("spec.nodeName", node.clone())],
            Pods::All => Vec::new(),
        };
        let pods = Selection {
            fields,
            ..Selection::default()
        };
        wants.want::<kinds::Pod>(pods, Need::Required, Event::from)
    }
}

/// The content of a folder or file.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) objects: Vec<Object>,
    pub(crate) problems: Vec<Problem>,
}

impl Loaded {
    fn of(loaded: sluice_source::Loaded<Event>) -> Self {
        let object = |it| match it {
            Event::Set(object) => Some(object),
            _ => None,
        };
        Self {
            objects: loaded.events.into_iter().filter_map(object).collect(),
            problems: loaded.problems,
        }
    }
}

pub(crate) fn load(dir: impl AsRef<Path>, kinds: &Kinds) -> Result<Loaded, SourceError> {
    sluice_source::load(dir, &kinds.wants()).map(Loaded::of)
}

pub(crate) fn parse(file: &str, bytes: &[u8], kinds: &Kinds) -> Loaded {
    Loaded::of(sluice_source::parse(file, bytes, &kinds.wants()))
}

/// Watches a folder for one consumer.
pub(crate) fn watch(
    dir: impl AsRef<Path>,
    wants: Wants<Event>,
    sink: impl FnMut(Vec<Event>) + Send + 'static,
) -> Result<(Watch, Subscription), SourceError> {
    let hub = Hub::default();
    let subscription = hub.subscribe(wants, sink);
    Ok((hub.watch(dir)?, subscription))
}

/// The objects of a consumer at an API server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Whether the Node [`NODE`](super::NODE) and the ServiceCIDRs are wanted.
    pub(crate) of_proxy: bool,
    /// Whether headless Services, those of other proxies, and Namespaces are wanted.
    pub(crate) of_dns: bool,
    pub(crate) without_slices: bool,
    pub(crate) pods: Pods,
    /// Namespaces and Pods need not be readable.
    pub(crate) is_lenient: bool,
    /// The label selector of Services, EndpointSlices and Pods.
    pub(crate) labels: Selector,
    pub(crate) namespace_labels: Selector,
    /// The namespaces whose objects are wanted; empty: all.
    pub(crate) only: Vec<Arc<str>>,
}

impl Wanted {
    pub(crate) fn proxy() -> Self {
        Self {
            of_proxy: true,
            ..Self::default()
        }
    }

    pub(crate) fn dns() -> Self {
        Self {
            of_dns: true,
            ..Self::default()
        }
    }

    /// A proxy and a DNS server in one.
    pub(crate) fn agent() -> Self {
        Self {
            of_proxy: true,
            pods: Pods::OfNode(super::NODE.into()),
            is_lenient: true,
            ..Self::dns()
        }
    }

    pub(crate) fn wants(&self) -> Wants<Event> {
        let (own, fields, of_slices) = if self.of_dns {
            ("", Vec::new(), "")
        } else {
            (
                "!service.kubernetes.io/service-proxy-name",
                vec![FieldTest::unequal("spec.clusterIP", "None")],
                "!service.kubernetes.io/headless",
            )
        };
        let services = Selection {
            are_fields_optional: !fields.is_empty(),
            fields,
            is_never_empty: self.labels.is_empty() && self.only.is_empty(),
            ..self.namespaced(own)
        };
        let mut wants =
            Wants::new(Event::from).want::<kinds::Service>(services, Need::Required, Event::from);
        if !self.without_slices {
            let slices = self.namespaced(of_slices);
            wants = wants.want::<kinds::EndpointSlice>(slices, Need::Required, Event::from);
        }
        if self.of_proxy {
            let node = Selection {
                fields: vec![FieldTest::equal("metadata.name", super::NODE)],
                ..Selection::default()
            };
            let all = Selection::default();
            wants = wants
                .want::<kinds::Node>(node, Need::Complete, Event::from)
                .want::<kinds::ServiceCidr>(all, Need::MayBeAbsent, Event::from);
        }
        if self.of_dns {
            let namespaces = Selection {
                labels: self.namespace_labels.clone(),
                names: self.only.clone(),
                is_never_empty: self.namespace_labels.is_empty() && self.only.is_empty(),
                ..Selection::default()
            };
            let need = self.need("a namespace counts as absent while it has no object");
            wants = wants.want::<kinds::Namespace>(namespaces, need, Event::from);
        }
        let node = match &self.pods {
            Pods::None => return wants,
            Pods::OfNode(node) => Some(node),
            Pods::All => None,
        };
        let pods = Selection {
            fields: Selection::of_pods(node).fields,
            ..self.namespaced("")
        };
        let need = self.need("the names of pods and their search paths are not known");
        wants.want::<kinds::Pod>(pods, need, Event::from)
    }

    fn need(&self, lost: &'static str) -> Need {
        if self.is_lenient {
            Need::Optional(lost)
        } else {
            Need::Required
        }
    }

    fn namespaced(&self, own: &str) -> Selection {
        Selection {
            labels: Selector::parse(own).unwrap().and(&self.labels),
            namespaces: self.only.clone(),
            ..Selection::default()
        }
    }
}
