//! Reads `kubernetes.txt`, the facts of Kubernetes' types.
//!
//! ```text
//! package core.v1 io.k8s.api.core.v1
//! type NAME [atomic] [generation] [GROUP/VERSION/KIND...]
//!  FIELD NUMBERS SHAPE ATTRIBUTES...
//! ```
//!
//! NUMBERS are those of protobuf, `0` for none: `2.19` is field 19 of the message in field 2, which JSON
//! does not have. SHAPE is a name of [`Shape`] or of a type; `[` before it makes a list, `{` a map.
//! ATTRIBUTES: `?` omitempty, `0` omitzero, `*` a pointer, `!` required, `=JSON` a default, `set` and
//! `map=KEYS` list types, `atomic`, `merge[=KEY]`, `retainKeys` and `replace` patch strategies, `go=TYPE`,
//! `enum=VALUES`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::relations;
use super::{Field, Form, Format, ListType, Rules, Schema, Shape, Type};

const FACTS: &str = include_str!("kubernetes.txt");
const RULES: &str = include_str!("rules.txt");

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

/// The position of a type of Kubernetes among all types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named(usize);

struct Table {
    types: Vec<Type>,
    /// A schema of each type, in the same order.
    schemas: Vec<Schema>,
    kinds: HashMap<Box<str>, usize>,
    names: HashMap<Box<str>, usize>,
    packages: HashMap<&'static str, &'static str>,
}

impl Named {
    pub(crate) fn get(self) -> &'static Type {
        &TABLE.types[self.0]
    }
}

/// The schema of one of Kubernetes' kinds.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Schema> {
    let place = TABLE.kinds.get(&*format!("{api_version}/{kind}"))?;
    Some(&TABLE.schemas[*place])
}

/// The schema of a type such as `meta.v1.ObjectMeta`.
pub(crate) fn of_type(name: &str) -> Option<&'static Schema> {
    Some(&TABLE.schemas[*TABLE.names.get(name)?])
}

/// The name in OpenAPI documents: `io.k8s.api.core.v1.Container` for `core.v1.Container`.
pub(super) fn full_name(name: &str) -> String {
    let (package, kind) = name.rsplit_once('.').unwrap_or_default();
    let package = TABLE.packages.get(package).copied().unwrap_or(package);
    format!("{package}.{kind}")
}

impl Table {
    fn read() -> Self {
        let lines = || FACTS.lines().filter(|it| !it.starts_with('#'));
        let heads = lines().filter_map(|it| it.strip_prefix("type "));
        let name = |head: &str| head.split(' ').next().unwrap_or_default().into();
        let names: HashMap<Box<str>, usize> =
            heads.enumerate().map(|(at, it)| (name(it), at)).collect();
        let (mut types, mut packages) = (Vec::<Type>::new(), HashMap::new());
        for line in lines() {
            if let Some(head) = line.strip_prefix("type ") {
                types.push(begin(head));
            } else if let Some((short, full)) = line
                .strip_prefix("package ")
                .and_then(|it| it.split_once(' '))
            {
                packages.insert(short, full);
            } else if let (Some(last), Some(line)) = (types.last_mut(), line.strip_prefix(' ')) {
                last.fields.push(field(line, &names));
            }
        }
        add_rules(&mut types, &names);
        for (name, relation) in relations::read() {
            let own = names.get(name).and_then(|it| types.get_mut(*it));
            let own = own.unwrap_or_else(|| panic!("relations.txt: there is no {name}"));
            own.relations.push(relation);
        }
        let mut kinds = HashMap::new();
        for (at, it) in types.iter_mut().enumerate() {
            it.fields.sort_by(|a, b| a.name.cmp(&b.name));
            kinds.extend(it.kinds.iter().map(|it| (it.clone(), at)));
        }
        let schemas = (0..types.len()).map(|it| Schema::new(Shape::Named(Named(it))));
        Self {
            schemas: schemas.collect(),
            types,
            kinds,
            names,
            packages,
        }
    }
}

/// Adds the lines of `rules.txt` to the fields.
fn add_rules(types: &mut [Type], names: &HashMap<Box<str>, usize>) {
    for line in RULES.lines().filter(|it| !it.starts_with('#')) {
        let mut words = line.split(' ');
        let Some((name, field)) = words.next().and_then(|it| it.rsplit_once('.')) else {
            continue;
        };
        let own = names.get(name).and_then(|it| types.get_mut(*it));
        let mut fields = own.into_iter().flat_map(|it| &mut it.fields);
        let field = fields.find(|it| *it.name == *field);
        let field = field.unwrap_or_else(|| panic!("rules.txt: there is no {line}"));
        words.for_each(|it| attribute(field, it));
    }
}

fn begin(head: &str) -> Type {
    let mut words = head.split(' ');
    let mut made = Type {
        name: words.next().unwrap_or_default().into(),
        ..Type::default()
    };
    for word in words {
        match word {
            "atomic" => made.atomic = true,
            "generation" => made.counts_generations = true,
            kind => made.kinds.push(kind.into()),
        }
    }
    made
}

fn field(line: &str, names: &HashMap<Box<str>, usize>) -> Field {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (name, numbers, shape) = (word(), word(), word());
    let numbers = numbers.split('.').filter_map(|it| it.parse().ok());
    let mut field = Field {
        name: name.into(),
        numbers: numbers.filter(|it| *it != 0).collect(),
        schema: Schema::new(self::shape(shape, names)),
        form: Form::Always,
        required: false,
    };
    let mut is_pointer = false;
    for word in words {
        is_pointer |= word == "*";
        attribute(&mut field, word);
    }
    field.form = match (is_pointer, field.form) {
        (true, Form::Omitted) => Form::Pointer,
        (true, _) => Form::Null,
        // omitempty does not leave structs out; omitzero is for times only.
        (false, Form::Omitted) if is_struct(&field.schema.shape, line) => Form::Always,
        (false, form) => form,
    };
    field
}

fn attribute(field: &mut Field, word: &str) {
    let schema = &mut field.schema;
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "*" => {}
        "?" | "0" => field.form = Form::Omitted,
        "gated" => field.form = Form::Gated,
        "!" => field.required = true,
        "optional" => field.required = false,
        "always" => {
            field.required = false;
            schema.rules.get_or_insert_default().always = true;
        }
        "" => schema.default = serde_json::from_str(value).ok(),
        "set" => schema.list = ListType::Set,
        "map" => schema.list = ListType::Keyed(value.split(',').map(Into::into).collect()),
        "atomic" => schema.atomic = true,
        "merge" if value.is_empty() => schema.patch.merges = true,
        "merge" => schema.patch.key = Some(value.into()),
        "retainKeys" => schema.patch.retains_keys = true,
        "replace" => schema.patch.replaces = true,
        "go" => schema.go = Some(value.into()),
        _ => rule(schema.rules.get_or_insert_default(), name, value),
    }
}

fn rule(rules: &mut Rules, name: &str, value: &str) {
    rules.is_go = true;
    match name {
        "any" => rules.allowed.clear(),
        "enum" => rules.allowed = value.split(',').map(Into::into).collect(),
        "min" => rules.minimum = value.parse().ok(),
        "max" => rules.maximum = value.parse().ok(),
        "immutable" => rules.immutable = true,
        "sealed" => rules.sealed = true,
        format => {
            let known = Format::of(format);
            rules.format = Some(known.unwrap_or_else(|| panic!("there is no format {format}")));
        }
    }
}

fn is_struct(shape: &Shape, line: &str) -> bool {
    match shape {
        Shape::Named(_) | Shape::Quantity | Shape::IntOrString | Shape::Any => true,
        Shape::Time | Shape::MicroTime => !line.split(' ').any(|it| it == "0"),
        _ => false,
    }
}

fn shape(word: &str, names: &HashMap<Box<str>, usize>) -> Shape {
    if let Some(items) = word.strip_prefix('[') {
        return Shape::List(Arc::new(Schema::new(shape(items, names))));
    }
    if let Some(values) = word.strip_prefix('{') {
        return Shape::Map(Arc::new(Schema::new(shape(values, names))));
    }
    match word {
        "string" => Shape::Text,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "float64" => Shape::Double,
        "bytes" => Shape::Bytes,
        "quantity" => Shape::Quantity,
        "time" => Shape::Time,
        "microtime" => Shape::MicroTime,
        "int-or-string" => Shape::IntOrString,
        "any" => Shape::Any,
        name => Shape::Named(Named(names[name])),
    }
}
