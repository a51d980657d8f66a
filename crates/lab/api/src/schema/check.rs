//! Validation by the rules of a schema, in the words of kube-apiserver
//! (`apiextensions-apiserver/pkg/apiserver/validation`, `kube-openapi/pkg/validation/errors`).

mod resources;

use std::collections::{BTreeSet, HashMap};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use sluice_controller::{ANNOTATIONS, Format};

use super::{Field, Form, ListType, Rules, Schema, Shape, Type};
use crate::status::Cause;
use resources::Known;

/// Most steps of one validation: values with the schemas that they are compared with, and what texts cost. An object of
/// 1.5 MiB has less than 500,000 values. A step takes less than a microsecond.
const BUDGET: u64 = 4_000_000;

/// Most bytes of all messages of one validation. Each may show the whole object.
const MESSAGES: usize = 4 << 20;

/// The first line of a request for a certificate. What it asks is not read.
const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----";

/// The words of kube-apiserver for rules in CEL, which have such a budget there.
const EXHAUSTED: &str = "Invalid value: \"object\": validation failed due to running out of cost budget, no further \
                         validation rules will be run";

impl Schema {
    /// What is wrong with a decoded value at `path`. `old` is the value that it replaces.
    pub(crate) fn check(&self, path: &str, value: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut checker = Checker {
            left: BUDGET,
            keeps: matches!(self.shape, Shape::Object(_)),
            ..Checker::default()
        };
        checker.value(self, path, value, old);
        if checker.left == 0 {
            checker.causes.push(Cause::new(path, EXHAUSTED));
        }
        checker.causes
    }

    /// Whether a value of a CustomResourceDefinition's schema has the right type; otherwise its name.
    fn type_name(&self, value: &Value) -> Option<&'static str> {
        let (name, is_right) = match &self.shape {
            Shape::Any | Shape::Named(_) => return None,
            Shape::Bool => ("boolean", value.is_boolean()),
            Shape::Int32 | Shape::Int64 => ("integer", is_whole(value)),
            Shape::Double => ("number", value.is_number()),
            Shape::IntOrString => ("integer,string", value.is_string() || is_whole(value)),
            Shape::List(_) => ("array", value.is_array()),
            Shape::Map(_) | Shape::Object(_) => ("object", value.is_object()),
            _ => ("string", value.is_string()),
        };
        (!is_right).then_some(name)
    }
}

#[derive(Default)]
struct Checker {
    causes: Vec<Cause>,
    /// The steps that are left. At 0 nothing more is checked.
    left: u64,
    /// The bytes of all messages.
    said: usize,
    /// Whether only the number of causes counts: nothing is said, and the first one is enough.
    is_quiet: bool,
    /// Whether what is wrong may stay, if it was there before.
    keeps: bool,
}

impl Checker {
    fn push(&mut self, path: &str, message: impl Into<String>) {
        let message = message.into();
        self.said += message.len();
        if self.said > MESSAGES {
            self.left = 0;
        }
        self.causes.push(Cause::new(path, message));
    }

    /// A cause that shows a value, which may be large.
    fn shown(&mut self, path: &str, value: &Value, why: &str) {
        if self.is_quiet {
            self.push(path, "");
        } else {
            self.push(path, format!("Invalid value: {value}: {why}"));
        }
    }

    fn wrong_type(&mut self, path: &str, shown: &str, name: &str) {
        let message =
            format!("Invalid value: {shown}: {path} in body must be of type {name}: {shown}");
        self.push(path, message);
        if let Some(cause) = self.causes.last_mut() {
            cause.reason = "FieldValueTypeInvalid";
        }
    }

    /// `path in body WHY`.
    fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.shown(path, value, &format!("{path} in body {why}"));
    }

    /// Uses up `steps` of the budget. Returns whether there are any left.
    fn spend(&mut self, steps: u64) -> bool {
        self.left = self.left.saturating_sub(steps);
        self.left > 0
    }

    /// Whether a value has what a schema wants.
    fn fits(&mut self, schema: &Schema, path: &str, value: &Value) -> bool {
        let mut inner = Self {
            left: self.left,
            is_quiet: true,
            ..Self::default()
        };
        inner.value(schema, path, value, None);
        self.left = inner.left;
        inner.causes.is_empty()
    }

    fn value(&mut self, schema: &Schema, path: &str, value: &Value, old: Option<&Value>) {
        let is_decided = self.is_quiet && !self.causes.is_empty();
        // What a CustomResourceDefinition accepted before may stay.
        let is_kept = self.keeps && old == Some(value);
        if is_kept || is_decided || !self.spend(1) {
            return;
        }
        let rules = schema.rules.as_deref();
        if value.is_null() && rules.is_some_and(|it| it.nullable) {
            return;
        }
        if let Some(name) = schema.type_name(value) {
            self.wrong_type(path, &format!("{:?}", given_type(value)), name);
            return;
        }
        if matches!(schema.shape, Shape::Int32)
            && value.as_i64().is_none_or(|it| i32::try_from(it).is_err())
            && value.is_number()
        {
            let why = format!("Checked value must be of type integer with format int32 in {path}");
            self.push("<nil>", format!("Invalid value: \"\": {why}"));
        }
        if let Some(rules) = rules {
            self.rules(rules, path, value);
        }
        match value {
            Value::Object(map) => {
                self.object(schema, path, map, old);
                self.related(schema, path, value, old);
            }
            Value::Array(list) => {
                self.keys(schema, path, list);
                if let Some(items) = schema.items() {
                    let before = old.filter(|_| self.keeps).and_then(Value::as_array);
                    let before = Before::of(schema, before);
                    for (at, item) in list.iter().enumerate() {
                        let old = before.of_item(item);
                        self.value(items, &format!("{path}[{at}]"), item, old);
                    }
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        schema: &Schema,
        path: &str,
        map: &Map<String, Value>,
        old: Option<&Value>,
    ) {
        let join = |name: &str| join(path, name);
        if let Shape::Map(values) = &schema.shape {
            let old = old.filter(|_| self.keeps);
            for (key, value) in map {
                self.value(values, &join(key), value, old.and_then(|it| it.get(key)));
            }
        }
        let Some(own) = schema.object() else {
            return;
        };
        let is_go = !own.name.is_empty();
        if let Some(old) = old {
            self.unchanged(own, path, map, old);
        }
        let is_missing = |field: &&Field| match map.get(&*field.name) {
            None | Some(Value::Null) => true,
            Some(Value::String(it)) => is_go && it.is_empty(),
            Some(_) => false,
        };
        for field in own.fields.iter().filter(is_missing) {
            if field.required {
                self.push(&join(&field.name), "Required value");
                continue;
            }
            // A pointer in Go tells an empty text from none.
            let is_there = field.form != Form::Pointer || map.contains_key(&*field.name);
            let rules = field.schema.rules.as_ref();
            if let Some(rules) = rules.filter(|it| it.always && is_there) {
                self.rules(rules, &join(&field.name), &"".into());
            }
        }
        let old = |field: &Field| old.and_then(|it| it.get(&*field.name));
        for (name, value) in map {
            if let Some(field) = own.field(name).filter(|it| !(is_go && is_missing(it))) {
                // The API's own paths have no `metadata` here.
                let path = match &*own.name {
                    "core.v1.PodTemplateSpec" if name == "metadata" => path.to_owned(),
                    _ => join(name),
                };
                self.value(&field.schema, &path, value, old(field));
            }
        }
    }

    /// Rules of several fields.
    fn related(&mut self, schema: &Schema, path: &str, object: &Value, old: Option<&Value>) {
        for relation in schema.object().into_iter().flat_map(|it| &it.relations) {
            let (causes, steps) = relation.check(path, object, old);
            if !self.spend(steps) {
                return;
            }
            for cause in causes {
                // Several rules may lead to one message.
                if !self.causes.contains(&cause) {
                    self.push(&cause.field, cause.message);
                }
            }
        }
    }

    /// What `old` does not allow to change (`ValidateImmutableField`, `ValidateConfigMapUpdate`).
    fn unchanged(&mut self, own: &Type, path: &str, new: &Map<String, Value>, old: &Value) {
        for field in &own.fields {
            let Some(rules) = &field.schema.rules else {
                continue;
            };
            let name = &*field.name;
            let (new, before) = (new.get(name).unwrap_or(&Value::Null), &old[name]);
            if new == before {
                continue;
            }
            let path = join(path, name);
            if rules.immutable {
                self.push(&path, format!("Invalid value: {new}: field is immutable"));
            } else if rules.sealed && old["immutable"] == true {
                self.push(
                    &path,
                    "Forbidden: field is immutable when `immutable` is set",
                );
            }
        }
    }

    fn rules(&mut self, rules: &Rules, path: &str, value: &Value) {
        if let Value::Array(items) = value
            && rules.is_go
        {
            for (at, item) in items.iter().enumerate() {
                self.rules(rules, &format!("{path}[{at}]"), item);
            }
            return;
        }
        let wanted = rules.allowed.len() as u64;
        if wanted > 0 && self.spend(wanted) && !rules.allowed.contains(value) {
            let allowed = rules.allowed.iter().map(ToString::to_string);
            let allowed = allowed.collect::<Vec<_>>().join(", ");
            let message = format!("Unsupported value: {value}: supported values: {allowed}");
            self.push(path, message);
        }
        match value {
            Value::Number(it) => self.number(rules, path, value, it.as_f64().unwrap_or_default()),
            Value::String(text) => {
                let length = text.chars().count() as u64;
                if let Some(most) = rules.max_length.filter(|it| length > *it) {
                    self.push(path, format!("Too long: may not be more than {most} bytes"));
                }
                if let Some(least) = rules.min_length.filter(|it| length < *it) {
                    let why = format!("should be at least {least} chars long");
                    self.invalid(path, value, &why);
                }
                if let Some(format) = &rules.text
                    && !format.fits(text)
                {
                    self.wrong_type(path, &format!("{value}"), format.name());
                }
                if let Some(it) = &rules.pattern
                    && self.spend(it.steps(text))
                    && !it.matches(text)
                {
                    self.invalid(path, value, &format!("should match '{}'", it.text()));
                }
            }
            Value::Array(list) => {
                let (least, most) = (rules.min_items, rules.max_items);
                self.count(path, value, list.len() as u64, (least, most), "items");
            }
            Value::Object(map) => {
                let (least, most) = (rules.min_properties, rules.max_properties);
                self.count(path, value, map.len() as u64, (least, most), "properties");
            }
            _ => {}
        }
        if let Some(format) = rules.format {
            self.format(format, path, value);
        }
        self.combined(rules, path, value);
    }

    fn format(&mut self, format: Format, path: &str, value: &Value) {
        let mut wrong = |field: &str, value: &Value, format: Format, text: &str| {
            for why in format.problems(text) {
                self.push(field, format!("Invalid value: {value}: {why}"));
            }
        };
        match (format, value) {
            (Format::Labels, Value::Object(map)) => {
                for (key, value) in map {
                    wrong(path, &json!(key), Format::Qualified, key);
                    let text = value.as_str().unwrap_or_default();
                    wrong(path, value, Format::LabelValue, text);
                }
            }
            (Format::Annotations, Value::Object(map)) => {
                for key in map.keys() {
                    wrong(path, &json!(key), Format::Qualified, &key.to_lowercase());
                }
                let lengths = map
                    .iter()
                    .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
                if lengths.sum::<usize>() > ANNOTATIONS {
                    let message = format!("Too long: may not be more than {ANNOTATIONS} bytes");
                    self.push(path, message);
                }
            }
            (Format::ConfigKeys, Value::Object(map)) => {
                for key in map.keys() {
                    wrong(&format!("{path}[{key}]"), &json!(key), format, key);
                }
            }
            (Format::Resources, _) => self.resources(path, value, Known::Container),
            (Format::PodResources, _) => self.resources(path, value, Known::Pod),
            (Format::Quota, Value::Object(map)) => self.quantities(path, map, Known::Quota),
            (Format::Limits, _) => self.limits(path, value),
            (Format::Request, Value::String(text)) => {
                let bytes = BASE64_STANDARD.decode(text).unwrap_or_default();
                if !String::from_utf8_lossy(&bytes).contains(REQUEST) {
                    let why = "PEM block type must be CERTIFICATE REQUEST";
                    self.shown(path, value, why);
                }
            }
            (format, Value::String(text)) => wrong(path, value, format, text),
            (format, Value::Number(number)) => wrong(path, value, format, &number.to_string()),
            _ => {}
        }
    }

    fn number(&mut self, rules: &Rules, path: &str, value: &Value, number: f64) {
        let least = rules
            .minimum
            .filter(|it| number < *it || rules.exclusive_minimum && number <= *it);
        let most = rules
            .maximum
            .filter(|it| number > *it || rules.exclusive_maximum && number >= *it);
        if rules.is_go && (least.is_some() || most.is_some()) {
            let range = match (rules.minimum, rules.maximum) {
                (Some(least), Some(most)) => format!("between {least} and {most}, inclusive"),
                (least, most) => match least {
                    Some(least) => format!("greater than or equal to {least}"),
                    None => format!("less than or equal to {}", most.unwrap_or_default()),
                },
            };
            return self.push(path, format!("Invalid value: {value}: must be {range}"));
        }
        let equal = |is_exclusive: bool| if is_exclusive { "" } else { " or equal to" };
        if let Some(it) = least {
            let than = equal(rules.exclusive_minimum);
            self.invalid(path, value, &format!("should be greater than{than} {it}"));
        }
        if let Some(it) = most {
            let than = equal(rules.exclusive_maximum);
            self.invalid(path, value, &format!("should be less than{than} {it}"));
        }
        let factor = rules.multiple_of;
        if let Some(it) = factor.filter(|it| (number / it).fract() != 0.0) {
            self.invalid(path, value, &format!("should be a multiple of {it}"));
        }
    }

    fn count(
        &mut self,
        path: &str,
        value: &Value,
        count: u64,
        (least, most): (Option<u64>, Option<u64>),
        what: &str,
    ) {
        if let Some(most) = most.filter(|it| count > *it) {
            self.push(
                path,
                format!("Too many: {count}: must have at most {most} items"),
            );
        }
        if let Some(least) = least.filter(|it| count < *it) {
            self.invalid(path, value, &format!("should have at least {least} {what}"));
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`.
    fn combined(&mut self, rules: &Rules, path: &str, value: &Value) {
        for it in &rules.all_of {
            self.value(it, path, value, None);
        }
        let any_of =
            rules.any_of.is_empty() || rules.any_of.iter().any(|it| self.fits(it, path, value));
        let one_of = rules.one_of.iter().filter(|it| self.fits(it, path, value));
        let one_of = rules.one_of.is_empty() || one_of.count() == 1;
        let not = rules.not.iter().all(|it| !self.fits(it, path, value));
        for (is_right, why) in [
            (any_of, "must validate at least one schema (anyOf)"),
            (one_of, "must validate one and only one schema (oneOf)"),
            (not, "must not validate the schema (not)"),
        ] {
            // When no steps are left the answers are unsure, and one cause says so for all.
            if !is_right && self.left > 0 {
                self.shown(path, value, &format!("{path:?} {why}"));
            }
        }
    }

    /// Items of a set, and of a list with keys, differ. Kubernetes' own types say so in their validation.
    fn keys(&mut self, schema: &Schema, path: &str, list: &[Value]) {
        let is_own = matches!(schema.items(), Some(it) if matches!(it.shape, Shape::Named(_)));
        if is_own || schema.list == ListType::Atomic {
            return;
        }
        let mut known = BTreeSet::new();
        for (at, item) in list.iter().enumerate() {
            let text = match &schema.list {
                ListType::Keyed(keys) => keys_of(item, keys),
                _ => item.to_string(),
            };
            if !known.insert(text.clone()) {
                self.push(&format!("{path}[{at}]"), format!("Duplicate value: {text}"));
            }
        }
    }
}

/// The items of a list before, by their keys. Those of other lists have no counterpart.
struct Before<'a> {
    keys: &'a [Box<str>],
    items: HashMap<String, &'a Value>,
}

impl<'a> Before<'a> {
    fn of(schema: &'a Schema, list: Option<&'a Vec<Value>>) -> Self {
        let (keys, list) = match (&schema.list, list) {
            (ListType::Keyed(keys), Some(list)) => (&**keys, &**list),
            _ => (&[][..], &[][..]),
        };
        Self {
            keys,
            items: list.iter().map(|it| (keys_of(it, keys), it)).collect(),
        }
    }

    fn of_item(&self, item: &Value) -> Option<&'a Value> {
        let found = (!self.items.is_empty()).then(|| self.items.get(&keys_of(item, self.keys)));
        found.flatten().copied()
    }
}

/// The key fields of an item of a list, as one text.
fn keys_of(item: &Value, keys: &[Box<str>]) -> String {
    let keys = keys
        .iter()
        .map(|key| (key.to_string(), item[&**key].clone()));
    Value::Object(keys.collect()).to_string()
}

pub(super) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|it| it.fract() == 0.0)
}

fn given_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_whole(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
