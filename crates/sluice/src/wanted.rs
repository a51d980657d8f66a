//! The objects that the parts of this program want of a source.

use std::sync::Arc;

use sluice_model::{Notice, Selector};
use sluice_plan::Event;
use sluice_plan::settings::{DirectReturn, Settings};
use sluice_policy_agent::PolicyEvent;
use sluice_policy_agent::kinds::{ClusterNetworkPolicy, NetworkPolicy};
use sluice_policy_plan::{Event as PolicyObject, UnknownPods};
use sluice_source::{FieldTest, Need, Selection, Wants, kinds};
use sluice_zone::Event as NameEvent;

/// The Services that a plan is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Services {
    /// The Services that a proxy serves: no headless Service, and none of another proxy.
    Proxied,
    /// All Services: names need them too, and one watch serves both.
    All,
}

/// The objects that a plan needs: with direct server return the Nodes of all endpoints.
pub(crate) fn of_plan(settings: &Settings, services: Services) -> Wants<Event> {
    let nodes = match settings.direct_return {
        DirectReturn::Off => of_node(&settings.node_name),
        DirectReturn::Annotated | DirectReturn::All => Selection::default(),
    };
    let names = Names::default();
    let (services, slices) = match services {
        Services::Proxied => (
            proxied_services(),
            labelled("!service.kubernetes.io/headless"),
        ),
        Services::All => (names.services(), names.namespaced()),
    };
    Wants::new(Event::Notice)
        .want::<kinds::Service>(services, Need::Required, Event::Service)
        .want::<kinds::EndpointSlice>(slices, Need::Required, Event::EndpointSlice)
        .want::<kinds::Node>(nodes, Need::Complete, Event::Node)
        .want::<kinds::ServiceCidr>(Selection::default(), Need::MayBeAbsent, Event::ServiceCidr)
}

/// The Node of this name.
fn of_node(name: &Arc<str>) -> Selection {
    Selection {
        fields: vec![FieldTest::equal("metadata.name", name.clone())],
        ..Selection::default()
    }
}

/// What the policies of a node's pods follow.
pub(crate) fn of_policies(
    node: &Arc<str>,
    unknown_pods: UnknownPods,
) -> Wants<Option<PolicyEvent>> {
    let mut wants = Wants::new(|it: Notice| PolicyEvent::notice(&it));
    if unknown_pods == UnknownPods::Drop {
        wants = wants.want::<kinds::Node>(of_node(node), Need::Complete, |it| {
            Some(PolicyEvent::Object(PolicyObject::Node(it)))
        });
    }
    wants.and(of_policy_objects(), |it| it.map(PolicyEvent::Object))
}

/// The objects alone, and `None` for each notice: every Pod that has not ended may be a peer.
pub(crate) fn of_policy_objects() -> Wants<Option<PolicyObject>> {
    let namespaces = Selection {
        // `default`
        is_never_empty: true,
        ..Selection::default()
    };
    policies()
        .want::<kinds::Namespace>(namespaces, Need::Required, |it| {
            Some(PolicyObject::Namespace(it))
        })
        .want::<kinds::Pod>(Selection::of_pods(None), Need::Required, |it| {
            Some(PolicyObject::Pod(it))
        })
}

/// The policies alone.
pub(crate) fn policies() -> Wants<Option<PolicyObject>> {
    let all = Selection::default;
    Wants::new(|_| None)
        .want::<NetworkPolicy>(all(), Need::Required, |it| {
            Some(PolicyObject::NetworkPolicy(it))
        })
        .want::<ClusterNetworkPolicy>(all(), Need::MayBeAbsent, |it| {
            Some(PolicyObject::ClusterNetworkPolicy(it))
        })
}

fn proxied_services() -> Selection {
    Selection {
        // Before 1.31 no server knew this field of Services. Without it headless Services come
        // along, and the plan leaves them out.
        are_fields_optional: true,
        fields: vec![FieldTest::unequal("spec.clusterIP", "None")],
        // `default/kubernetes`
        is_never_empty: true,
        ..labelled("!service.kubernetes.io/service-proxy-name")
    }
}

fn labelled(selector: &str) -> Selection {
    Selection {
        labels: Selector::parse(selector).expect("it is well-formed"),
        ..Selection::default()
    }
}

/// The Pods that have names or search paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pods {
    /// No Pod.
    #[default]
    None,
    /// The Pods that run on this node or are bound to it, and have not ended.
    OfNode(Arc<str>),
    /// All Pods that have not ended.
    All,
}

/// Whether Namespaces and Pods must be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Permission {
    /// They are waited for.
    #[default]
    Required,
    /// A client without the right to read them goes on without.
    Optional,
}

/// The objects that DNS names need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) pods: Pods,
    pub(crate) permission: Permission,
    /// The label selector of Services, EndpointSlices and Pods. The EndpointSlices of a Service have the labels of
    /// the Service.
    pub(crate) labels: Selector,
    pub(crate) namespace_labels: Selector,
    /// The namespaces whose objects are followed; empty: all.
    pub(crate) only: Vec<Arc<str>>,
}

impl Names {
    /// The objects of the DNS server inside an agent. The Namespaces and the Pods of the node are optional, because only
    /// DNS needs permission for them.
    pub(crate) fn of_agent(node: &Arc<str>) -> Self {
        Self {
            pods: Pods::OfNode(node.clone()),
            permission: Permission::Optional,
            ..Self::default()
        }
    }

    pub(crate) fn wants(&self) -> Wants<NameEvent> {
        let need = |lost| match self.permission {
            Permission::Required => Need::Required,
            Permission::Optional => Need::Optional(lost),
        };
        let spaces = need("a namespace counts as absent while it has no object");
        let wants = Wants::new(NameEvent::Notice)
            .want::<kinds::Service>(self.services(), Need::Required, NameEvent::Service)
            .want::<kinds::EndpointSlice>(
                self.namespaced(),
                Need::Required,
                NameEvent::EndpointSlice,
            )
            .want::<kinds::Namespace>(self.namespaces(), spaces, NameEvent::Namespace);
        let node = match &self.pods {
            Pods::None => return wants,
            Pods::OfNode(node) => Some(node),
            Pods::All => None,
        };
        let pods = Selection {
            fields: Selection::of_pods(node).fields,
            ..self.namespaced()
        };
        let need = need("the names of pods and their search paths are not known");
        wants.want::<kinds::Pod>(pods, need, NameEvent::Pod)
    }

    fn services(&self) -> Selection {
        Selection {
            // `default/kubernetes`
            is_never_empty: self.labels.is_empty() && self.only.is_empty(),
            ..self.namespaced()
        }
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

    /// The objects of a kind with namespaces.
    fn namespaced(&self) -> Selection {
        Selection {
            labels: self.labels.clone(),
            namespaces: self.only.clone(),
            ..Selection::default()
        }
    }
}

#[cfg(test)]
mod tests;
