//! The document of version 2 as JSON: the types of all kinds, without paths.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::resource::{KINDS, Registry};
use crate::schema::components;

/// The definitions of Kubernetes' own types, without the braces around them.
static BUILT_IN: LazyLock<String> = LazyLock::new(|| {
    let mut all = components(KINDS.iter().map(|it| &it.schema));
    // Version 2 has no `oneOf`.
    let text = json!({"type": "string"});
    let either = json!({"type": "string", "format": "int-or-string"});
    for (name, form) in [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", text),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", either),
    ] {
        all.insert(name.to_owned(), form);
    }
    inner(all)
});

/// The whole document.
pub(super) fn document(registry: &Registry) -> String {
    let custom = registry.iter().filter_map(|it| {
        let published = it.published.as_ref()?;
        let group: Vec<_> = it.group.rsplit('.').collect();
        let name = format!("{}.{}.{}", group.join("."), it.version, it.kind);
        Some((name, root(&published.schema)))
    });
    let custom: Map<_, _> = custom.collect();
    let comma = if custom.is_empty() { "" } else { "," };
    let head = r#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.36.0"},"paths":{},"definitions":{"#;
    format!("{head}{}{comma}{}}}}}", *BUILT_IN, inner(custom))
}

fn inner(definitions: Map<String, Value>) -> String {
    let text = Value::Object(definitions).to_string();
    let text = text.replace("#/components/schemas/", "#/definitions/");
    text[1..text.len() - 1].to_owned()
}

/// The schema of a CustomResourceDefinition in version 2 (`buildKubeNative` in
/// `apiextensions-apiserver/pkg/controller/openapi/builder/builder.go`).
fn root(published: &Value) -> Value {
    let kinds = &published["x-kubernetes-group-version-kind"];
    if published["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({"type": "object", "x-kubernetes-group-version-kind": kinds});
    }
    let mut schema = published.clone();
    simplify(&mut schema);
    // The definition adds a reference, which is no part of it.
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = published["properties"]["metadata"]["allOf"][0].clone();
    }
    schema
}

/// Leaves out what version 2 lacks, and what its readers cannot read (`ToStructuralOpenAPIV2` in
/// `apiextensions-apiserver/pkg/controller/openapi/v2/conversion.go`).
fn simplify(schema: &mut Value) {
    let is = |schema: &Value, name: &str| schema[name] == true;
    let is_open = is(schema, "x-kubernetes-preserve-unknown-fields");
    let is_nullable = is(schema, "nullable");
    let optional: Vec<String> = {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let nullable = fields.filter(|(_, it)| is(it, "nullable"));
        nullable.map(|(name, _)| name.clone()).collect()
    };
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    let mut gone = vec!["allOf", "anyOf", "oneOf", "not", "nullable"];
    if is_nullable || is_open {
        gone.extend(["items", "properties"]);
    }
    if is_nullable {
        gone.push("type");
    }
    fields.retain(|name, _| !gone.contains(&name.as_str()));
    let sort = fields.get("type").and_then(Value::as_str);
    let is_unreadable = match sort {
        Some("array") => !fields.contains_key("items"),
        Some("object") => is_open,
        _ => false,
    };
    if is_unreadable {
        fields.remove("type");
    }
    if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|it| !optional.iter().any(|name| *it == **name));
        if required.is_empty() {
            fields.remove("required");
        }
    }
    let below = fields.get_mut("properties").and_then(Value::as_object_mut);
    below
        .into_iter()
        .flat_map(Map::values_mut)
        .for_each(simplify);
    for name in ["items", "additionalProperties"] {
        fields.get_mut(name).into_iter().for_each(simplify);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_has_what_its_readers_can_read() {
        for (given, expected) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}, "required": ["a"]}),
                json!({"type": "object", "properties": {"a": {}}}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"type": "array", "items": {"type": "integer", "not": {"minimum": 3}, "minimum": 1}}),
                json!({"type": "array", "items": {"type": "integer", "minimum": 1}}),
            ),
            (json!({"type": "array"}), json!({})),
        ] {
            let mut schema = given.clone();
            simplify(&mut schema);
            assert_eq!(schema, expected, "{given}");
        }
    }
}
