//! The kinds of objects that a reader wants.

use std::sync::Arc;

use sluice_model::Event;

use crate::apiserver::notice;
use crate::hub::{FieldTest, Need, Selection, Wants};
use crate::kinds;

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
    /// The kinds that the proxy needs.
    pub const PROXY: Self = Self {
        namespaces: false,
        pods: Pods::None,
    };

    /// These kinds, as the wants of a consumer of [`Event`]s.
    #[must_use]
    pub fn wants(&self) -> Wants<Event> {
        let all = Selection::default;
        let mut wants = Wants::new(notice)
            .want::<kinds::Service>(all(), Need::Required, Event::from)
            .want::<kinds::EndpointSlice>(all(), Need::Required, Event::from)
            .want::<kinds::Node>(all(), Need::Required, Event::from)
            .want::<kinds::ServiceCidr>(all(), Need::Required, Event::from);
        if self.namespaces {
            wants = wants.want::<kinds::Namespace>(all(), Need::Required, Event::from);
        }
        let pods = match &self.pods {
            Pods::None => return wants,
            Pods::OfNode(node) => vec![FieldTest::equal("spec.nodeName", node.clone())],
            Pods::All => Vec::new(),
        };
        let pods = Selection {
            fields: pods,
            ..all()
        };
        wants.want::<kinds::Pod>(pods, Need::Required, Event::from)
    }
}
