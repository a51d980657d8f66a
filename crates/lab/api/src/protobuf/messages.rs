//! Fields of messages, as `messages.proto` declares them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const DECLARATIONS: &str = include_str!("messages.proto");

/// The messages that a body may be.
const KINDS: [&str; 8] = [
    "Namespace",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Service",
    "Deployment",
    "DeleteOptions",
    "Eviction",
];

static MESSAGES: LazyLock<BTreeMap<&str, Vec<Field>>> = LazyLock::new(|| {
    let declared = DECLARATIONS.split("\nmessage ").skip(1);
    let declared = declared.filter_map(|it| it.split_once(" {\n"));
    let messages = declared.map(|(name, body)| (name, body.lines().map_while(Field::read)));
    messages
        .map(|(name, fields)| (name, fields.collect()))
        .collect()
});

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// The name in JSON.
    pub(super) name: &'static str,
    pub(super) value: Type,
    pub(super) is_list: bool,
    /// The field is a pointer in Go: a zero is kept.
    pub(super) keeps_zero: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Text,
    Int,
    Bool,
    /// The message with this name.
    Message(&'static str),
    /// A map of strings.
    Labels,
    /// A map of bytes, base64 in JSON.
    Data,
    /// A map of quantities.
    Quantities,
    Time,
    IntOrString,
}

/// The fields of the message of a kind.
pub(super) fn of_kind(kind: &str) -> Option<&'static [Field]> {
    KINDS.contains(&kind).then(|| fields(kind))
}

/// The fields of a message; none when it is not declared.
pub(super) fn fields(message: &str) -> &'static [Field] {
    MESSAGES.get(message).map_or(&[], Vec::as_slice)
}

impl Field {
    /// Reads `repeated string args = 4;`.
    fn read(declaration: &'static str) -> Option<Self> {
        let declaration = declaration.trim().strip_suffix(';')?;
        let (typed, number) = declaration.rsplit_once(" = ")?;
        let (typed, name) = typed.rsplit_once(' ')?;
        let (label, typed) = match typed.split_once(' ') {
            Some((label @ ("optional" | "repeated"), typed)) => (label, typed),
            _ => ("", typed),
        };
        Some(Self {
            number: number.parse().ok()?,
            name,
            value: match typed {
                "string" => Type::Text,
                "int64" => Type::Int,
                "bool" => Type::Bool,
                "map<string, string>" => Type::Labels,
                "map<string, bytes>" => Type::Data,
                "map<string, Quantity>" => Type::Quantities,
                "Time" => Type::Time,
                "IntOrString" => Type::IntOrString,
                message => Type::Message(message),
            },
            is_list: label == "repeated",
            keeps_zero: label == "optional",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_read() {
        let count = MESSAGES.values().flatten().count();
        assert_eq!(count, DECLARATIONS.matches(';').count());
        for field in MESSAGES.values().flatten() {
            if let Type::Message(name) = field.value {
                assert!(MESSAGES.contains_key(name), "{name}");
            }
        }
        assert!(KINDS.iter().all(|it| MESSAGES.contains_key(it)));
    }
}
