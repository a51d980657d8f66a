//! Schemas of an OpenAPI document of version 3: what `kubectl explain`, `diff` and `apply` read.
//! Descriptions are left out: they are texts of the Kubernetes authors.

use serde_json::{Map, Value, json};

use super::text::{Named, full_name};
use super::{Field, ListType, Patch, Schema, Shape, Type};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schemas of `kinds` and of all that they are made of, by their names.
pub(crate) fn components<'a>(kinds: impl IntoIterator<Item = &'a Schema>) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, schema) in special() {
        found.insert(name, schema);
    }
    let mut waiting: Vec<&'a Type> = kinds.into_iter().filter_map(Schema::object).collect();
    while let Some(own) = waiting.pop() {
        let name = full_name(&own.name);
        if found.contains_key(&name) {
            continue;
        }
        if !own.name.is_empty() {
            found.insert(name, object(own));
        }
        let used = own.fields.iter().filter_map(|it| named(&it.schema));
        waiting.extend(used.map(|it| -> &Type { it.get() }));
    }
    found
}

/// Types with a form of their own in JSON.
fn special() -> [(String, Value); 5] {
    let resource = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    let number = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    let time = json!({"type": "string", "format": "date-time"});
    [
        (
            resource.to_owned(),
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        (
            number.to_owned(),
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
        ),
        (format!("{META}.Time"), time.clone()),
        (format!("{META}.MicroTime"), time),
        (
            "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
            json!({"type": "object"}),
        ),
    ]
}

/// The type that a value, its items or its entries have.
fn named(schema: &Schema) -> Option<Named> {
    match &schema.shape {
        Shape::Named(name) => Some(*name),
        Shape::List(inner) | Shape::Map(inner) => named(inner),
        _ => None,
    }
}

fn object(own: &Type) -> Value {
    let properties = own.fields.iter().map(|it| (it.name.to_string(), field(it)));
    let properties: Map<_, _> = properties.collect();
    let mut made = json!({"type": "object", "properties": properties});
    let required = own.fields.iter().filter(|it| it.required);
    let required: Vec<_> = required.map(|it| &*it.name).collect();
    if !required.is_empty() {
        made["required"] = json!(required);
    }
    if own.atomic {
        made["x-kubernetes-map-type"] = "atomic".into();
    }
    let kinds = own.kinds.iter().map(|it| {
        let (version, kind) = it.rsplit_once('/').unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        json!({"group": group, "version": version, "kind": kind})
    });
    let kinds: Vec<_> = kinds.collect();
    if !kinds.is_empty() {
        made["x-kubernetes-group-version-kind"] = kinds.into();
    }
    made
}

fn field(field: &Field) -> Value {
    let schema = &field.schema;
    let mut made = value(schema);
    let mut set = |name: &str, value: Value| made[name] = value;
    if let Some(default) = &schema.default {
        set("default", default.clone());
    }
    let rules = schema.rules.as_ref().filter(|it| !it.allowed.is_empty());
    if let Some(rules) = rules {
        set("enum", rules.allowed.clone().into());
    }
    if schema.atomic {
        set("x-kubernetes-map-type", "atomic".into());
    }
    match &schema.list {
        ListType::Keyed(keys) => {
            set("x-kubernetes-list-type", "map".into());
            set("x-kubernetes-list-map-keys", json!(keys));
        }
        ListType::Set => set("x-kubernetes-list-type", "set".into()),
        ListType::Atomic if matches!(schema.shape, Shape::List(_)) => {
            set("x-kubernetes-list-type", "atomic".into());
        }
        ListType::Atomic => {}
    }
    let strategy = strategy(&schema.patch);
    if !strategy.is_empty() {
        set("x-kubernetes-patch-strategy", strategy.into());
    }
    if let Some(key) = &schema.patch.key {
        set("x-kubernetes-patch-merge-key", json!(key));
    }
    made
}

fn strategy(patch: &Patch) -> String {
    let words = [
        (patch.merges || patch.key.is_some(), "merge"),
        (patch.retains_keys, "retainKeys"),
        (patch.replaces, "replace"),
    ];
    let words = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
    words.collect::<Vec<_>>().join(",")
}

fn value(schema: &Schema) -> Value {
    let reference =
        |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]});
    match &schema.shape {
        Shape::Text => json!({"type": "string"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Double => json!({"type": "number", "format": "double"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Quantity => reference("io.k8s.apimachinery.pkg.api.resource.Quantity"),
        Shape::Time => reference(&format!("{META}.Time")),
        Shape::MicroTime => reference(&format!("{META}.MicroTime")),
        Shape::IntOrString => reference("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
        Shape::Any => reference("io.k8s.apimachinery.pkg.runtime.RawExtension"),
        Shape::Named(name) => reference(&full_name(&name.get().name)),
        Shape::List(items) => json!({"type": "array", "items": value(items)}),
        Shape::Map(values) => json!({"type": "object", "additionalProperties": value(values)}),
        Shape::Object(own) => object(own),
    }
}
