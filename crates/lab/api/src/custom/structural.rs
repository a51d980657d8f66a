//! Whether a schema is structural: it says the type of each field, and what it requires of values says nothing about
//! types (`apiextensions-apiserver/pkg/apiserver/schema/validation.go`).

use serde_json::Value;

use super::items;
use crate::status::Cause;

/// Parts of JSON Schema that definitions cannot have.
const UNSUPPORTED: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// Keywords that a schema inside of `allOf` and the like must not have, and why.
const OUTER: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
];

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The place of a schema, which decides which keywords it must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Item,
    Field,
}

/// What is wrong with the schema of a version at `path`.
pub(super) fn causes(schema: &Value, path: &str) -> Vec<Cause> {
    let mut checker = Checker(Vec::new());
    checker.schema(schema, Place::Root, path);
    checker
        .0
        .sort_by_key(|it| format!("{}: {}", it.field, it.message));
    checker.0
}

/// The places with `x-kubernetes-validations`.
pub(super) fn expressions(schema: &Value, path: &str, found: &mut Vec<String>) {
    if !schema["x-kubernetes-validations"].is_null() {
        found.push(format!("{path}.x-kubernetes-validations"));
    }
    for (below, path) in children(schema, path) {
        expressions(below, &path, found);
    }
}

/// The schemas of fields, items and entries.
pub(super) fn children<'a>(schema: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, it)| (it, format!("{path}.properties[{name}]")));
    let others = ["items", "additionalProperties"].map(|it| (&schema[it], format!("{path}.{it}")));
    let others = others.into_iter().filter(|(it, _)| it.is_object());
    fields.chain(others).collect()
}

struct Checker(Vec<Cause>);

impl Checker {
    fn push(&mut self, field: String, message: impl Into<String>) {
        self.0.push(Cause::new(field, message));
    }

    fn schema(&mut self, schema: &Value, place: Place, path: &str) {
        let is = |name: &str| schema[name] == true;
        let sort = schema["type"].as_str().unwrap_or_default();
        self.unsupported(schema, path);
        self.shape(schema, place, path);
        self.list(schema, sort, path);
        let is_any = is("x-kubernetes-int-or-string") || is("x-kubernetes-preserve-unknown-fields");
        let is_embedded = is("x-kubernetes-embedded-resource");
        let field = format!("{path}.type");
        match (sort, place) {
            ("", _) if is_embedded => {
                let why = "must be object if x-kubernetes-embedded-resource is true";
                self.push(field, format!("Required value: {why}"));
            }
            ("", _) if is_any => {}
            ("", Place::Root) => self.push(field, "Required value: must not be empty at the root"),
            ("", Place::Item) => self.push(
                field,
                "Required value: must not be empty for specified array items",
            ),
            ("", Place::Field) => self.push(
                field,
                "Required value: must not be empty for specified object fields",
            ),
            (sort, _) if !TYPES.contains(&sort) => {
                let known = TYPES.map(|it| format!("{it:?}")).join(", ");
                self.push(
                    field,
                    format!("Unsupported value: {sort:?}: supported values: {known}"),
                );
            }
            (sort, Place::Root) if sort != "object" => {
                self.push(
                    field,
                    format!("Invalid value: {sort:?}: must be object at the root"),
                );
            }
            _ => {}
        }
        if place == Place::Root {
            self.metadata(&schema["properties"]["metadata"], path);
        }
        for (below, path) in children(schema, path) {
            let place = if path.ends_with(".items") {
                Place::Item
            } else {
                Place::Field
            };
            self.schema(below, place, &path);
        }
        self.values(schema, path, is("x-kubernetes-int-or-string"));
    }

    fn unsupported(&mut self, schema: &Value, path: &str) {
        for name in UNSUPPORTED.iter().filter(|it| !schema[**it].is_null()) {
            self.push(
                format!("{path}.{name}"),
                format!("Forbidden: {name} is not supported"),
            );
        }
        if schema["uniqueItems"] == true {
            let why = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.push(format!("{path}.uniqueItems"), why);
        }
    }

    /// Fields and entries exclude each other, lists have items.
    fn shape(&mut self, schema: &Value, place: Place, path: &str) {
        let has_entries = !schema["additionalProperties"].is_null();
        let has_fields = schema["properties"]
            .as_object()
            .is_some_and(|it| !it.is_empty());
        let field = format!("{path}.additionalProperties");
        if has_entries && place == Place::Root {
            self.push(field.clone(), "Forbidden: must not be used at the root");
        }
        if has_entries && has_fields {
            self.push(
                field,
                "Forbidden: additionalProperties and properties are mutual exclusive",
            );
        }
        if schema["type"] == "array" && !schema["items"].is_object() {
            self.push(format!("{path}.items"), "Required value: must be specified");
        }
        if schema["x-kubernetes-embedded-resource"] == true
            && !has_fields
            && schema["x-kubernetes-preserve-unknown-fields"] != true
        {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
            self.push(
                format!("{path}.properties"),
                format!("Required value: {why}"),
            );
        }
        match schema["x-kubernetes-map-type"].as_str() {
            None | Some("") | Some("atomic" | "granular") => {}
            Some(other) => {
                let known = "supported values: \"atomic\", \"granular\"";
                self.push(
                    format!("{path}.x-kubernetes-map-type"),
                    format!("Unsupported value: {other:?}: {known}"),
                );
            }
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            self.push(
                format!("{path}.x-kubernetes-preserve-unknown-fields"),
                "Invalid value: false: must be true or undefined",
            );
        }
    }

    /// The keys of a list, and what its items must be.
    fn list(&mut self, schema: &Value, sort: &str, path: &str) {
        let list = schema["x-kubernetes-list-type"].as_str();
        let keys: Vec<_> = items(&schema["x-kubernetes-list-map-keys"]).collect();
        let field = format!("{path}.x-kubernetes-list-type");
        match list {
            Some("atomic" | "set" | "map") | None => {}
            Some(other) => {
                let known = "supported values: \"atomic\", \"set\", \"map\"";
                self.push(
                    field.clone(),
                    format!("Unsupported value: {other:?}: {known}"),
                );
            }
        }
        if list.is_some() && sort != "array" {
            let why = "must be array if x-kubernetes-list-type is specified";
            self.push(
                format!("{path}.type"),
                format!("Invalid value: {sort:?}: {why}"),
            );
        }
        if !keys.is_empty() && list != Some("map") {
            let why = "Required value: must be map if x-kubernetes-list-map-keys is non-empty";
            self.push(field, why);
        }
        let item = &schema["items"];
        if list == Some("set")
            && item["type"] == "object"
            && item["x-kubernetes-map-type"] != "atomic"
        {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            self.push(
                format!("{path}.items.x-kubernetes-map-type"),
                format!("Invalid value: null: {why}"),
            );
        }
        if list != Some("map") {
            return;
        }
        if keys.is_empty() {
            let why = "Required value: must not be empty if x-kubernetes-list-type is map";
            self.push(format!("{path}.x-kubernetes-list-map-keys"), why);
        }
        if item["type"] != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.push(
                format!("{path}.items.type"),
                format!("Invalid value: {}: {why}", item["type"]),
            );
        }
        for (at, key) in keys.iter().enumerate() {
            let name = key.as_str().unwrap_or_default();
            if item["properties"][name].is_null() {
                let why = "entries must all be names of item properties";
                self.push(
                    format!("{path}.x-kubernetes-list-map-keys[{at}]"),
                    format!("Invalid value: {key}: {why}"),
                );
            }
        }
    }

    /// A schema can only restrict names in the metadata.
    fn metadata(&mut self, metadata: &Value, path: &str) {
        let Some(given) = metadata.as_object() else {
            return;
        };
        let is_name = |it: &String| ["name", "generateName"].contains(&it.as_str());
        let others = given.iter().any(|(name, value)| match name.as_str() {
            "type" | "description" => false,
            "properties" => value.as_object().is_none_or(|it| !it.keys().all(is_name)),
            _ => true,
        });
        if others {
            let why = "Forbidden: must not specify anything other than name and generateName, but metadata is \
                       implicitly specified";
            self.push(format!("{path}.properties[metadata]"), why);
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`. An int-or-string may repeat that it is one.
    fn values(&mut self, schema: &Value, path: &str, is_either: bool) {
        for name in ["allOf", "anyOf", "oneOf"] {
            for (at, nested) in items(&schema[name]).enumerate() {
                let only_type = nested.as_object().is_some_and(|it| it.len() == 1)
                    && (nested["type"] == "integer" || nested["type"] == "string");
                if !(is_either && only_type && name == "anyOf") {
                    self.nested(nested, &format!("{path}.{name}[{at}]"), is_either);
                }
            }
        }
        if schema["not"].is_object() {
            self.nested(&schema["not"], &format!("{path}.not"), is_either);
        }
    }

    fn nested(&mut self, schema: &Value, path: &str, is_either: bool) {
        for (name, why) in OUTER {
            let value = &schema[name];
            if !value.is_null() && *value != false {
                self.push(format!("{path}.{name}"), format!("Forbidden: {why}"));
            }
        }
        self.unsupported(schema, path);
        if !schema["properties"]["metadata"].is_null() {
            let why = "Forbidden: must not be specified in a nested context";
            self.push(format!("{path}.properties[metadata]"), why);
        }
        for (below, path) in children(schema, path) {
            if !path.ends_with(".additionalProperties") {
                self.nested(below, &path, false);
            }
        }
        self.values(schema, path, is_either);
    }
}
