//! Decoding: the one form of an object, as if Go had decoded it into its types and encoded it again.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use sluice_controller::Quantity;

use super::{Field, Form, Schema, Shape, Type};
use crate::history::seconds;

/// Why a value has not the type of its field, in the words of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the decoder is.
#[derive(Default)]
struct Decoder<'a> {
    /// `spec.containers[0]`.
    path: String,
    /// The names of the fields in `path`, as errors show them.
    fields: Vec<&'a str>,
    /// The innermost type.
    owner: &'a str,
    /// Whether the innermost type is Go's. Those of a CustomResourceDefinition are left to
    /// [`check`](Schema::check).
    is_go: bool,
    /// Whether only unknown fields and nulls go.
    is_bare: bool,
    unknown: Vec<String>,
}

impl Schema {
    /// Brings an object into its one form: unknown fields and fields without a value go, fields that are
    /// always there come, quantities and times are written in one way. Decoding twice changes nothing more.
    /// Returns the paths of the unknown fields.
    ///
    /// # Errors
    ///
    /// The first value whose type is wrong.
    pub(crate) fn decode(&self, value: &mut Value) -> Result<Vec<String>, Wrong> {
        let mut decoder = Decoder::default();
        decoder.value(self, value)?;
        Ok(decoder.unknown)
    }

    /// Removes unknown fields and nulls, and returns their paths. All else stays as it was given.
    ///
    /// # Errors
    ///
    /// The first value whose type is wrong.
    pub(crate) fn prune(&self, value: &mut Value) -> Result<Vec<String>, Wrong> {
        let mut decoder = Decoder {
            is_bare: true,
            ..Decoder::default()
        };
        decoder.value(self, value)?;
        Ok(decoder.unknown)
    }

    /// The value of a field that is always there and was not given.
    pub(crate) fn zero(&self) -> Value {
        match &self.shape {
            Shape::Text => "".into(),
            Shape::Bool => false.into(),
            Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 0.into(),
            Shape::Quantity => "0".into(),
            Shape::Named(_) | Shape::Object(_) => {
                let mut object = Map::new().into();
                // Nothing in it can have the wrong type.
                let _ = self.decode(&mut object);
                object
            }
            _ => Value::Null,
        }
    }

    /// The name of the type in Go.
    fn go_type(&self) -> String {
        if let Some(name) = &self.go {
            return name.to_string();
        }
        match &self.shape {
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Double => "float64".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Named(it) => {
                let parts: Vec<_> = it.get().name.rsplitn(3, '.').collect();
                format!("{}.{}", parts[1], parts[0])
            }
            Shape::List(items) => format!("[]{}", items.go_type()),
            Shape::Map(values) => format!("map[string]{}", values.go_type()),
            _ => "string".to_owned(),
        }
    }
}

impl<'a> Decoder<'a> {
    fn value(&mut self, schema: &'a Schema, value: &mut Value) -> Result<(), Wrong> {
        if let (false, Value::Number(number)) = (self.is_go || self.is_bare, &*value)
            && let Some(whole) = whole(number)
        {
            *value = whole.into();
        }
        match (&schema.shape, &mut *value) {
            (Shape::Any, _)
            | (Shape::Text, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Double, Value::Number(_))
            | (Shape::IntOrString, Value::String(_)) => Ok(()),
            (Shape::Int32 | Shape::IntOrString, Value::Number(it))
                if it.as_i64().is_some_and(|it| i32::try_from(it).is_ok()) =>
            {
                Ok(())
            }
            (Shape::Int64, Value::Number(it)) if it.is_i64() => Ok(()),
            (Shape::List(items), Value::Array(list)) => {
                let length = self.path.len();
                for (index, item) in list.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.entry(items, item)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            (Shape::Map(values), Value::Object(map)) => {
                let length = self.path.len();
                if !self.is_go {
                    map.retain(|_, it| !it.is_null() || values.keeps_null());
                }
                for (key, item) in map {
                    self.step(key);
                    self.entry(values, item)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            (Shape::Named(name), Value::Object(map)) => self.object(name.get(), true, map),
            (Shape::Object(own), Value::Object(map)) => self.object(own, false, map),
            _ if !self.is_go => Ok(()),
            (shape, given) => {
                let before = self.is_bare.then(|| given.clone());
                match (shape, &mut *given) {
                    (Shape::Bytes, Value::String(text)) => bytes(text)?,
                    (Shape::Quantity, Value::String(_) | Value::Number(_)) => quantity(given)?,
                    (Shape::Time | Shape::MicroTime, Value::String(text)) => time(shape, text)?,
                    _ => return Err(self.wrong(schema, shape, value)),
                }
                if let Some(before) = before {
                    *given = before;
                }
                Ok(())
            }
        }
    }

    /// An item of a list or a value of a map.
    fn entry(&mut self, schema: &'a Schema, value: &mut Value) -> Result<(), Wrong> {
        if value.is_null() && self.is_go {
            *value = schema.zero();
            return Ok(());
        }
        self.value(schema, value)
    }

    fn object(
        &mut self,
        own: &'a Type,
        is_go: bool,
        map: &mut Map<String, Value>,
    ) -> Result<(), Wrong> {
        let outer = (self.owner, self.is_go);
        (self.owner, self.is_go) = (&own.name, is_go);
        let mut outcome = Ok(());
        map.retain(|name, value| {
            if outcome.is_err() {
                return true;
            }
            let length = self.path.len();
            self.step(name);
            let stays = match own.field(name) {
                None if own.open => true,
                None => {
                    self.unknown.push(self.path.clone());
                    false
                }
                Some(field) => {
                    self.fields.push(&field.name);
                    let stays = self.field(field, value);
                    self.fields.pop();
                    stays.unwrap_or_else(|wrong| {
                        outcome = Err(wrong);
                        true
                    })
                }
            };
            self.path.truncate(length);
            stays
        });
        (self.owner, self.is_go) = outer;
        let is_bare = self.is_bare;
        let wanted = |it: &&Field| !is_bare && matches!(it.form, Form::Always | Form::Null);
        for field in own.fields.iter().filter(wanted) {
            if !map.contains_key(&*field.name) {
                let value = match field.form {
                    Form::Null => Value::Null,
                    _ => field.schema.zero(),
                };
                map.insert(field.name.to_string(), value);
            }
        }
        outcome
    }

    /// Decodes a field. Returns whether it stays.
    fn field(&mut self, field: &'a Field, value: &mut Value) -> Result<bool, Wrong> {
        let schema = &field.schema;
        if value.is_null() {
            return Ok(field.form == Form::AsGiven && schema.is_nullable());
        }
        self.value(schema, value)?;
        match field.form {
            Form::Gated => Ok(false),
            _ if self.is_bare => Ok(true),
            Form::Omitted => Ok(!is_zero(value)),
            // An empty list is none after it was stored.
            Form::Always if is_collection(&schema.shape) && is_zero(value) => Ok(false),
            _ => Ok(true),
        }
    }

    fn step(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    fn wrong(&self, schema: &Schema, shape: &Shape, value: &Value) -> Wrong {
        let what = match (shape, value) {
            (Shape::Int32 | Shape::Int64 | Shape::IntOrString, Value::Number(it)) => {
                format!("number {it}")
            }
            (_, Value::Number(_)) => "number".to_owned(),
            (_, Value::Bool(_)) => "bool".to_owned(),
            (_, Value::String(_)) => "string".to_owned(),
            (_, Value::Array(_)) => "array".to_owned(),
            _ => "object".to_owned(),
        };
        Wrong(match shape {
            Shape::Quantity => Quantity::FORMAT.to_owned(),
            Shape::Time | Shape::MicroTime => {
                format!("json: cannot unmarshal {what} into Go value of type string")
            }
            Shape::IntOrString => {
                format!("json: cannot unmarshal {what} into Go value of type int32")
            }
            _ => format!(
                "json: cannot unmarshal {what} into Go struct field {}.{} of type {}",
                self.owner.rsplit('.').next().unwrap_or_default(),
                self.fields.join("."),
                schema.go_type()
            ),
        })
    }
}

/// The whole number that `5.0` or `1e2` is; `None` for what is written as one, and for other numbers.
fn whole(number: &Number) -> Option<i64> {
    let float = number
        .as_f64()
        .filter(|it| number.is_f64() && it.fract() == 0.0)?;
    (float.abs() < 1e15).then_some(float as i64)
}

fn is_collection(shape: &Shape) -> bool {
    matches!(shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes)
}

/// Go's zero values, which `omitempty` leaves out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(it) => !it,
        Value::Number(it) => it.as_f64() == Some(0.0),
        Value::String(it) => it.is_empty(),
        Value::Object(it) => it.is_empty(),
        Value::Array(it) => it.is_empty(),
    }
}

fn bytes(text: &mut String) -> Result<(), Wrong> {
    text.retain(|it| !['\r', '\n'].contains(&it));
    let at = match BASE64_STANDARD.decode(&*text) {
        Ok(_) => return Ok(()),
        Err(
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _),
        ) => at,
        Err(_) => text.len(),
    };
    Err(Wrong(format!("illegal base64 data at input byte {at}")))
}

fn quantity(value: &mut Value) -> Result<(), Wrong> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let read: Quantity = text.parse().map_err(|it: &str| Wrong(it.to_owned()))?;
    *value = read.to_string().into();
    Ok(())
}

fn time(shape: &Shape, text: &mut String) -> Result<(), Wrong> {
    let fraction = match shape {
        Shape::MicroTime => ".000000",
        _ => "",
    };
    let wrong = |part: &str, wanted: &str| {
        Wrong(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05{fraction}Z07:00\": cannot parse {part:?} as {wanted:?}"
        ))
    };
    let read: Timestamp = text.parse().map_err(|_| wrong(text, "2006"))?;
    // Go reads a time with microseconds only with all six digits of them.
    let rest = text.get(19..).unwrap_or_default();
    let digits = rest.strip_prefix('.').unwrap_or_default();
    let digits = digits.find(|it: char| !it.is_ascii_digit());
    if !fraction.is_empty() && digits != Some(6) {
        return Err(wrong(rest, fraction));
    }
    *text = match shape {
        Shape::MicroTime => read.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        _ => seconds(read),
    };
    Ok(())
}
