//! Schemas of CustomResourceDefinitions: `spec.versions[*].schema.openAPIV3Schema`.

use std::sync::Arc;

use serde_json::Value;

use sluice_controller::Format;

use super::formats::TextFormat;
use super::pattern::Pattern;
use super::{Field, Form, ListType, Rules, Schema, Shape, Type, of_type};

/// What an object may have that its schema need not list.
const ROOT: [(&str, &str, Option<Format>); 3] = [
    ("apiVersion", "", Some(Format::ApiVersion)),
    ("kind", "", Some(Format::Kind)),
    ("metadata", "meta.v1.ObjectMeta", None),
];

impl Schema {
    /// The schema of a field, an item or an entry in a CustomResourceDefinition.
    ///
    /// # Errors
    ///
    /// As [`of_openapi`](Self::of_openapi).
    pub(crate) fn of_part(given: &Value) -> Result<Self, String> {
        read(given, "")
    }

    /// The schema of the objects of a CustomResourceDefinition.
    ///
    /// # Errors
    ///
    /// A regular expression that cannot be read.
    pub(crate) fn of_openapi(given: &Value) -> Result<Self, String> {
        let mut schema = read(given, "")?;
        let mut own = schema.object().cloned().unwrap_or_default();
        own.open = given["x-kubernetes-preserve-unknown-fields"] == true;
        add_root(&mut own, false);
        own.counts_generations = true;
        schema.shape = Shape::Object(Arc::new(own));
        Ok(schema)
    }
}

/// Adds the fields that every object has, with their own types. Inside of another object they have rules
/// (`schema/objectmeta/validation.go`), which those of a whole object have elsewhere.
fn add_root(own: &mut Type, is_embedded: bool) {
    for (name, of, format) in ROOT {
        own.fields.retain(|it| *it.name != *name);
        let mut schema = of_type(of).cloned().unwrap_or(Schema::new(Shape::Text));
        let format = format.filter(|_| is_embedded);
        if format.is_some() {
            schema.rules.get_or_insert_default().format = format;
        }
        own.fields.push(Field {
            name: name.into(),
            numbers: Vec::new(),
            schema,
            form: Form::AsGiven,
            required: format.is_some(),
        });
    }
    own.fields.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Reads a schema; `implied` is its type if it does not say one.
fn read(given: &Value, implied: &str) -> Result<Schema, String> {
    let text = |name: &str| given[name].as_str().unwrap_or_default();
    let is = |name: &str| given[name] == true;
    let keys = given["x-kubernetes-list-map-keys"].as_array();
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    Ok(Schema {
        shape: shape(given, implied)?,
        list: match text("x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Keyed(keys.map(Into::into).collect()),
            _ => ListType::Atomic,
        },
        atomic: text("x-kubernetes-map-type") == "atomic",
        default: given.get("default").cloned(),
        rules: rules(given, is("nullable"))?.map(Box::new),
        ..Schema::default()
    })
}

fn shape(given: &Value, implied: &str) -> Result<Shape, String> {
    let is = |name: &str| given[name] == true;
    if is("x-kubernetes-int-or-string") {
        return Ok(Shape::IntOrString);
    }
    let sort = given["type"].as_str().unwrap_or(implied);
    Ok(match sort {
        "string" => Shape::Text,
        "boolean" => Shape::Bool,
        "integer" if given["format"] == "int32" => Shape::Int32,
        "integer" => Shape::Int64,
        "number" => Shape::Double,
        "array" => Shape::List(Arc::new(read(&given["items"], "")?)),
        "object" => object(given)?,
        _ => Shape::Any,
    })
}

fn object(given: &Value) -> Result<Shape, String> {
    let is_open = given["x-kubernetes-preserve-unknown-fields"] == true;
    match &given["additionalProperties"] {
        values @ Value::Object(_) => return Ok(Shape::Map(Arc::new(read(values, "")?))),
        Value::Bool(true) => return Ok(Shape::Map(Arc::new(Schema::default()))),
        _ => {}
    }
    let is_embedded = given["x-kubernetes-embedded-resource"] == true;
    if given["properties"].is_null() && is_open && !is_embedded {
        return Ok(Shape::Map(Arc::new(Schema::default())));
    }
    let mut own = Type {
        open: is_open,
        ..Type::default()
    };
    let required: Vec<_> = given["required"].as_array().into_iter().flatten().collect();
    for (name, value) in given["properties"].as_object().into_iter().flatten() {
        own.fields.push(Field {
            name: name.as_str().into(),
            numbers: Vec::new(),
            schema: read(value, "")?,
            form: Form::AsGiven,
            required: required.iter().any(|it| **it == **name),
        });
    }
    let listed = |name: &Value| own.fields.iter().any(|it| *name == *it.name);
    let others: Vec<_> = required.iter().filter(|it| !listed(it)).collect();
    let others = others.into_iter().filter_map(|it| it.as_str());
    own.fields.extend(
        others
            .map(|name| Field {
                name: name.into(),
                numbers: Vec::new(),
                schema: Schema::default(),
                form: Form::AsGiven,
                required: true,
            })
            .collect::<Vec<_>>(),
    );
    own.fields.sort_by(|a, b| a.name.cmp(&b.name));
    if is_embedded {
        add_root(&mut own, true);
    }
    Ok(Shape::Object(Arc::new(own)))
}

/// The rules beside the shape; `None` when there are none.
fn rules(given: &Value, nullable: bool) -> Result<Option<Rules>, String> {
    let count = |name: &str| given[name].as_u64();
    let number = |name: &str| given[name].as_f64();
    let is = |name: &str| given[name] == true;
    let all = |name: &str| -> Result<Vec<Schema>, String> {
        let all = given[name].as_array().into_iter().flatten();
        all.map(nested).collect()
    };
    let pattern = match given["pattern"].as_str() {
        Some(text) => {
            let read = Pattern::new(text);
            Some(read.ok_or_else(|| format!("the pattern {text:?} cannot be read"))?)
        }
        None => None,
    };
    let has_rules = [
        "enum",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "pattern",
        "format",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ];
    if !nullable && has_rules.iter().all(|it| given[it].is_null()) {
        return Ok(None);
    }
    let is_number = given["x-kubernetes-int-or-string"] == true;
    Ok(Some(Rules {
        allowed: given["enum"].as_array().cloned().unwrap_or_default(),
        nullable,
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: is("exclusiveMinimum"),
        exclusive_maximum: is("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        pattern,
        text: TextFormat::of(given["format"].as_str().unwrap_or_default()),
        all_of: all("allOf")?,
        // `anyOf: [{type: integer}, {type: string}]` repeats what int-or-string says.
        any_of: if is_number { Vec::new() } else { all("anyOf")? },
        one_of: all("oneOf")?,
        not: match &given["not"] {
            Value::Null => None,
            it => Some(nested(it)?),
        },
        ..Rules::default()
    }))
}

/// A schema inside of `allOf` and the like, which says nothing about the type (structural schemas).
fn nested(given: &Value) -> Result<Schema, String> {
    let implied = if !(given["properties"].is_null() && given["required"].is_null()) {
        "object"
    } else if !given["items"].is_null() {
        "array"
    } else {
        ""
    };
    read(given, implied)
}
