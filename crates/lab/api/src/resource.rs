//! The kinds of objects that the server serves.

mod autoscaling;
mod defaults;
mod events;
mod kinds;
mod registry;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Method;
use serde_json::Value;
use sluice_controller::Format;

use crate::answer::Answer;
use crate::http::Call;
use crate::object::Key;
use crate::schema::Schema;
use crate::status::Status;
use crate::table::Table;

pub use kinds::KINDS;
pub(crate) use kinds::{BINDING, SCALE};
pub use registry::Registry;

/// One version of a collection of the Kubernetes API.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    /// The name in paths: `endpointslices`.
    pub plural: String,
    /// The name in objects: `EndpointSlice`.
    pub kind: String,
    /// The kind of its lists: `EndpointSliceList`.
    pub list_kind: String,
    pub namespaced: bool,
    /// Short names that kubectl accepts: `svc`.
    pub short_names: Vec<String>,
    /// Names of several kinds that kubectl accepts: `all`.
    pub categories: Vec<String>,
    /// Whether `status` is a subresource.
    pub status: Subresource,
    /// The subresource `scale`, if it is served.
    pub scale: Option<Scale>,
    /// The other subresources.
    pub(crate) parts: &'static [Part],
    /// The fields that a `fieldSelector` may name, beside `metadata.name` and `metadata.namespace`.
    pub fields: Vec<String>,
    /// The rule for `metadata.name`.
    pub name: NameRule,
    /// The group in whose collection the objects are, if it is another one.
    pub(crate) home: Option<&'static str>,
    /// How objects of this version differ from stored ones. `None`: only in `apiVersion`, and what the schema of a
    /// CustomResourceDefinition's version has in other fields.
    pub(crate) conversion: Option<Conversion>,
    /// Completes a new object: its first status. Clients cannot set a status that is a subresource.
    pub(crate) begin: fn(&mut Value),
    /// Sets the defaults of a kind of Kubernetes' own that depend on other fields (`SetDefaults_*` in `pkg/apis`), and
    /// changes nothing in an object that has them.
    pub(crate) defaults: Option<fn(&mut Value)>,
    /// Completes and validates an object before the cluster's admission: the kinds that are served, the stored object,
    /// and the new one.
    pub(crate) admit: Option<Admit>,
    /// The warnings for a client that writes an object (header `Warning`).
    pub(crate) warnings: Option<fn(&Self, &Value) -> Vec<String>>,
    /// The warning for every request for objects of this version.
    pub(crate) deprecated: Option<String>,
    /// Whether a PUT creates an object that does not exist (`AllowCreateOnUpdate` of the kind's strategy).
    pub(crate) creates_by_put: bool,
    /// Whether an update must name the version that it replaces (`AllowUnconditionalUpdate` of the kind's strategy).
    pub(crate) versioned: bool,
    /// Whether a client can delete several objects at once.
    pub(crate) deletes_collections: bool,
    /// Whether a deletion is answered with the object, and not with a Status (`ReturnDeletedObject` in `pkg/registry`).
    pub(crate) shows_deleted: bool,
    /// Whether clients see this version. A stored one may be hidden.
    pub(crate) served: bool,
    /// Whether the kind is that of a CustomResourceDefinition: no controller of the lab knows it.
    pub(crate) custom: bool,
    /// What answers in place of the store, for objects that are never kept.
    pub(crate) computed: Option<Computed>,
    /// The schema that a CustomResourceDefinition publishes.
    pub(crate) published: Option<Arc<Published>>,
    /// The columns of kubectl.
    pub(crate) table: Table,
    /// The type of the objects.
    pub(crate) schema: Schema,
}

/// The verbs of kinds that are stored. The last one is missing where objects are deleted one by one.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "get",
    "list",
    "patch",
    "update",
    "watch",
    "deletecollection",
];

pub(crate) type Admit = fn(&Resource, &Registry, Option<&Value>, &mut Value) -> Result<(), Status>;

/// The schema of a kind as OpenAPI documents have it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) schema: Value,
    /// Equal for equal schemas.
    pub(crate) hash: u64,
}

impl Published {
    pub(crate) fn new(schema: Value) -> Self {
        let mut hash = DefaultHasher::new();
        schema.to_string().hash(&mut hash);
        Self {
            hash: hash.finish(),
            schema,
        }
    }
}

/// Whether a subresource is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    Served,
    Absent,
}

/// Where an object has its number of replicas, as JSON pointers.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The wanted number: `/spec/replicas`.
    pub(crate) replicas: String,
    /// The present number.
    pub(crate) current: String,
    /// The selector of the pods: a text, a `LabelSelector`, or a map of labels; empty: there is none.
    pub(crate) selector: String,
}

/// A subresource that is neither `status` nor `scale`.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its name in paths: `eviction`.
    pub(crate) name: &'static str,
    /// `GROUP/VERSION` of what it takes and answers; empty: those of the object.
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) verbs: &'static [&'static str],
    /// Answers a request for the part of the object with this name.
    pub(crate) answer: fn(&Call<'_>, &Method, &str) -> Result<Answer, Status>,
}

/// Objects that are made for each request: measurements, reviews.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computed {
    pub(crate) verbs: &'static [&'static str],
    /// Answers a request for the collection, or for the object with this name.
    pub(crate) answer: fn(&Call<'_>, &Method, Option<&str>) -> Result<Answer, Status>,
}

/// Changes an object from one version to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    /// To the version in which the collection is stored.
    pub(crate) store: fn(&mut Value),
    /// From the version in which the collection is stored.
    pub(crate) show: fn(&mut Value),
}

/// What a name may look like (RFC 1123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower case letters, digits and `-`, at most 63 bytes.
    Label,
    /// Labels joined by dots, at most 253 bytes.
    Subdomain,
    /// An IP address in its shortest form.
    Address,
    /// Anything that can be one part of a path (`path.ValidatePathSegmentName`).
    Path,
}

impl NameRule {
    /// What is wrong with a name.
    pub(crate) fn problems(self, name: &str) -> Vec<String> {
        match self {
            Self::Label => Format::Label.problems(name),
            Self::Subdomain => Format::Subdomain.problems(name),
            Self::Path => Format::Path.problems(name),
            Self::Address => match (Format::Ip.problems(name), name.parse::<IpAddr>()) {
                (problems, Ok(it)) if problems.is_empty() && it.to_string() != name => {
                    vec![format!("must be in canonical form (\"{it}\")")]
                }
                (problems, _) => problems,
            },
        }
    }
}

impl Resource {
    /// Whether objects are of this group and kind.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        (&*self.group, &*self.kind) == (group, kind)
    }

    /// What clients can do with the objects.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match self.computed {
            Some(computed) => computed.verbs,
            None if self.deletes_collections => &VERBS,
            None => &VERBS[..7],
        }
    }

    /// Whether both are versions of one collection.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.home(), &self.plural) == (other.home(), &other.plural)
    }

    fn home(&self) -> &str {
        self.home.unwrap_or(&self.group)
    }

    /// The name of the collection that has the objects.
    pub(crate) fn collection(&self) -> String {
        qualified(&self.plural, self.home())
    }

    /// The key of an object in the storage of kube-apiserver, which some refusals show
    /// (`pkg/kubeapiserver/default_storage_factory_builder.go`).
    pub(crate) fn storage_key(&self, key: &Key) -> String {
        let prefix = match (&*self.group, &*self.plural) {
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "nodes") => "minions".to_owned(),
            ("", "services") => "services/specs".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => {
                format!("{}/{plural}", self.group)
            }
            (group, plural) if self.custom => format!("{group}/{plural}"),
            (_, plural) => plural.to_owned(),
        };
        let place = match &*key.namespace {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        format!("/registry/{prefix}/{place}{}", key.name)
    }

    /// The `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// A stored object in this version.
    pub(crate) fn show(&self, object: Arc<Value>) -> Arc<Value> {
        let version = self.api_version();
        if object["apiVersion"] == *version {
            return object;
        }
        let mut object = Arc::unwrap_or_clone(object);
        object["apiVersion"] = version.into();
        if let Some(conversion) = self.conversion {
            (conversion.show)(&mut object);
        }
        if self.custom {
            // Each version of a definition has its own fields and defaults. It refuses no type here.
            let _ = self.schema.decode(&mut object);
            self.schema.complete(&mut object);
        }
        Arc::new(object)
    }

    /// The name in error messages, which identifies the collection: `endpointslices.discovery.k8s.io`.
    pub fn full_name(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// Gives the fields of an object in its one form their defaults.
    pub(crate) fn complete(&self, object: &mut Value) {
        self.schema.complete(object);
        if let Some(defaults) = self.defaults {
            defaults(object);
            // Types write empty lists, which the one form has not; nothing in it can have the wrong type.
            let _ = self.schema.decode(object);
        }
    }

    /// The fields of `metadata` that a write of the status may change (`PrepareForUpdate` of the kinds' status
    /// strategies, and of `customresource/status_strategy.go`).
    pub(crate) fn metadata_of_status(&self) -> &'static [&'static str] {
        if self.custom {
            &["managedFields"]
        } else {
            &["managedFields", "labels", "annotations"]
        }
    }

    /// The JSON of an object up to its first own field.
    pub fn opening(&self) -> String {
        self.opening_of(&self.kind)
    }

    /// The JSON of a list of objects up to its metadata.
    pub fn opening_of_list(&self) -> String {
        self.opening_of(&self.list_kind)
    }

    fn opening_of(&self, kind: &str) -> String {
        let version = self.api_version();
        format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#)
    }
}

fn qualified(plural: &str, group: &str) -> String {
    match group {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    }
}
