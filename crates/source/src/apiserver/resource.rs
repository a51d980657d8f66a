//! What is asked for, and how its objects are read.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use sluice_model::{NamespacedName, Object, ObjectKey};
use sluice_yaml::escaped;

use super::wire::Garbage;
use crate::api::{self, ObjectMeta};
use crate::convert::{self, Converted, Interner, displayable};

/// The kinds of objects that a proxy follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Resource {
    Node,
    ServiceCidrs,
    Services,
    EndpointSlices,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "Node",
            Self::ServiceCidrs => "ServiceCIDRs",
            Self::Services => "Services",
            Self::EndpointSlices => "EndpointSlices",
        })
    }
}

/// One object as the server described it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// `metadata.resourceVersion`.
    pub(super) version: Option<Arc<str>>,
    pub(super) what: What,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It can be used; problems of values that are left out.
    Good(Object, Vec<String>),
    /// It cannot be used, and why.
    Refused(ObjectKey, Vec<String>),
    /// Nobody can say which object it is.
    Nameless(String),
}

/// The least that is read of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IdentityMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl Resource {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [
        Self::Node,
        Self::ServiceCidrs,
        Self::Services,
        Self::EndpointSlices,
    ];

    /// Where it is.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Node => "/api/v1/nodes",
            Self::ServiceCidrs => "/apis/networking.k8s.io/v1/servicecidrs",
            Self::Services => "/api/v1/services",
            Self::EndpointSlices => "/apis/discovery.k8s.io/v1/endpointslices",
        }
    }

    /// `kind` of its lists.
    pub(super) fn list_kind(self) -> &'static str {
        match self {
            Self::Node => "NodeList",
            Self::ServiceCidrs => "ServiceCIDRList",
            Self::Services => "ServiceList",
            Self::EndpointSlices => "EndpointSliceList",
        }
    }

    /// What narrows it down to what a proxy needs, as the server takes it.
    pub(super) fn selectors(self, node_name: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Node => vec![("fieldSelector", format!("metadata.name={node_name}"))],
            Self::ServiceCidrs => Vec::new(),
            Self::Services => vec![
                (
                    "labelSelector",
                    "!service.kubernetes.io/service-proxy-name".to_owned(),
                ),
                ("fieldSelector", "spec.clusterIP!=None".to_owned()),
            ],
            Self::EndpointSlices => vec![(
                "labelSelector",
                "!service.kubernetes.io/headless".to_owned(),
            )],
        }
    }

    /// Every cluster has some: `default/kubernetes`.
    pub(super) fn is_never_empty(self) -> bool {
        self == Self::Services
    }

    /// Reads an object that exists. Bytes that are no JSON make the whole stream doubtful;
    /// anything else is the object's own problem.
    pub(super) fn read(self, bytes: &[u8], names: &mut Interner) -> Result<Seen, Garbage> {
        match self {
            Self::Node => self.typed(
                bytes,
                names,
                |it: &api::Node| &it.metadata,
                convert::node,
                |it| Object::Node(Arc::new(it)),
            ),
            Self::ServiceCidrs => self.typed(
                bytes,
                names,
                |it: &api::ServiceCidr| &it.metadata,
                convert::service_cidr,
                |it| Object::ServiceCidr(Arc::new(it)),
            ),
            Self::Services => self.typed(
                bytes,
                names,
                |it: &api::Service| &it.metadata,
                convert::service,
                |it| Object::Service(Arc::new(it)),
            ),
            Self::EndpointSlices => self.typed(
                bytes,
                names,
                |it: &api::EndpointSlice| &it.metadata,
                convert::endpoint_slice,
                |it| Object::EndpointSlice(Arc::new(it)),
            ),
        }
    }

    fn typed<A: DeserializeOwned, T>(
        self,
        bytes: &[u8],
        names: &mut Interner,
        metadata: fn(&A) -> &ObjectMeta,
        convert: fn(&A, &mut Interner) -> Converted<T>,
        wrap: fn(T) -> Object,
    ) -> Result<Seen, Garbage> {
        let api: A = match parse(bytes)? {
            Ok(api) => api,
            Err(why) => return self.refused(bytes, why),
        };
        let converted = convert(&api, names);
        let faults: Vec<String> = converted.faults.iter().map(ToString::to_string).collect();
        let metadata = metadata(&api);
        let what = match converted.object.map(wrap) {
            Some(object) => What::Good(object, faults),
            None => self.refusal(
                metadata.name.as_deref(),
                metadata.namespace.as_deref(),
                faults,
            ),
        };
        let version = metadata.resource_version.as_deref().map(Arc::from);
        Ok(Seen { version, what })
    }

    fn refused(self, bytes: &[u8], why: String) -> Result<Seen, Garbage> {
        let identity: Identity = parse(bytes)?.unwrap_or_default();
        let IdentityMeta {
            name,
            namespace,
            resource_version,
        } = identity.metadata;
        Ok(Seen {
            version: resource_version.map(Arc::from),
            what: self.refusal(name.as_deref(), namespace.as_deref(), vec![why]),
        })
    }

    fn refusal(self, name: Option<&str>, namespace: Option<&str>, faults: Vec<String>) -> What {
        match self.key(name.unwrap_or_default(), namespace) {
            Some(key) => What::Refused(key, faults),
            None => What::Nameless(faults.join(", ")),
        }
    }

    /// Which object is gone; `None` for one whose name has never let it in.
    pub(super) fn read_gone(
        self,
        bytes: &[u8],
    ) -> Result<(Option<ObjectKey>, Option<Arc<str>>), Garbage> {
        let metadata = parse::<Identity>(bytes)??.metadata;
        let name = metadata.name.unwrap_or_default();
        if name.is_empty() {
            return Err("an object is gone that has no name".to_owned());
        }
        let key = self.key(&name, metadata.namespace.as_deref());
        Ok((key, metadata.resource_version.map(Arc::from)))
    }

    /// The key of an object whose names at least can be trusted.
    fn key(self, name: &str, namespace: Option<&str>) -> Option<ObjectKey> {
        let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or("default");
        if !displayable(name) || !displayable(namespace) {
            return None;
        }
        let namespaced = || NamespacedName::new(namespace, name);
        Some(match self {
            Self::Services => ObjectKey::Service(namespaced()),
            Self::EndpointSlices => ObjectKey::EndpointSlice(namespaced()),
            Self::Node => ObjectKey::Node(name.into()),
            Self::ServiceCidrs => ObjectKey::ServiceCidr(name.into()),
        })
    }
}

/// The inner error: well-formed, but not the types that were expected.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Result<T, String>, Garbage> {
    serde_json::from_slice(bytes).map(Ok).or_else(|error| {
        let text = escaped(&error.to_string());
        match error.classify() {
            Category::Data => Ok(Err(text)),
            _ => Err(format!("no JSON: {text}")),
        }
    })
}
