//! The kinds of objects that the server serves.

mod kinds;
mod registry;

use serde_json::Value;
use sluice_controller::FieldError;

pub use kinds::KINDS;
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
    pub namespaced: bool,
    /// Short names that kubectl accepts: `svc`.
    pub short_names: Vec<String>,
    /// Names of several kinds that kubectl accepts: `all`.
    pub categories: Vec<String>,
    /// Whether `status` is a subresource.
    pub status: Subresource,
    /// Whether `scale` is a subresource.
    pub scale: Subresource,
    /// The fields that a `fieldSelector` may name, beside `metadata.name` and `metadata.namespace`.
    pub fields: Vec<String>,
    /// The JSON of an empty object of this kind, after `metadata`: a bookmark is such an object.
    pub blank: &'static str,
    /// The rule for `metadata.name`.
    pub name: NameRule,
    /// The object without fields that its Kubernetes type does not have.
    pub(crate) known: fn(&Value) -> Result<Value, FieldError>,
}

/// Whether a subresource is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    Served,
    Absent,
}

/// What a name may look like (RFC 1123; for Services RFC 1035).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower case letters, digits and `-`, at most 63 bytes.
    Label,
    /// As [`Label`](Self::Label), and the first character is a letter.
    Label1035,
    /// Labels joined by dots, at most 253 bytes.
    Subdomain,
    /// An IP address in its shortest form.
    Address,
}

impl Resource {
    /// Whether both are versions of one collection.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.group, &self.plural) == (&other.group, &other.plural)
    }

    /// The `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name in error messages, which identifies the collection: `endpointslices.discovery.k8s.io`.
    pub fn full_name(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The JSON of an object up to its first own field. `suffix` is appended to the kind: `List`.
    pub fn opening(&self, suffix: &str) -> String {
        format!(
            r#"{{"kind":"{}{suffix}","apiVersion":"{}","#,
            self.kind,
            self.api_version()
        )
    }
}
