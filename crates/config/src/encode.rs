//! What was written → YAML.

use std::fmt::Write as _;

use serde_json::Value;
use sluice_yaml::{Meaning, Scalar};

use crate::types::KubeProxyConfiguration;

/// Writes a configuration as kube-proxy does: every field, sorted by name.
///
/// Law: [`decode`](crate::decode) of the result gives the configuration again and ignores nothing.
pub fn encode(config: &KubeProxyConfiguration) -> String {
    let value = serde_json::to_value(config).expect("plain values and text keys");
    let mut out = String::new();
    write(&mut out, &value, 0);
    out
}

/// Writes a mapping or a list, each entry on a line of its own.
fn write(out: &mut String, value: &Value, indent: usize) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (scalar_text(k) + ":", v)).collect(),
        Value::Array(list) => list.iter().map(|it| ("-".to_owned(), it)).collect(),
        _ => Vec::new(),
    };
    for (head, value) in entries {
        let _ = write!(out, "{:indent$}{head}", "");
        match value {
            Value::Object(it) if it.is_empty() => out.push_str(" {}\n"),
            Value::Array(it) if it.is_empty() => out.push_str(" []\n"),
            Value::Object(_) | Value::Array(_) => {
                out.push('\n');
                write(out, value, indent + 2);
            }
            plain => {
                let _ = writeln!(out, " {}", scalar(plain));
            }
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => scalar_text(text),
        Value::Number(number) => match number.as_f64() {
            // `5`, not `5.0`, as Go writes it.
            Some(it) if it.fract() == 0.0 && it.abs() < 1e15 => format!("{}", it as i64),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A text, in quotes where it needs them.
fn scalar_text(text: &str) -> String {
    let is_safe = |it: char| it.is_ascii_alphanumeric() || "._/-".contains(it);
    let starts_well = text.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '/');
    let plain = Scalar {
        text: text.into(),
        plain: true,
    };
    if starts_well && text.chars().all(is_safe) && plain.meaning() == Meaning::Text {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for it in text.chars() {
        match it {
            '"' | '\\' => quoted.extend(['\\', it]),
            ' '..='~' => quoted.push(it),
            _ => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(it));
            }
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests;
