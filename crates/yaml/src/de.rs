//! Tree → API object: a serde deserializer whose errors have a node.

mod access;

use std::fmt;

use serde::de::{self, DeserializeOwned, Visitor};

use super::text::quoted;
use super::{Meaning, Node, Value};
use access::{Entries, Items};

/// A value of the wrong type.
#[derive(Clone, Debug)]
pub struct TypeFault {
    /// [`Node::id`] of the value.
    pub node: usize,
    /// The type that was expected, and the value that is there, in one line.
    pub message: String,
}

/// Type errors reported per object.
const MAX_FAULTS: usize = 20;

/// Reads an object and finds every type error in it, at most 20: a value that does not fit is
/// reported, left out, and the rest is read again. `None` where even that gives no object.
pub fn decode<T: DeserializeOwned>(node: &Node<'_>) -> (Option<T>, Vec<TypeFault>) {
    let mut faults: Vec<TypeFault> = Vec::new();
    let mut skip = Vec::new();
    while faults.len() < MAX_FAULTS {
        match T::deserialize(Reader { node, skip: &skip }) {
            Ok(object) => return (Some(object), faults),
            Err(error) => {
                let at = error.node.unwrap_or(node.id());
                let stuck = at == node.id() || skip.contains(&at);
                faults.push(TypeFault {
                    node: at,
                    message: error.message,
                });
                skip.push(at);
                if stuck {
                    return (None, faults);
                }
            }
        }
    }
    (None, faults)
}

#[derive(Debug)]
pub(super) struct Error {
    node: Option<usize>,
    message: String,
}

impl Error {
    fn at(mut self, node: &Node<'_>) -> Self {
        self.node.get_or_insert(node.id());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        Self {
            node: None,
            message,
        }
    }
}

/// Reads one node, without the values below whose [`Node::id`] is in `skip`.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a, 'de> {
    node: &'de Node<'de>,
    skip: &'a [usize],
}

impl<'a, 'de> Reader<'a, 'de> {
    fn wrong<T>(self, expected: &str) -> Result<T, Error> {
        Err(Error {
            node: Some(self.node.id()),
            message: format!("expected {expected}, found {}", found(self.node)),
        })
    }

    fn meaning(self) -> Option<Meaning> {
        match self.node.value() {
            Value::Scalar(scalar) => Some(scalar.meaning()),
            _ => None,
        }
    }

    fn integer<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.meaning() {
            Some(Meaning::Int(number)) => visitor.visit_i64(number),
            // 80.0 is the integer 80 once it has been through JSON.
            Some(Meaning::Float(float)) if float.fract() == 0.0 && float.abs() < 1e15 => {
                visitor.visit_i64(float as i64)
            }
            _ => self.wrong("an integer"),
        }
    }
}

/// The name of a node in a message.
fn found(node: &Node<'_>) -> String {
    let scalar = match node.value() {
        Value::Scalar(scalar) => scalar,
        Value::List(_) => return "a list".to_owned(),
        _ => return "a mapping".to_owned(),
    };
    let text = &scalar.text;
    match scalar.meaning() {
        Meaning::Null => "null".to_owned(),
        Meaning::Bool(_) => format!("the boolean {text}"),
        Meaning::Int(_) | Meaning::Float(_) => format!("the number {text}"),
        Meaning::Huge => "a number of more than 64 bits".to_owned(),
        Meaning::Text => format!("the text {}", quoted(text)),
    }
}

impl<'de> de::Deserializer<'de> for Reader<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.node.value(), self.meaning()) {
            (Value::List(_), _) => self.deserialize_seq(visitor),
            (_, None) => self.deserialize_map(visitor),
            (_, Some(Meaning::Null)) => visitor.visit_unit(),
            (_, Some(Meaning::Bool(it))) => visitor.visit_bool(it),
            (_, Some(Meaning::Int(_))) => self.integer(visitor),
            (_, Some(Meaning::Float(it))) => visitor.visit_f64(it),
            (_, Some(Meaning::Huge | Meaning::Text)) => self.deserialize_str(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.meaning() {
            Some(Meaning::Bool(it)) => visitor.visit_bool(it),
            _ => self.wrong("true or false"),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.value() {
            Value::Scalar(scalar) => match scalar.as_text() {
                Some(text) => visitor.visit_borrowed_str(text),
                None => self.wrong("a text (write it in quotes)"),
            },
            _ => self.wrong("a text"),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.meaning() {
            Some(Meaning::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.value() {
            Value::List(items) => visitor.visit_seq(Items {
                rest: items.iter(),
                skip: self.skip,
            }),
            _ => self.wrong("a list"),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.value() {
            Value::Map(entries) => visitor.visit_map(Entries {
                rest: entries.iter(),
                skip: self.skip,
                value: None,
            }),
            _ => self.wrong("a mapping"),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct enum identifier
    }
}
