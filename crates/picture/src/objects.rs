//! The objects of the Kubernetes API that a picture is made of.

use std::collections::BTreeMap;

use serde_json::Value;

/// A kind of objects that pictures need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    /// Pods of all namespaces.
    Pod,
    /// Services of all namespaces.
    Service,
    /// EndpointSlices of all namespaces.
    EndpointSlice,
    /// The ranges of ClusterIPs.
    ServiceCidr,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::EndpointSlice,
        Self::ServiceCidr,
    ];

    /// The path of the list in the API.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Node => "/api/v1/nodes",
            Self::Pod => "/api/v1/pods",
            Self::Service => "/api/v1/services",
            Self::EndpointSlice => "/apis/discovery.k8s.io/v1/endpointslices",
            Self::ServiceCidr => "/apis/networking.k8s.io/v1/servicecidrs",
        }
    }
}

/// The lists of the API.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    lists: BTreeMap<Kind, Value>,
}

impl Objects {
    /// Takes each list as `list` gets it: a `NodeList`, a `PodList` and so on.
    ///
    /// # Errors
    ///
    /// Those of `list`.
    pub fn read<E>(mut list: impl FnMut(Kind) -> Result<Value, E>) -> Result<Self, E> {
        let lists = Kind::ALL.into_iter().map(|it| Ok((it, list(it)?)));
        Ok(Self {
            lists: lists.collect::<Result<_, E>>()?,
        })
    }

    /// The objects but for those of one namespace.
    #[must_use]
    pub fn without(mut self, namespace: &str) -> Self {
        let items = self
            .lists
            .values_mut()
            .filter_map(|it| it["items"].as_array_mut());
        items.for_each(|it| it.retain(|it| it["metadata"]["namespace"] != namespace));
        self
    }

    /// Every list, as it was read.
    pub fn lists(&self) -> impl Iterator<Item = &Value> {
        self.lists.values()
    }

    /// The objects of a kind, by namespace and name.
    #[must_use]
    pub fn all(&self, kind: Kind) -> Vec<&Value> {
        let items = self.lists.get(&kind).and_then(|it| it["items"].as_array());
        let mut items: Vec<_> = items.into_iter().flatten().collect();
        items.sort_by_key(|it| (text(&it["metadata"]["namespace"]), name(it)));
        items
    }

    /// The Node of this name.
    #[must_use]
    pub fn node(&self, name_of_node: &str) -> Option<&Value> {
        let nodes = self.all(Kind::Node);
        nodes.into_iter().find(|it| name(it) == name_of_node)
    }
}

/// A text; empty for anything else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// Whether a condition of an object is `True`.
pub(crate) fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == kind && it["status"] == "True")
}
