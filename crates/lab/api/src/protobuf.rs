//! Request bodies in protobuf: kubectl 1.32 and later sends them for create, evict and delete, and
//! does not fall back to JSON when they are refused.
//!
//! A body is the magic `k8s\0` and a `runtime.Unknown`, which holds the message of the kind
//! (`apimachinery/pkg/runtime/generated.proto`). A kind or field that the [schema] lacks is refused,
//! so that no field is dropped silently.

#[cfg(test)]
mod tests;
mod wire;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schema::{self, Field, Schema, Shape, Type};
use crate::status::Status;
use wire::{Piece, pieces};

const MAGIC: &[u8] = b"k8s\0";

/// Reads a body as the JSON object that it stands for.
///
/// # Errors
///
/// 400: the body is malformed. 415: the kind or a field is unknown.
pub(crate) fn read(body: &[u8]) -> Result<Value, Status> {
    let envelope = body.strip_prefix(MAGIC).ok_or_else(broken)?;
    let (mut kind, mut api_version, mut raw) = (String::new(), String::new(), &[][..]);
    for piece in pieces(envelope) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Bytes(bytes)) => {
                for piece in pieces(bytes) {
                    match piece.ok_or_else(broken)? {
                        (1, Piece::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Piece::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Piece::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let schema = schema::of_kind(&api_version, &kind).or_else(|| match &*kind {
        // Every group has its own name for these options.
        "DeleteOptions" => schema::of_type("meta.v1.DeleteOptions"),
        _ => None,
    });
    let schema = schema.ok_or_else(|| unknown(&kind))?;
    let mut object = Map::new();
    if let Some(own) = schema.object() {
        read_message(own, &mut Vec::new(), raw, &kind, &mut object)?;
    }
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), api_version.into());
    let mut object = object.into();
    let decoded = schema.decode(&mut object);
    decoded.map_err(|it| Status::bad_request(it.to_string()))?;
    Ok(object)
}

/// Reads a message into `object`. `within` are the numbers of the fields that hold it and that JSON does not have.
fn read_message(
    own: &Type,
    within: &mut Vec<u32>,
    bytes: &[u8],
    path: &str,
    object: &mut Map<String, Value>,
) -> Result<(), Status> {
    for piece in pieces(bytes) {
        let (number, piece) = piece.ok_or_else(broken)?;
        within.push(u32::try_from(number).map_err(|_| broken())?);
        let mut inside = own
            .fields
            .iter()
            .filter(|it| it.numbers.starts_with(within));
        match (inside.next(), piece) {
            (Some(field), piece) if field.numbers == *within => {
                insert(object, field, piece, &format!("{path}.{}", field.name))?;
            }
            (Some(_), Piece::Bytes(bytes)) => read_message(own, within, bytes, path, object)?,
            // Go writes empty messages for structs without a value.
            (None, Piece::Bytes([]) | Piece::Number(0)) => {}
            _ => return Err(unknown(&format!("field {number} of {path}"))),
        }
        within.pop();
    }
    Ok(())
}

/// `JSONSchemaPropsOrArray` (`apiextensions/v1/generated.proto`).
fn nested_schemas(bytes: &[u8], path: &str) -> Result<Value, Status> {
    let (mut one, mut several) = (Value::Null, Vec::new());
    for piece in pieces(bytes) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Bytes(bytes)) => one = json_schema(bytes, path)?,
            (2, Piece::Bytes(bytes)) => several.push(json_schema(bytes, path)?),
            _ => return Err(broken()),
        }
    }
    Ok(if one.is_null() { several.into() } else { one })
}

/// `JSONSchemaPropsOrBool`.
fn schema_or_bool(bytes: &[u8], path: &str) -> Result<Value, Status> {
    let mut found = Value::Bool(false);
    for piece in pieces(bytes) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Number(allows)) => found = (allows != 0).into(),
            (2, Piece::Bytes(bytes)) => found = json_schema(bytes, path)?,
            _ => return Err(broken()),
        }
    }
    Ok(found)
}

fn json_schema(bytes: &[u8], path: &str) -> Result<Value, Status> {
    let schema = schema::of_type("apiextensions.v1.JSONSchemaProps").ok_or_else(broken)?;
    let own = schema.object().ok_or_else(broken)?;
    let mut object = Map::new();
    read_message(own, &mut Vec::new(), bytes, path, &mut object)?;
    let mut object = object.into();
    // Go writes zeros.
    let decoded = schema.decode(&mut object);
    decoded.map_err(|it| Status::bad_request(it.to_string()))?;
    Ok(object)
}

fn insert(
    object: &mut Map<String, Value>,
    field: &Field,
    piece: Piece<'_>,
    path: &str,
) -> Result<(), Status> {
    let name = field.name.to_string();
    match (&field.schema.shape, piece) {
        (Shape::Map(values), Piece::Bytes(bytes)) => {
            let (key, value) = entry(bytes, values, path)?;
            if let Value::Object(map) = object.entry(name).or_insert_with(|| Map::new().into()) {
                map.insert(key, value);
            }
        }
        (Shape::List(items), piece) => {
            let value = value(items, piece, path)?;
            if let Value::Array(list) = object
                .entry(name)
                .or_insert_with(|| Value::Array(Vec::new()))
            {
                list.push(value);
            }
        }
        (_, piece) => {
            object.insert(name, value(&field.schema, piece, path)?);
        }
    }
    Ok(())
}

fn value(schema: &Schema, piece: Piece<'_>, path: &str) -> Result<Value, Status> {
    Ok(match (&schema.shape, piece) {
        (Shape::Text, Piece::Bytes(bytes)) => text(bytes)?.into(),
        (Shape::Bool, Piece::Number(number)) => (number != 0).into(),
        (Shape::Int32 | Shape::Int64, Piece::Number(number)) => (number as i64).into(),
        (Shape::Double, Piece::Bytes(bytes)) => {
            f64::from_le_bytes(bytes.try_into().map_err(|_| broken())?).into()
        }
        (Shape::Bytes, Piece::Bytes(bytes)) => BASE64_STANDARD.encode(bytes).into(),
        (Shape::Time | Shape::MicroTime, Piece::Bytes(bytes)) => time(bytes)?,
        (Shape::IntOrString, Piece::Bytes(bytes)) => int_or_string(bytes)?,
        (Shape::Quantity, Piece::Bytes(bytes)) => text(first(bytes)?)?.into(),
        (Shape::Any, Piece::Bytes(bytes)) if path.ends_with(".items") => {
            nested_schemas(bytes, path)?
        }
        (Shape::Any, Piece::Bytes(bytes))
            if [".additionalProperties", ".additionalItems"]
                .iter()
                .any(|it| path.ends_with(it)) =>
        {
            schema_or_bool(bytes, path)?
        }
        (Shape::Any, Piece::Bytes(bytes)) => match first(bytes)? {
            [] => Value::Null,
            json => serde_json::from_slice(json).map_err(|_| broken())?,
        },
        (Shape::Named(_) | Shape::Object(_), Piece::Bytes(bytes)) => {
            let mut object = Map::new();
            if let Some(own) = schema.object() {
                read_message(own, &mut Vec::new(), bytes, path, &mut object)?;
            }
            object.into()
        }
        // The value of a map: a message with the items.
        (Shape::List(items), Piece::Bytes(bytes)) => {
            let items = pieces(bytes).map(|it| value(items, it.ok_or_else(broken)?.1, path));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        _ => return Err(broken()),
    })
}

/// One entry of a map.
fn entry(bytes: &[u8], values: &Schema, path: &str) -> Result<(String, Value), Status> {
    let (mut key, mut found) = (String::new(), None);
    for piece in pieces(bytes) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Bytes(bytes)) => key = text(bytes)?,
            (2, piece) => found = Some(value(values, piece, path)?),
            _ => return Err(broken()),
        }
    }
    Ok((key, found.unwrap_or_default()))
}

/// The first field of a message that has only one, with bytes; empty when it is missing.
fn first(bytes: &[u8]) -> Result<&[u8], Status> {
    match pieces(bytes).next() {
        None => Ok(&[]),
        Some(Some((1, Piece::Bytes(bytes)))) => Ok(bytes),
        Some(_) => Err(broken()),
    }
}

fn time(bytes: &[u8]) -> Result<Value, Status> {
    let (mut seconds, mut nanos) = (None, 0);
    for piece in pieces(bytes) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Number(number)) => seconds = Some(number as i64),
            (2, Piece::Number(number)) => nanos = number as i32,
            _ => {}
        }
    }
    let at = seconds.and_then(|it| Timestamp::new(it, nanos).ok());
    Ok(at.map_or(Value::Null, |it| it.to_string().into()))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Status> {
    let (mut is_text, mut number, mut words) = (false, 0, String::new());
    for piece in pieces(bytes) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Number(sort)) => is_text = sort == 1,
            (2, Piece::Number(it)) => number = it as i64,
            (3, Piece::Bytes(bytes)) => words = text(bytes)?,
            _ => return Err(broken()),
        }
    }
    Ok(if is_text { words.into() } else { number.into() })
}

fn text(bytes: &[u8]) -> Result<String, Status> {
    String::from_utf8(bytes.to_vec()).map_err(|_| broken())
}

fn broken() -> Status {
    Status::bad_request("the body is no Kubernetes object in protobuf")
}

fn unknown(what: &str) -> Status {
    let message = format!("{what:?} cannot be read in protobuf: send JSON");
    let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Status::new(code, "UnsupportedMediaType", message)
}
