//! The kinds of objects that the proxy and the DNS server learn, from an API server or from manifests.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use sluice_model::{NamespacedName, Object, ObjectKey};

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Interner};

/// A kind of API object, with the fields of it that we use: all others are skipped while an object
/// is read.
pub(crate) trait Kind: DeserializeOwned {
    /// `kind`: `Service`.
    const NAME: &'static str;
    /// The `apiVersion`s that are understood.
    const VERSIONS: &'static [&'static str];
    /// Path of the collection at the API server, all namespaces: `/api/v1/services`.
    const PATH: &'static str;
    /// The objects, as people read it in problems and logs: `Services`.
    const OBJECTS: &'static str;

    /// The fields that identify the object, and its version.
    fn identity(&self) -> Identity<'_>;

    /// The model object; every value that cannot be used is a fault.
    fn convert(&self, names: &mut Interner) -> Converted<Object>;

    /// What identifies the object. Kinds without a namespace ignore it.
    fn key(name: NamespacedName) -> ObjectKey;
}

impl Kind for api::Service {
    const NAME: &'static str = "Service";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/services";
    const OBJECTS: &'static str = "Services";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Object> {
        convert::service(self, names).map(|it| Object::Service(Arc::new(it)))
    }

    fn key(name: NamespacedName) -> ObjectKey {
        ObjectKey::Service(name)
    }
}

impl Kind for api::EndpointSlice {
    const NAME: &'static str = "EndpointSlice";
    const VERSIONS: &'static [&'static str] = &["discovery.k8s.io/v1"];
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";
    const OBJECTS: &'static str = "EndpointSlices";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Object> {
        convert::endpoint_slice(self, names).map(|it| Object::EndpointSlice(Arc::new(it)))
    }

    fn key(name: NamespacedName) -> ObjectKey {
        ObjectKey::EndpointSlice(name)
    }
}

impl Kind for api::Node {
    const NAME: &'static str = "Node";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/nodes";
    /// Only one Node is followed.
    const OBJECTS: &'static str = "Node";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Object> {
        convert::node(self, names).map(|it| Object::Node(Arc::new(it)))
    }

    fn key(name: NamespacedName) -> ObjectKey {
        ObjectKey::Node(name.name)
    }
}

impl Kind for api::ServiceCidr {
    const NAME: &'static str = "ServiceCIDR";
    const VERSIONS: &'static [&'static str] =
        &["networking.k8s.io/v1", "networking.k8s.io/v1beta1"];
    const PATH: &'static str = "/apis/networking.k8s.io/v1/servicecidrs";
    const OBJECTS: &'static str = "ServiceCIDRs";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Object> {
        convert::service_cidr(self, names).map(|it| Object::ServiceCidr(Arc::new(it)))
    }

    fn key(name: NamespacedName) -> ObjectKey {
        ObjectKey::ServiceCidr(name.name)
    }
}

impl Kind for api::Namespace {
    const NAME: &'static str = "Namespace";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/namespaces";
    const OBJECTS: &'static str = "Namespaces";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Object> {
        convert::namespace(self, names).map(|it| Object::Namespace(Arc::new(it)))
    }

    fn key(name: NamespacedName) -> ObjectKey {
        ObjectKey::Namespace(name.name)
    }
}

impl Kind for api::Pod {
    const NAME: &'static str = "Pod";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/pods";
    const OBJECTS: &'static str = "Pods";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Object> {
        convert::pod(self, names).map(|it| Object::Pod(Arc::new(it)))
    }

    fn key(name: NamespacedName) -> ObjectKey {
        ObjectKey::Pod(name)
    }
}
