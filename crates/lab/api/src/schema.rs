//! The types of the API: which fields an object has, and what each may be.
//!
//! Kubernetes' own types are read from `schema/kubernetes.txt` ([`of_kind`]); those of a
//! CustomResourceDefinition come from its `openAPIV3Schema` ([`Schema::of_openapi`]). All that the
//! server does with fields stands on them: it decodes ([`decode`](Schema::decode)), completes
//! ([`complete`](Schema::complete)), validates ([`check`](Schema::check)) and documents objects, merges
//! patches and applied configurations, and reads protobuf.

mod check;
mod complete;
mod crd;
mod decode;
mod document;
mod formats;
mod pattern;
mod relations;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use serde_json::Value;
use sluice_controller::Format;

pub(crate) use document::components;
use pattern::Pattern;
pub(crate) use text::{of_kind, of_type};

/// What a value may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub(crate) shape: Shape,
    /// How server-side apply merges a list.
    pub(crate) list: ListType,
    /// Whether a map or an object has one owner as a whole.
    pub(crate) atomic: bool,
    pub(crate) patch: Patch,
    /// The value of a missing field.
    pub(crate) default: Option<Value>,
    /// The Go type of a field that its shape does not tell: `v1.Protocol`.
    pub(crate) go: Option<Box<str>>,
    pub(crate) rules: Option<Box<Rules>>,
}

/// The form of a value in JSON.
#[derive(Clone, Debug, Default)]
pub(crate) enum Shape {
    Text,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64.
    Bytes,
    Quantity,
    /// RFC 3339 in whole seconds.
    Time,
    /// RFC 3339 in microseconds.
    MicroTime,
    IntOrString,
    /// Any JSON, which stays as it is.
    #[default]
    Any,
    /// A type of Kubernetes.
    Named(text::Named),
    /// An object of a CustomResourceDefinition.
    Object(Arc<Type>),
    List(Arc<Schema>),
    Map(Arc<Schema>),
}

/// An object with named fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Type {
    /// `core.v1.Container`; empty for an object of a CustomResourceDefinition.
    pub(crate) name: Box<str>,
    /// Sorted by name.
    pub(crate) fields: Vec<Field>,
    pub(crate) atomic: bool,
    /// The kinds that have this type: `apps/v1/Deployment`.
    pub(crate) kinds: Vec<Box<str>>,
    /// Whether objects have `metadata.generation`.
    pub(crate) counts_generations: bool,
    /// Whether fields that are not listed stay (`x-kubernetes-preserve-unknown-fields`).
    pub(crate) open: bool,
    /// Rules of several fields.
    pub(crate) relations: Vec<relations::Relation>,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    /// The number in protobuf, after those of the messages that hold the field and that JSON does
    /// not have. Empty when protobuf has no such field.
    pub(crate) numbers: Vec<u32>,
    pub(crate) schema: Schema,
    pub(crate) form: Form,
    pub(crate) required: bool,
}

/// When a field is left out of the JSON of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it was given: objects of a CustomResourceDefinition.
    #[default]
    AsGiven,
    /// A pointer in Go: when it is absent. A zero stays.
    Pointer,
    /// A pointer in Go that is `null` when it is absent.
    Null,
    /// A value in Go that is always there.
    Always,
    /// `omitempty` or `omitzero`: a zero is left out.
    Omitted,
    /// Behind a feature gate that is off: what a client gives is dropped (`dropDisabledFields` of Kubernetes' strategies).
    Gated,
}

/// How server-side apply merges a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// The list has one owner.
    #[default]
    Atomic,
    /// A list of scalars, each of which has owners.
    Set,
    /// A list of objects; these fields are the key of one.
    Keyed(Vec<Box<str>>),
}

/// How a strategic merge patch changes a list or an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    /// A list of objects: merged by this field.
    pub(crate) key: Option<Box<str>>,
    /// A list of scalars: merged as a set.
    pub(crate) merges: bool,
    /// An object: replaced as a whole.
    pub(crate) replaces: bool,
    /// An object or the items of a list: fields that the patch does not name go.
    pub(crate) retains_keys: bool,
}

/// Rules for a value beside its shape: the validations of OpenAPI that kube-apiserver applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The allowed values; empty when any is.
    pub(crate) allowed: Vec<Value>,
    pub(crate) nullable: bool,
    pub(crate) format: Option<Format>,
    /// Whether a number out of range has the words of Kubernetes' own validation.
    pub(crate) is_go: bool,
    /// Whether an empty text is checked, too, and a missing one as an empty one.
    pub(crate) always: bool,
    /// Whether the value never changes.
    pub(crate) immutable: bool,
    /// Whether the value never changes once the field `immutable` of the object is true.
    pub(crate) sealed: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    /// The `format` of a text in a CustomResourceDefinition.
    pub(crate) text: Option<formats::TextFormat>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Schema>,
}

impl Schema {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            ..Self::default()
        }
    }

    /// The type of an object; `None` for other shapes.
    pub(crate) fn object(&self) -> Option<&Type> {
        match &self.shape {
            Shape::Named(name) => Some(name.get()),
            Shape::Object(own) => Some(own),
            _ => None,
        }
    }

    /// The schema of one field of an object or of one entry of a map.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match &self.shape {
            Shape::Map(values) => Some(values),
            _ => Some(&self.object()?.field(name)?.schema),
        }
    }

    /// The schema of the items of a list.
    pub(crate) fn items(&self) -> Option<&Self> {
        match &self.shape {
            Shape::List(items) => Some(items),
            _ => None,
        }
    }

    /// Whether `null` is a value of its own.
    fn is_nullable(&self) -> bool {
        self.rules.as_ref().is_some_and(|it| it.nullable)
    }

    /// Whether an entry of a map that is `null` stays until defaults are set (`PruneNonNullableNullsWithoutDefaults` of
    /// apiextensions-apiserver).
    fn keeps_null(&self) -> bool {
        self.is_nullable() || self.default.is_some() || matches!(self.shape, Shape::Any)
    }

    /// Whether a map or object has one owner as a whole.
    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic || self.object().is_some_and(|it| it.atomic)
    }
}

impl Type {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let place = self.fields.binary_search_by(|it| (*it.name).cmp(name));
        Some(&self.fields[place.ok()?])
    }
}
