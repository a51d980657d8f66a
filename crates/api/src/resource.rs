//! What the server knows about a kind of objects.

mod kinds;

use serde_json::Value;

pub use kinds::KINDS;

/// One collection of the Kubernetes API.
#[derive(Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// The name in paths: `endpointslices`.
    pub plural: &'static str,
    /// The name in objects: `EndpointSlice`.
    pub kind: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Names that kubectl takes as well: `svc`.
    pub short_names: &'static [&'static str],
    /// Groups of kinds that kubectl knows by one name: `all`.
    pub categories: &'static [&'static str],
    /// Whether `status` is written apart from the rest.
    pub status: Subresource,
    /// Whether `scale` reads and writes the number of replicas.
    pub scale: Subresource,
    /// Fields that `fieldSelector` knows beside `metadata.name` and `metadata.namespace`.
    pub fields: &'static [&'static str],
    /// What an empty object of this kind carries beside `metadata`: bookmarks are such objects.
    pub blank: &'static str,
    /// Rule of `metadata.name`.
    pub name: NameRule,
    /// The object as its Kubernetes type has it: without unknown fields.
    pub(crate) typed: fn(&Value) -> Result<Value, WrongType>,
}

/// Whether a kind has a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// It has.
    Served,
    /// It has not.
    Absent,
}

/// What a name may look like (RFC 1123; for Services RFC 1035).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower case letters, digits and `-`, at most 63 bytes.
    Label,
    /// The same, and the first character is a letter.
    Label1035,
    /// Labels joined by dots, at most 253 bytes.
    Subdomain,
    /// An IP address in its shortest form.
    Address,
}

/// A field of the wrong type.
#[derive(Debug)]
pub(crate) struct WrongType {
    /// `spec.ports[0].port`.
    pub(crate) field: String,
    pub(crate) why: String,
}

impl Resource {
    /// Identity among all collections.
    pub fn id(&self) -> (&'static str, &'static str) {
        (self.group, self.plural)
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As error messages name it: `endpointslices.discovery.k8s.io`.
    pub fn full_name(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The start of an object's JSON, up to its first own field; `suffix` follows the kind.
    pub fn opening(&self, suffix: &str) -> String {
        format!(
            r#"{{"kind":"{}{suffix}","apiVersion":"{}","#,
            self.kind,
            self.api_version()
        )
    }
}
