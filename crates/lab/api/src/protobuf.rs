//! Request bodies in protobuf: kubectl 1.32 and later sends them for create, evict and delete, and
//! does not fall back to JSON when they are refused.
//!
//! A body is the magic `k8s\0` and a `runtime.Unknown`, which holds the message of the kind
//! (`apimachinery/pkg/runtime/generated.proto`). A kind or field that [`messages`] lacks is
//! refused, so that no field is dropped silently.

mod messages;
#[cfg(test)]
mod tests;
mod wire;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::history::seconds;
use crate::status::Status;
use messages::{Field, Type};
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
    let message = messages::of_kind(&kind).ok_or_else(|| unknown(&kind))?;
    let mut object = read_message(message, raw, &kind)?;
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), api_version.into());
    Ok(object.into())
}

fn read_message(message: &[Field], bytes: &[u8], path: &str) -> Result<Map<String, Value>, Status> {
    let mut object = Map::new();
    for piece in pieces(bytes) {
        let (number, piece) = piece.ok_or_else(broken)?;
        let Some(field) = message.iter().find(|it| it.number == number) else {
            // Go writes empty messages for structs without a value.
            if matches!(piece, Piece::Bytes([]) | Piece::Number(0)) {
                continue;
            }
            return Err(unknown(&format!("field {number} of {path}")));
        };
        let path = format!("{path}.{}", field.name);
        insert(&mut object, field, piece, &path)?;
    }
    Ok(object)
}

fn insert(
    object: &mut Map<String, Value>,
    field: &Field,
    piece: Piece<'_>,
    path: &str,
) -> Result<(), Status> {
    let name = field.name.to_owned();
    let value = match (field.value, piece) {
        (Type::Labels | Type::Data | Type::Quantities, Piece::Bytes(bytes)) => {
            let (key, value) = entry(bytes, field.value)?;
            let map = object.entry(name).or_insert_with(|| Map::new().into());
            if let Some(map) = map.as_object_mut() {
                map.insert(key, value);
            }
            return Ok(());
        }
        (Type::Text, Piece::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Message(message), Piece::Bytes(bytes)) => {
            read_message(messages::fields(message), bytes, path)?.into()
        }
        (Type::Time, Piece::Bytes(bytes)) => time(bytes)?,
        (Type::IntOrString, Piece::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::Int, Piece::Number(number)) => (number as i64).into(),
        (Type::Bool, Piece::Number(number)) => (number != 0).into(),
        _ => return Err(broken()),
    };
    if field.is_list {
        let list = object
            .entry(name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = list.as_array_mut() {
            list.push(value);
        }
    } else if field.keeps_zero || !is_zero(&value) {
        object.insert(name, value);
    }
    Ok(())
}

/// Go's zero values, which JSON leaves out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(it) => !it,
        Value::Number(it) => it.as_i64() == Some(0),
        Value::String(it) => it.is_empty(),
        Value::Object(it) => it.is_empty(),
        Value::Array(it) => it.is_empty(),
    }
}

/// One entry of a map.
fn entry(bytes: &[u8], sort: Type) -> Result<(String, Value), Status> {
    let (mut key, mut value) = (String::new(), Value::String(String::new()));
    for piece in pieces(bytes) {
        match piece.ok_or_else(broken)? {
            (1, Piece::Bytes(bytes)) => key = text(bytes)?,
            (2, Piece::Bytes(bytes)) => {
                value = match sort {
                    Type::Data => BASE64_STANDARD.encode(bytes).into(),
                    Type::Quantities => quantity(bytes)?.into(),
                    _ => text(bytes)?.into(),
                };
            }
            _ => return Err(broken()),
        }
    }
    Ok((key, value))
}

fn quantity(bytes: &[u8]) -> Result<String, Status> {
    let mut value = String::new();
    for piece in pieces(bytes) {
        if let (1, Piece::Bytes(bytes)) = piece.ok_or_else(broken)? {
            value = text(bytes)?;
        }
    }
    Ok(value)
}

fn time(bytes: &[u8]) -> Result<Value, Status> {
    let mut at = None;
    for piece in pieces(bytes) {
        if let (1, Piece::Number(number)) = piece.ok_or_else(broken)? {
            at = Timestamp::from_second(number as i64).ok();
        }
    }
    Ok(at.map_or(Value::Null, |it| seconds(it).into()))
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
    Status::unsupported_media_type(format!("{what:?} cannot be read in protobuf: send JSON"))
}
